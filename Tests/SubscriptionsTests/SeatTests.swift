import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Subscriptions with seats")
struct SeatTests {
    private static func additional(_ json: String) -> CanonicalJSON? {
        (try? JSONDocument(Array(json.utf8)).root).map { CanonicalJSON($0) }
    }

    /// A purchase of seats, signed.
    private static func seats(
        _ id: String, _ start: String, _ end: String, _ quantity: Int, price: Int64, isAdded: Bool = false,
        change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        row("100000000000000\(id)", start, end) {
            $0.quantity = quantity
            $0.price = price
            $0.currency = "EUR"
            $0.signedDate = $0.purchaseDate
            $0.inAppOwnershipType = "PURCHASED"
            $0.transactionReason = "PURCHASE"
            let reason = isAdded ? ",\"additionalTransactionReason\":\"SEAT_ADDITION\"" : ""
            $0.additional = additional(
                "{\"multiSeatInfo\":{\"invitationManagement\":\"APPLE\","
                    + "\"priceTiers\":[{\"price\":\(price),\"quantity\":\(quantity)}]}\(reason)}")
            change(&$0)
        }
    }

    private static let bought = seats("1", "2026-10-25", "2026-11-25", 5, price: 2000)
    private static let added = seats("2", "2026-11-01", "2026-11-25", 3, price: 1500, isAdded: true)

    private static func told(_ transactions: Transaction...) -> [Told] {
        transactions.map { Told($0.signedDate ?? .latest, [$0], [intention(autoRenew: true)]) }
    }

    @Test("an addition begins no period and no payment, and adds its money from then on", arguments: Arrival.allCases)
    func addition(_ arrival: Arrival) {
        let subscription = Subscription(arriving: arrival.arrange(Self.told(Self.bought, Self.added)))
        let periods = subscription.reportingPeriods

        #expect(subscription.spans == [Span("2026-10-25", "2026-11-25")])
        #expect(subscription.access.allSatisfy { $0.cut == nil })
        #expect(periods.map(\.movement) == [.new, nil])
        #expect(periods.map(\.paymentNumber) == [1, nil])
        #expect(periods.map(\.price) == [10_000, 14_500])
        #expect(periods.map { $0.effectiveStart ?? $0.period.start } == [day("2026-10-25"), day("2026-11-01")])
        #expect(periods.map { $0.effectiveEnd ?? $0.period.end } == [day("2026-11-01"), day("2026-11-25")])
        #expect(periods.allSatisfy { $0.previousCut == nil && $0.churnedAt == nil })
    }

