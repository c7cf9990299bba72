import Encoding
import Subscriptions
import TestSupport
import Testing

/// Two items of one purchase token: Google charges both with one order.
///
/// - Source: developer.android.com, "Subscription with add-ons".
@Suite("A plan and an add-on of Google")
struct AddOnTests {
    /// A month of a plan at 9.00 with an add-on at 3.00, and a renewal of both or of the plan alone.
    private static func story(addOn: String, isRemoved: Bool = false) -> PlayStory {
        func priced(_ snapshot: inout PurchaseSnapshot) {
            snapshot.items[0].price = 9000
            snapshot.items[0].currency = "EUR"
        }
        func both(_ snapshot: inout PurchaseSnapshot) {
            priced(&snapshot)
            var item = snapshot.items[0]
            item.productId = addOn
            item.price = 3000
            snapshot.items.append(item)
        }
        var story = PlayStory()
        story.answer(
            "2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", order: "GPA.1", change: both)
        story.answer(
            "2026-06-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-07-01", order: "GPA.1..0",
            change: isRemoved ? priced : both)
        return story
    }

    private static func told(_ subscription: Subscription) -> [String] {
        subscription.reportingPeriods.map { period in
            let adds = (period.effectiveStart ?? period.period.start) < (period.effectiveEnd ?? period.period.end)
            return [
                period.period.productId ?? "-", period.price.map(String.init) ?? "-", adds ? "adds" : "-",
                period.movement?.rawValue ?? "-", period.paymentNumber.map(String.init) ?? "-",
                period.previousProductId ?? "-",
            ].joined(separator: " ")
        }
    }

    @Test(
        "count once, at the price of both, whichever name comes first in the alphabet, in any order",
        arguments: ["audio", "zoom"], Arrival.allCases)
    func together(_ addOn: String, _ arrival: Arrival) throws {
        let events = arrival.arrange(Self.story(addOn: addOn).events)
        let subscription = try #require(PlayStory.fold(events)["t1"])

        #expect(
            Self.told(subscription) == [
                "premium:monthly 12000 adds new 1 -", "\(addOn):monthly 12000 - - - -",
                "premium:monthly 12000 adds renewal 2 -", "\(addOn):monthly 12000 - - - -",
            ])
        #expect(subscription.lastReportingPeriod?.period.productId == "premium:monthly")
        let renewal = subscription.renewal(at: day("2026-06-10"))
        #expect(renewal.renewalPrice == 12_000)
        #expect(renewal.autoRenewProductId == "premium:monthly")
    }

    @Test(
        "without the add-on, the plan renews at its own price, and that is no change of plan",
        arguments: ["audio", "zoom"])
    func removed(_ addOn: String) throws {
        let subscription = Self.story(addOn: addOn, isRemoved: true).subscription

        #expect(
            Self.told(subscription) == [
                "premium:monthly 12000 adds new 1 -", "\(addOn):monthly 12000 - - - -",
                "premium:monthly 9000 adds renewal 2 -",
            ])
        #expect(subscription.renewal(at: day("2026-06-10")).renewalPrice == 9000)
    }
}
