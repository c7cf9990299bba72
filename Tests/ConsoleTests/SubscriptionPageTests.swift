import Encoding
import Readers
import Subscriptions
import Testing

@testable import Console

@Suite("The page of a subscription says what comes next, and why it ended")
struct SubscriptionPageTests {
    /// A page about a subscription with a month, as its renewal is stated.
    private static func page(
        refunded: Double? = nil, at days: Double = 20, _ renewal: RenewalInfo, statedOn stated: Double
    ) -> SubscriptionPage {
        var facts = SubscriptionFacts(originalTransactionId: "100")
        facts.fold(
            Facts(transactions: [TimelineTests.transaction(0, from: 0, to: 30)], renewals: []),
            occurredAt: TimelineTests.at(0), receivedAt: TimelineTests.at(0), position: 1)
        let later = refunded.map { TimelineTests.transaction(0, from: 0, to: 30, refunded: $0) }
        facts.fold(
            Facts(transactions: [later].compactMap(\.self), renewals: [renewal]), occurredAt: TimelineTests.at(stated),
            receivedAt: TimelineTests.at(stated), position: 2)
        let subscription = Subscription(facts)
        return SubscriptionPage(
            app: "a", subscription: subscription,
            known: SubscriptionReader.Known(facts: facts, subscription: subscription), checks: nil, customer: nil,
            explanations: [], events: [], names: [:], at: TimelineTests.at(days), knownAt: nil, span: .latest,
            address: Address("subscriptions", "100"))
    }

    private static func html(_ page: SubscriptionPage, now days: Double) -> String {
        var html = HTMLWriter()
        page.write(in: TimelineTests.frame(now: TimelineTests.at(days)), to: &html)
        return String(decoding: html.bytes, as: UTF8.self)
    }

    private static func renewals(_ page: SubscriptionPage) -> String {
        page.tables.first { $0.name == "renewals" }?.csv ?? ""
    }

    @Test("the next renewal has its date and its price, and one that is off is no renewal")
    func next() {
        var on = TimelineTests.renewal(true, at: 10)
        (on.renewalPrice, on.currency) = (1630, "EUR")
        let open = Self.html(Self.page(on, statedOn: 10), now: 20)
        let past = Self.html(Self.page(on, statedOn: 10), now: 84)
        let grace = Self.html(
            Self.page(at: 32, TimelineTests.renewal(true, at: 30, grace: 36), statedOn: 30), now: 32)
        let off = Self.html(Self.page(TimelineTests.renewal(false, at: 10), statedOn: 10), now: 20)

        #expect(open.contains("Renews on <time datetime=\"2025-07-15T15:06:40"), "\(open)")
        #expect(open.contains(" for 1.63 EUR; access ends if it is not renewed."))
        #expect(!past.contains("Renews on"), "\(past)")
        #expect(!grace.contains("Renews on") && grace.contains("Next: on <time"), "\(grace)")
        #expect(!off.contains("Renews on") && off.contains("if nothing new is reported before."), "\(off)")
        #expect(off.contains("<strong>active, renewal is off</strong>, access until <time"))
    }

    @Test("what ended with a refund is not called cancelled by the customer, nor the other way round")
    func reasons() {
        func ended(_ days: Double) -> RenewalInfo {
            var renewal = TimelineTests.renewal(false, at: days)
            renewal.expirationIntent = 1
            return renewal
        }
        let refunded = Self.renewals(Self.page(refunded: 12, ended(12), statedOn: 12))
        let cancelled = Self.renewals(Self.page(ended(30), statedOn: 30))
        let refundedLater = Self.renewals(Self.page(refunded: 45, ended(30), statedOn: 30))

        #expect(refunded.contains("refunded (stated as cancelled)"), "\(refunded)")
        for table in [cancelled, refundedLater] { #expect(table.contains("cancelled by the customer"), "\(table)") }
    }
}