    @Test(
        "the next renewal costs what all of its seats cost, as far as that is stated",
        arguments: [
            (#""multiSeatInfo":{"renewalPriceTiers":[{"price":2500,"quantity":3}]},"renewalQuantity":3"#, 7500),
            (#""multiSeatInfo":{},"renewalQuantity":4"#, 8000), (#""renewalQuantity":4"#, 8000),
            (#""renewalQuantity":0"#, nil), (#""multiSeatInfo":{}"#, nil), ("", 2000),
        ] as [(String, Int64?)])
    func priceOfRenewal(additional: String, price: Int64?) {
        let renewal = intention(autoRenew: true) {
            $0.renewalPrice = 2000
            $0.additional = Self.additional("{\(additional)}")
        }

        #expect(renewal.priceOfRenewal == price)
    }

    @Test("two transactions of one renewal are one renewal with the money of both", arguments: Arrival.allCases)
    func renewal(_ arrival: Arrival) {
        let third = Self.seats("3", "2026-11-25", "2026-12-25", 5, price: 2000, isAdded: true) {
            $0.transactionReason = "RENEWAL"
        }
        let fourth = Self.seats("4", "2026-11-25", "2026-12-25", 3, price: 1500, isAdded: true) {
            $0.transactionReason = "RENEWAL"
        }
        let told = Self.told(Self.bought, Self.added, third, fourth)
        let periods = Subscription(arriving: arrival.arrange(told)).reportingPeriods

        #expect(periods.compactMap(\.movement) == [.new, .renewal])
        #expect(periods.compactMap(\.paymentNumber) == [1, 2])
        #expect(periods[2...3].map(\.price) == [14_500, 14_500])
        #expect((periods[3].effectiveStart ?? periods[3].period.start) >= periods[3].period.end)
    }

    @Test("the price is that of all seats, and unknown tiers leave what is stated")
    func prices() {
        let tiers = Self.seats("1", "2026-10-25", "2026-11-25", 5, price: 1800) {
            $0.additional = Self.additional(
                #"{"multiSeatInfo":{"priceTiers":[{"price":1000,"quantity":1},{"price":2000,"quantity":4}]}}"#)
        }
        for (transaction, price) in [
            (tiers, 9000), (Self.bought, 10_000),
            (Self.seats("1", "2026-10-25", "2026-11-25", 5, price: 1800) { $0.additional = nil }, 1800),
            (
                Self.seats("1", "2026-10-25", "2026-11-25", 5, price: 1800) {
                    $0.additional = Self.additional(#"{"multiSeatInfo":{"priceTiers":[{"price":"a lot"}]}}"#)
                }, 1800
            ),
        ] as [(Transaction, Int64)] {
            #expect(Subscription(arriving: Self.told(transaction)).transactions.map(\.transaction.price) == [price])
        }
    }

    @Test(
        "a refund of the added seats leaves the others, also if both name one order line", arguments: Arrival.allCases)
    func refundedAddition(_ arrival: Arrival) {
        var refunded = Self.added.refunded("2026-11-10")
        refunded.signedDate = day("2026-11-10")
        refunded.webOrderLineItemId = Self.bought.webOrderLineItemId
        var added = Self.added
        added.webOrderLineItemId = Self.bought.webOrderLineItemId
        let subscription = Subscription(arriving: arrival.arrange(Self.told(Self.bought, added, refunded)))

        #expect(subscription.spans == [Span("2026-10-25", "2026-11-25")])
        #expect(subscription.status(at: day("2026-11-15")) != .refunded)
        #expect(subscription.transactions.map(\.settled.isRefunded) == [false, true])
    }

    @Test("an addition whose first purchase is not known is a purchase of its own", arguments: [1, 2])
    func missing(_ times: Int) {
        let told = Array(repeating: Self.told(Self.added), count: times).flatMap(\.self)
        let periods = Subscription(arriving: told).reportingPeriods

        #expect(periods.map(\.movement) == [.new])
        #expect(periods.map(\.price) == [4500])
    }

    /// A generated life of a subscription with seats: its transactions, and what is paid per period on each day.
    private struct Life {
        var transactions: [Transaction] = []
        /// The price of all seats of the current period, since each day.
        var prices: [(since: Instant, price: Int64)] = []
        let starts: [Instant]
        let end: Instant

        private static let dayLength: Int64 = 86_400_000
        private static let periodDays: Int64 = 30

        init(_ generator: inout SeededGenerator) {
            let periods = Int.random(in: 1...5, using: &generator)
            let first = day("2026-10-01")
            starts = (0..<periods).map { first.advanced(byMilliseconds: Int64($0) * Self.periodDays * Self.dayLength) }
            end = first.advanced(byMilliseconds: Int64(periods) * Self.periodDays * Self.dayLength)
            for start in starts {
                let end = start.advanced(byMilliseconds: Self.periodDays * Self.dayLength)
                // A renewal has the seats of before, more of them or fewer, in one transaction or in several.
                let parts = start == first ? 1 : Int.random(in: 1...3, using: &generator)
                for _ in 0..<parts { add(start, end, isAdded: parts > 1, &generator) }
                var instant = start
                for _ in 0..<Int.random(in: 0...2, using: &generator) {
                    let days = Int64.random(in: 1...14, using: &generator)
                    instant = instant.advanced(byMilliseconds: days * Self.dayLength)
                    add(instant, end, isAdded: true, &generator)
                }
            }
        }

        private mutating func add(
            _ start: Instant, _ end: Instant, isAdded: Bool, _ generator: inout SeededGenerator
        ) {
            let (quantity, price) = (
                Int.random(in: 1...30, using: &generator), Int64.random(in: 100...3000, using: &generator)
            )
            let transaction = SeatTests.seats(
                String(transactions.count), start.description, end.description, quantity, price: price, isAdded: isAdded
            ) { $0.transactionReason = starts.contains(start) && start != starts[0] ? "RENEWAL" : "PURCHASE" }
            transactions.append(transaction)
            // Another period begins without the seats of before.
            let isOther = starts.contains(start) && prices.last?.since != start
            let before = isOther ? 0 : prices.last?.price ?? 0
            prices.removeAll { $0.since == start }
            prices.append((start, before + price * Int64(quantity)))
        }
    }

    @Test("on each day of generated lives there is one period, with the money of all seats, in any order of arrival")
    func lives() {
        for number in 0..<300 {
            var generator = TestSeed.generator(number)
            let life = Life(&generator)
            let told = life.transactions.map { Told($0.signedDate ?? .latest, [$0], [intention(autoRenew: true)]) }
            for arrival in [told, told.reversed(), (told + told).shuffled(using: &generator)] {
                let subscription = Subscription(arriving: arrival)
                let periods = subscription.reportingPeriods
                let message = "seed \(TestSeed.value), life \(number)"

                #expect(subscription.spans == [Span(life.starts[0], life.end)], "\(message)")
                #expect(periods.compactMap(\.movement).count == life.starts.count, "\(message)")
                #expect(periods.compactMap(\.paymentNumber) == Array(1...life.starts.count), "\(message)")
                for (index, (since, price)) in life.prices.enumerated() {
                    let until = index + 1 < life.prices.count ? life.prices[index + 1].since : life.end
                    for instant in [since, until.advanced(byMilliseconds: -1)] {
                        let counted = periods.filter {
                            ($0.effectiveStart ?? $0.period.start) <= instant
                                && instant < ($0.effectiveEnd ?? $0.period.end)
                        }
                        #expect(counted.map(\.price) == [price], "\(message), \(instant)")
                    }
                }
            }
        }
    }

    /// The purchase with some of its seats refunded, as stated on a day.
    private static func refunded(_ seats: Int, of transaction: Transaction, on date: String) -> Transaction {
        var copy = transaction
        copy.signedDate = day(date)
        let (price, quantity) = ((transaction.price ?? 0), transaction.quantity ?? 0)
        copy.additional = additional(
            "{\"multiSeatInfo\":{\"invitationManagement\":\"APPLE\",\"revokedSeatQuantity\":\(seats),"
                + "\"priceTiers\":[{\"price\":\(price),\"quantity\":\(quantity)}]}}")
        return copy
    }

    @Test(
        "seats that are refunded are money that was paid back on their days, and access stays",
        arguments: Arrival.allCases)
    func refundedSeats(_ arrival: Arrival) throws {
        let (first, second) = (
            Self.refunded(1, of: Self.bought, on: "2026-11-02"), Self.refunded(3, of: Self.bought, on: "2026-11-09")
        )
        let told = Self.told(Self.bought, first, second)
        let subscription = Subscription(arriving: arrival.arrange(told))
        let row = try #require(subscription.transactions.first)

        #expect(row.paidBack.map(\.at) == [day("2026-11-02"), day("2026-11-09")])
        #expect(row.paidBack.map(\.amount) == [2000, 4000])
        #expect(row.settled.refundedPart(of: 10_000, at: .latest) == 6000)
        #expect(subscription.seats == 2)
        #expect(subscription.spans == [Span("2026-10-25", "2026-11-25")])
        #expect(subscription.access.map(\.cut) == [nil])
        #expect(subscription.status(at: day("2026-11-20")) == .active)
    }

    @Test("a refund of seats that is taken back is none, and one in a grace period takes no grace away")
    func refundedSeatsTakenBack() throws {
        let taken = Self.told(
            Self.bought, Self.refunded(2, of: Self.bought, on: "2026-11-02"),
            Self.refunded(0, of: Self.bought, on: "2026-11-05"))
        let back = Subscription(arriving: taken)
        #expect(back.transactions.map(\.paidBack) == [[]])
        #expect(back.transactions.map(\.settled.revocationDate) == [nil])
        #expect(back.seats == 5)

        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2026-11-28")
        }
        let inGrace = Subscription(
            arriving: [
                Told("2026-10-25", [Self.bought], [intention(autoRenew: true)]),
                Told("2026-11-25", [Self.refunded(2, of: Self.bought, on: "2026-11-25")], [failed]),
            ])
        #expect(inGrace.spans == [Span("2026-10-25", "2026-11-28")])
    }

    @Test("the seats are those of the period that ends last, added ones included, and of members none")
    func numberOfSeats() {
        let renewal = Self.seats("3", "2026-11-25", "2026-12-25", 4, price: 2000) { $0.transactionReason = "RENEWAL" }

        #expect(Subscription(arriving: Self.told(Self.bought)).seats == 5)
        #expect(Subscription(arriving: Self.told(Self.added, Self.bought)).seats == 8)
        #expect(Subscription(arriving: Self.told(Self.bought, Self.added, renewal)).seats == 4)
        #expect(Subscription(arriving: Self.told(Self.bought.assigned())).seats == nil)
        #expect(Subscription(arriving: Self.told(row("1", "2026-10-25", "2026-11-25"))).seats == nil)
    }

    @Test("another number of seats is published with the one before, and the first number is not")
    func publishedSeats() {
        func changes(_ before: [Transaction], _ now: [Transaction]) -> [Change] {
            func snapshot(_ all: [Transaction]) -> SubscriptionSnapshot {
                SubscriptionSnapshot(
                    Subscription(
                        arriving: all.map { Told($0.signedDate ?? .latest, [$0], [intention(autoRenew: true)]) }))
            }
            return snapshot(now).changes(
                from: snapshot(before), at: day("2026-11-12"), cause: .event(position: 9))
        }
        func published(_ before: Int, _ now: Int) -> Change {
            Change(
                .seatsChanged, of: testSubscription, at: day("2026-11-12"), cause: .event(position: 9),
                seats: Change.Seats(before: before, now: now))
        }
        let less = Self.refunded(3, of: Self.bought, on: "2026-11-09")

        #expect(changes([Self.bought], [Self.bought, Self.added]) == [published(5, 8)])
        #expect(changes([Self.bought], [Self.bought, less]) == [published(5, 2)])
        #expect(changes([], [Self.bought]).map(\.kind) == [.opened])
        #expect(changes([Self.bought], [Self.bought]) == [])
    }

    @Test("a member has access until the seat is taken back, pays nothing, and has no payer")
    func member() {
        let member = Self.bought.assigned()
        var revoked = member
        revoked.revocationDate = day("2026-11-10")
        revoked.revocationType = "ASSIGNMENT_REVOKE"
        revoked.signedDate = day("2026-11-10")
        for told in [Self.told(member, revoked), Self.told(revoked, member), Self.told(revoked)] {
            let subscription = Subscription(arriving: told)
            #expect(subscription.spans == [Span("2026-10-25", "2026-11-10")])
            #expect(subscription.reportingPeriods.map(\.payerState) == [.assigned])
            #expect(subscription.transactions.first?.settled.refundedPart(of: 10_000, at: .latest) == 0)
        }
    }

    @Test("the token of a member's row names no owner of the purchaser's subscription", arguments: Arrival.allCases)
    func owner(_ arrival: Arrival) {
        var own = Self.bought
        own.appAccountToken = "0a1b2c3d-0000-4000-8000-000000000001"
        var member = Self.seats("7", "2026-10-26", "2026-11-25", 5, price: 2000).assigned()
        member.appAccountToken = "0a1b2c3d-0000-4000-8000-000000000002"
        let facts = SubscriptionFacts(arriving: arrival.arrange(Self.told(own, member)))
        let customers = Customers(
            of: [facts.ownershipEvidence()], links: CustomerLinks([CustomerLinks.Link]()), policy: .latestBuyer)

        #expect(
            Set(customers.ownership.map(\.owner))
                == [CustomerKey(.account, "0a1b2c3d-0000-4000-8000-000000000001")])
    }
}

extension Transaction {
    fileprivate func assigned() -> Transaction {
        var copy = self
        copy.inAppOwnershipType = "ASSIGNED"
        return copy
    }
}
