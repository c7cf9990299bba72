import Encoding
import Subscriptions
import TestSupport
import Testing

/// The expected amounts were computed by hand: the prices of tiers times their seats.
@Suite("Money of subscriptions with seats")
struct SeatMoneyTests {
    private static func additional(_ json: String) throws -> CanonicalJSON {
        CanonicalJSON(try JSONDocument(Array(json.utf8)).root)
    }

    /// A purchase of seats, whose price is stated as the average of one.
    private static func seats(
        _ id: String, _ start: String, _ end: String, _ tiers: [(price: Int64, quantity: Int)],
        product: String = "team",
        isAdded: Bool = false, revoked: Int? = nil, change: (inout Transaction) -> Void = { _ in }
    ) throws -> Transaction {
        let seats = tiers.map(\.quantity).reduce(0, +)
        let text = tiers.map { "{\"price\":\($0.price),\"quantity\":\($0.quantity)}" }.joined(separator: ",")
        let refund = revoked.map { ",\"revokedSeatQuantity\":\($0)" } ?? ""
        let reason = isAdded ? ",\"additionalTransactionReason\":\"SEAT_ADDITION\"" : ""
        let other = try additional(
            "{\"multiSeatInfo\":{\"invitationManagement\":\"APPLE\",\"priceTiers\":[\(text)]\(refund)}\(reason)}")
        return AnalystLog.charge(id, "\(start)T12:00:00Z", "\(end)T12:00:00Z", product: product) {
            $0.quantity = seats
            $0.price = tiers.map { $0.price * Int64($0.quantity) }.reduce(0, +) / Int64(seats)
            ($0.currency, $0.storefront, $0.inAppOwnershipType) = ("EUR", "DEU", "PURCHASED")
            $0.additional = other
            change(&$0)
        }
    }

    /// Five seats for 9.00, three more for 4.50 ten days later, both renewed by two purchases with one order line. Two of
    /// the five are refunded on February 15. The next renewal fails, and grace is granted until March 20. The member 801
    /// pays nothing.
    private static func stated() throws -> [AnalystLog.Stated] {
        let five = [(price: Int64(2000), quantity: 3), (price: Int64(1500), quantity: 2)]
        let three = [(price: Int64(1500), quantity: 3)]
        let line = { (name: String) in { (row: inout Transaction) in row.webOrderLineItemId = name } }
        var grace = RenewalInfo(originalTransactionId: "800")
        grace.isInBillingRetryPeriod = true
        grace.autoRenewStatus = true
        grace.gracePeriodExpiresDate = AnalystLog.date("2025-03-20T12:00:00Z")
        let renewed = { (revoked: Int?) in
            try seats("800-3", "2025-02-10", "2025-03-10", five, isAdded: true, revoked: revoked, change: line("w9"))
        }
        return [
            .init(
                "2025-01-10T12:00:00Z",
                [
                    try seats("800", "2025-01-10", "2025-02-10", five, change: line("w8")),
                    try seats("801", "2025-01-10", "2025-02-10", five) { $0.inAppOwnershipType = "ASSIGNED" },
                ]),
            .init(
                "2025-01-20T12:00:00Z",
                [try seats("800-2", "2025-01-20", "2025-02-10", three, isAdded: true, change: line("w8"))]),
            .init(
                "2025-02-10T12:00:00Z",
                [
                    try renewed(nil),
                    try seats("800-4", "2025-02-10", "2025-03-10", three, isAdded: true, change: line("w9")),
                ]),
            .init("2025-02-15T12:00:00Z", [try renewed(2)]),
            .init("2025-03-10T12:00:00Z", [], [grace]),
        ]
    }

