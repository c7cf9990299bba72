import Encoding
import Readers
import Subscriptions
import Testing

@testable import Console

@Suite("The forms for a purchase on Google Play are those that Google accepts")
struct StoreActsSectionTests {
    /// The labels of the forms of a subscription that was bought on day 0.
    private static func forms(_ state: String, at days: Double = 10, isVoided: Bool = false) -> Set<String> {
        var facts = SubscriptionFacts(originalTransactionId: "token-1")
        func fold(_ state: String, on day: Double, until end: Double, _ void: PurchaseVoid? = nil) {
            var snapshot = PurchaseSnapshot(purchaseToken: "token-1", kind: .subscription, stateName: state)
            snapshot.startTime = TimelineTests.at(0)
            var item = PurchaseSnapshot.Item(productId: "premium")
            (item.orderId, item.expiryTime) = ("GPA.1", TimelineTests.at(end))
            snapshot.items = [item]
            facts.fold(
                Facts(
                    transactions: [], renewals: [],
                    purchases: [PurchaseFact.snapshot(snapshot)] + (void.map { [PurchaseFact.void($0)] } ?? [])),
                occurredAt: TimelineTests.at(day), receivedAt: TimelineTests.at(day), position: Int64(day))
        }
        if state != "PENDING" { fold("ACTIVE", on: 1, until: 30) }
        let void = PurchaseVoid(
            purchaseToken: "token-1", orderId: "GPA.1", voidedAt: TimelineTests.at(5), isExactTime: true)
        fold(state, on: 9, until: state == "EXPIRED" ? 5 : 30, isVoided ? void : nil)
        let now = TimelineTests.at(days)
        let stream = StreamState(
            streamId: 1, app: "a", environment: "production", head: 1, folded: 1, waitingSince: nil)
        let frame = PageFrame(
            address: Address("subscriptions", "token-1"), streams: [stream], stream: stream, now: now, csrf: "",
            isAdmin: false, mayAct: true, theme: .system, hasKeys: true)
        var html = HTMLWriter()
        StoreActsSection(subscription: Subscription(facts), writes: [], stores: [.google]).write(in: frame, to: &html)
        let text = String(decoding: html.bytes, as: UTF8.self)
        return Set(text.matches(of: /name="act" value="([a-z]+)"/).map { String($0.output.1) })
    }

    @Test("what renews can be stopped and deferred, what gives access can be ended, and an order is refunded once")
    func states() {
        for state in ["ACTIVE", "IN_GRACE_PERIOD", "ON_HOLD", "PAUSED", "SOMETHING_NEW"] {
            #expect(Self.forms(state) == ["cancel", "defer", "revoke", "refund"], "\(state)")
        }
        #expect(Self.forms("CANCELED") == ["revoke", "refund"])
        #expect(Self.forms("EXPIRED") == ["refund"])
        #expect(!Self.forms("PENDING").contains("revoke"))
        #expect(Self.forms("EXPIRED", isVoided: true).isEmpty)
    }

    @Test("an order can be refunded for three years")
    func old() {
        #expect(Self.forms("EXPIRED", at: 1090) == ["refund"])
        #expect(Self.forms("EXPIRED", at: 1100).isEmpty)
    }
}
