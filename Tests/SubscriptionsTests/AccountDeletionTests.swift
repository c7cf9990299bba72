import Encoding
import Subscriptions
import TestSupport
import Testing

/// The App Store answers with status 21010 about a deleted Apple Account: as if the customer had never bought.
@Suite("A deleted Apple Account")
struct AccountDeletionTests {
    private let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    private let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")
    private let deletion = Told(deletionAt: "2018-04-01")

    @Test("closes access as if all purchases had been refunded in full", arguments: Arrival.allCases)
    func closes(_ arrival: Arrival) throws {
        let told = [Told("2018-02-20", [rowA]), Told("2018-03-20", [rowB]), deletion]
        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.access == [])
        #expect(subscription.status(at: day("2018-04-02")) == .refunded)
        #expect(subscription.transactions.map(\.transaction.revocationDate) == [day("2018-04-01"), day("2018-04-01")])
        #expect(subscription.transactions.allSatisfy { $0.settled.isRefunded })
    }

    @Test("the event of the deletion is among the evidence of each transaction")
    func positions() {
        let subscription = Subscription(arriving: [
            Told("2018-02-20", [rowA]), deletion, Told("2018-03-20", [rowB]),
        ])

        #expect(subscription.transactions.map(\.positions) == [[1, 2], [2, 3]])
    }

    @Test("before the deletion was known, access was open")
    func before() {
        let told = [Told("2018-02-20", [rowA]), Told("2018-03-20", [rowB])]

        #expect(Subscription(arriving: told).spans == [Span("2018-02-20", "2018-04-20")])
        #expect(Subscription(arriving: told + [deletion]).spans == [])
    }

    @Test("a transaction that is reported later counts again, the others do not", arguments: Arrival.allCases)
    func laterReport(_ arrival: Arrival) {
        let told = [
            Told("2018-02-20", [rowA]), Told("2018-03-20", [rowB]), deletion, Told("2018-04-02", [rowB]),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [Span("2018-03-20", "2018-04-20")])
    }

    @Test("a report of the same time is covered by the deletion, one of a millisecond later is not")
    func boundary() {
        let at = day("2018-04-01")

        #expect(Subscription(arriving: [Told(at, [rowB]), deletion]).access == [])
        #expect(
            Subscription(arriving: [Told(at.advanced(byMilliseconds: 1), [rowB]), deletion]).spans
                == [Span("2018-03-20", "2018-04-20")])
    }

    @Test("of several deletions, the first one after the last report dates the refund", arguments: Arrival.allCases)
    func several(_ arrival: Arrival) {
        let told = [
            Told(deletionAt: "2018-02-01"), Told("2018-03-20", [rowB]), deletion, Told(deletionAt: "2018-05-01"),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.transactions.map(\.transaction.revocationDate) == [day("2018-04-01")])
    }

    @Test("a purchase that was refunded before keeps the date of its refund")
    func refundedBefore() {
        let subscription = Subscription(arriving: [Told("2018-03-01", [rowA.refunded("2018-03-01")]), deletion])

        #expect(subscription.transactions.map(\.transaction.revocationDate) == [day("2018-03-01")])
        #expect(subscription.access == [])
    }

    @Test("a period that was cut short is removed, too", arguments: [true, false])
    func cutBefore(isUpgrade: Bool) {
        var row = rowA.refunded("2018-03-01")
        if isUpgrade { row.isUpgraded = true } else { row.revocationType = "REFUND_PRORATED" }

        #expect(Subscription(arriving: [Told("2018-03-01", [row])]).spans == [Span("2018-02-20", "2018-03-01")])
        #expect(Subscription(arriving: [Told("2018-03-01", [row]), deletion]).spans == [])
    }

    @Test("a family member's access that ended before does not last until the deletion")
    func familyMember() {
        var row = rowA.refunded("2018-03-01")
        row.inAppOwnershipType = "FAMILY_SHARED"

        let subscription = Subscription(arriving: [Told("2018-03-01", [row]), deletion])

        #expect(subscription.spans == [Span("2018-02-20", "2018-03-01")])
    }

    @Test("copies of one purchase are all refunded", arguments: Arrival.allCases)
    func copies(_ arrival: Arrival) {
        let copy = row("1000000000000009", "2018-03-25", "2018-04-20") {
            $0.webOrderLineItemId = rowB.webOrderLineItemId
        }
        let told = [Told("2018-03-20", [rowB]), Told("2018-03-25", [copy]), deletion]

        #expect(Subscription(arriving: arrival.arrange(told)).access == [])
    }

    @Test("grace after a failed renewal ends with the deletion")
    func grace() {
        let told = [
            Told(
                "2018-03-20", [rowA],
                [
                    intention(autoRenew: true) {
                        $0.isInBillingRetryPeriod = true
                        $0.gracePeriodExpiresDate = day("2018-04-05")
                    }
                ])
        ]

        #expect(Subscription(arriving: told).spans == [Span("2018-02-20", "2018-04-05")])
        #expect(Subscription(arriving: told + [deletion]).spans == [])
    }

    @Test("facts are the same in any order, and unchanged when they are stored and read", arguments: Arrival.allCases)
    func stored(_ arrival: Arrival) throws {
        let deliveries = [Told("2018-03-20", [rowB]), deletion, Told(deletionAt: "2018-05-01")].enumerated().map {
            Delivery(
                told: $0.element, receivedAt: SubscriptionFacts.arrival($0.offset), position: Int64($0.offset + 1))
        }
        var expected = SubscriptionFacts(originalTransactionId: testSubscription)
        var facts = expected
        for delivery in deliveries { expected.add(delivery) }
        for delivery in arrival.arrange(deliveries) { facts.add(delivery) }

        #expect(facts == expected)
        #expect(facts.canonicalBytes == expected.canonicalBytes)
        let read = try SubscriptionFacts(
            originalTransactionId: testSubscription, json: JSONDocument(facts.canonicalBytes).root)
        #expect(read == facts)
        #expect(read.canonicalBytes == facts.canonicalBytes)
    }

    @Test("the facts of an event name each subscription of the account")
    func facts() throws {
        let other = "1000000000000777"
        let facts = Facts(transactions: [], renewals: [], accountDeletions: [testSubscription, other])
        var writer = JSONWriter()
        writer.object { facts.writeMembers(to: &$0) }

        #expect(
            writer.text
                == #"{"transactions":[],"renewals":[],"accountDeletions":[{"originalTransactionId":"1000000000000001"},"#
                + #"{"originalTransactionId":"1000000000000777"}]}"#)
        let root = try JSONDocument(writer.bytes).root
        #expect(try Facts(json: root) == facts)
        #expect(facts.companion == testSubscription)
        #expect(Set(facts.bySubscription.keys) == [testSubscription, other])
        let stated = try EventFacts(json: root)
        #expect(Set(stated.bySubscription.keys) == [testSubscription, other])
        #expect(stated.companion == testSubscription)
        var folded = SubscriptionFacts(arriving: [Told("2018-03-20", [rowB])])
        folded.fold(
            try #require(stated.bySubscription[testSubscription]), occurredAt: nil, receivedAt: day("2018-04-01"),
            position: 2)
        #expect(Subscription(folded).access == [])
    }

    @Test("a deletion of another subscription's account changes nothing")
    func other() {
        var facts = SubscriptionFacts(arriving: [Told("2018-03-20", [rowB])])
        let before = facts

        facts.fold(
            Facts(transactions: [], renewals: [], accountDeletions: ["1000000000000777"]), occurredAt: nil,
            receivedAt: day("2018-04-01"), position: 2)

        #expect(facts == before)
    }
}

extension Told {
    init(deletionAt date: String, of subscription: String = testSubscription) {
        self.init(date, [])
        facts.accountDeletions = [subscription]
    }
}
