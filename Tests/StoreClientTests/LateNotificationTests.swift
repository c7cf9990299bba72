import Encoding
import EventLog
import Subscriptions
import Testing

@testable import StoreClient

@Suite("An answer of Google Play that does not show what a notification says may be late")
struct LateNotificationTests {
    private static let event = Instant(iso8601: "2026-03-01T12:00:00.000Z")!

    private static func snapshot(
        _ state: PurchaseSnapshot.State, end: Int64? = nil, cancelled: Int64? = nil
    ) -> PurchaseSnapshot {
        var snapshot = PurchaseSnapshot(purchaseToken: "t", kind: .subscription, stateName: state.rawValue)
        var item = PurchaseSnapshot.Item(productId: "p")
        item.expiryTime = end.map { event.advanced(by: .seconds($0)) }
        snapshot.items = [item]
        snapshot.cancelTime = cancelled.map { event.advanced(by: .seconds($0)) }
        return snapshot
    }

    private static func isMet(
        _ type: String, _ expected: PurchaseSnapshot.State..., by snapshot: PurchaseSnapshot
    ) -> Bool {
        PurchaseNotification(type: type, eventTime: event, expectedStates: Set(expected.map(\.rawValue)))
            .isMet(by: snapshot)
    }

    @Test("one that shows it is not late; a renewal shows in the end of the period")
    func shown() {
        #expect(Self.isMet("SUBSCRIPTION_CANCELED", .canceled, .expired, by: Self.snapshot(.canceled)))
        #expect(Self.isMet("SUBSCRIPTION_RENEWED", .active, by: Self.snapshot(.active, end: 1)))
        #expect(!Self.isMet("SUBSCRIPTION_RENEWED", .active, by: Self.snapshot(.active, end: 0)))
        #expect(Self.isMet("SUBSCRIPTION_ITEMS_CHANGED", by: Self.snapshot(.paused)))
    }

    @Test("one with a state from before the notification is late")
    func late() {
        #expect(!Self.isMet("SUBSCRIPTION_CANCELED", .canceled, .expired, by: Self.snapshot(.active, end: 100)))
        #expect(!Self.isMet("SUBSCRIPTION_RECOVERED", .active, by: Self.snapshot(.onHold, end: -100)))
        #expect(!Self.isMet("SUBSCRIPTION_PURCHASED", .active, by: Self.snapshot(.pending)))
        #expect(!Self.isMet("SUBSCRIPTION_REVOKED", .expired, by: Self.snapshot(.canceled, end: 100, cancelled: -1)))
        #expect(!Self.isMet("SUBSCRIPTION_RESTARTED", .active, by: Self.snapshot(.canceled, end: 100, cancelled: 0)))
    }

    @Test("one from after a later event is not: the purchase has ended, or was cancelled afterwards")
    func overtaken() {
        #expect(Self.isMet("SUBSCRIPTION_RENEWED", .active, by: Self.snapshot(.expired, end: -3600)))
        #expect(Self.isMet("SUBSCRIPTION_PURCHASED", .active, by: Self.snapshot(.canceled, end: 100, cancelled: 1)))
        #expect(Self.isMet("ONE_TIME_PRODUCT_PURCHASED", .purchased, by: Self.snapshot(.cancelled)))
        // It never was anything else, so it contradicts the notification.
        #expect(!Self.isMet("SUBSCRIPTION_PURCHASED", .active, by: Self.snapshot(.pendingPurchaseCanceled)))
    }
}