    @Test("revenue has each purchase of seats with its tiers, and their refund on its day")
    func revenue() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(try Self.stated(), log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, payments, gross, new, renewal, refunded, refunded_here, unpriced)
                    from analyst.revenue
                    order by day
                    """) == [
                        "2025-01-10 1 9.000 9.000 0 0 0 0", "2025-01-20 1 4.500 0 4.500 0 0 0",
                        "2025-02-10 2 13.500 0 13.500 3.600 0 0", "2025-02-15 0 0 0 0 0 3.600 0",
                    ])
            #expect(
                try await log.lines(
                    "select concat_ws(' ', transaction_id, refund, amount) from analyst.refunds_detail order by 1")
                    == ["800-3 part 3.600"])
            #expect(
                try await log.lines(
                    "select concat_ws(' ', purchases, refunded, amount, refunded_amount) from analyst.refund_rate order by month"
                )
                    == ["2 0 13.500 0", "2 1 13.500 3.600"])
        }
    }

    @Test("the monthly value is that of all seats: an addition is an expansion, and grace keeps the value of all")
    func monthlyValue() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(try Self.stated(), log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, subscriptions, mrr)
                    from analyst.mrr
                    where day in ('2025-01-11', '2025-01-20', '2025-01-21', '2025-02-11', '2025-03-10')
                    order by day
                    """) == [
                        "2025-01-11 1 9.000", "2025-01-20 1 9.000", "2025-01-21 1 13.500", "2025-02-11 1 13.500",
                        "2025-03-10 1 13.500",
                    ])
            #expect(
                try await log.lines(
                    "select concat_ws(' ', first_day, last_day, round(mrr, 3)) from analyst.mrr_in_grace_detail order by 1"
                )
                    == ["2025-03-11 2025-03-20 13.500"])
            #expect(
                try await log.lines(
                    "select concat_ws(' ', day, movement, mrr) from analyst.mrr_movements_detail order by day")
                    == ["2025-01-10 new 9.000", "2025-01-20 expansion 4.500", "2025-03-20 churn -13.500"])
        }
    }

    @Test("an order line that two refunded additions name is two refunds")
    func refundedAdditions() async throws {
        let refunded = { (id: String, price: Int64) in
            try Self.seats(id, "2025-04-10", "2025-05-10", [(price, 2)], isAdded: true) {
                $0.webOrderLineItemId = "w1"
                $0.revocationDate = AnalystLog.date("2025-04-12T12:00:00Z")
                $0.revocationType = "REFUND_FULL"
            }
        }
        let stated = [
            AnalystLog.Stated("2025-04-10T12:00:00Z", [try Self.seats("820", "2025-04-10", "2025-05-10", [(3000, 1)])]),
            AnalystLog.Stated("2025-04-12T12:00:00Z", [try refunded("820-2", 1000), try refunded("820-3", 2000)]),
        ]
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(stated, log)

            #expect(
                try await log.lines("select concat_ws(' ', in_full, in_part, amount) from analyst.refunds")
                    == ["2 0 6.000"])
            #expect(
                try await log.lines("select concat_ws(' ', gross, refunded) from analyst.revenue where gross > 0")
                    == ["9.000 6.000"])
        }
    }

    @Test("time that two purchases pay for, or that is still to come, counts once in the years of service")
    func yearsOfService() async throws {
        let row = { (id: String, start: String, isAdded: Bool) in
            try Self.seats(
                id, start, start < "2025" ? "2025-01-01" : "2026-01-01", [(10_000, 2)], product: "teams",
                isAdded: isAdded)
        }
        let rows = [
            try row("830", "2024-01-01", false), try row("830-2", "2024-03-01", true),
            try row("830-3", "2024-12-01", true), try row("830-4", "2025-01-01", false),
        ]
        try await SimulatedLog.with { log in
            try await AnalystLog.fold([AnalystLog.Stated("2025-01-01T12:00:00Z", rows)], log)

            #expect(
                try await log.lines("select transaction_id from analyst.revenue_detail where is_later") == ["830-4"])
        }
    }

    @Test("the outlook has what all seats of the next renewal cost, in one currency where there is a rate")
    func outlook() async throws {
        var renewal = RenewalInfo(originalTransactionId: "840")
        (renewal.autoRenewStatus, renewal.renewalPrice, renewal.currency) = (true, 2000, "EUR")
        renewal.additional = try Self.additional(
            #"{"multiSeatInfo":{"renewalPriceTiers":[{"price":2500,"quantity":2},{"price":1500,"quantity":2}]},"renewalQuantity":4}"#
        )
        let other = { (id: String, price: Int64, currency: String, storefront: String) in
            AnalystLog.charge(id, "2025-05-01", "2099-05-20", product: "monthly") {
                ($0.price, $0.currency, $0.storefront) = (price, currency, storefront)
            }
        }
        let stated = [
            AnalystLog.Stated(
                "2025-05-01", [try Self.seats("840", "2025-05-01", "2099-05-10", [(2000, 4)])], [renewal]),
            AnalystLog.Stated("2025-05-02", [other("850", 12_000, "USD", "USA"), other("860", 50_000, "BRL", "BRA")]),
        ]
        try await SimulatedLog.with { log in
            try await log.script(
                "insert into subledger.exchange_rate (currency, day, per_euro) values ('USD', current_date - 1, 1.2)")
            try await AnalystLog.fold(stated, log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, store, product_id, country, currency, auto_renew, subscriptions, amount,
                      unconverted)
                    from analyst.renewal_outlook_in('EUR')
                    order by country
                    """) == [
                        "2099-05-01 apple monthly BRA BRL unknown 1 50.000",
                        "2099-05-01 apple team DEU EUR on 1 8.000", "2099-05-01 apple monthly USA USD unknown 1 10.000",
                    ])
        }
    }
}
