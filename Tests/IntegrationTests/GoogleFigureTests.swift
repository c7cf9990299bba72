import Encoding
import Subscriptions
import TestSupport
import Testing

/// The numbers are computed by hand from the purchases. Days are counted from 2024-01-01, which is day 1: February begins
/// on day 32, March on day 61.
@Suite("The analyst views count purchases on Google Play")
struct GoogleFigureTests {
    typealias Told = CustomerLog.Told

    private static func answer(
        _ token: String, _ state: PurchaseSnapshot.State, on date: Int, start: Int, end: Int, order: String,
        product: String = "premium", price: Int64? = 9_990, currency: String = "USD",
        change: (inout PurchaseSnapshot) -> Void = { _ in }
    ) -> Told {
        var snapshot = PurchaseSnapshot(purchaseToken: token, kind: .subscription, stateName: state.rawValue)
        snapshot.startTime = day(start)
        var item = PurchaseSnapshot.Item(productId: product)
        item.expiryTime = day(end)
        item.orderId = order
        item.isAutoRenewing = state != .expired
        item.price = price
        item.currency = currency
        item.phase = "BASE_PRICE"
        snapshot.items = [item]
        change(&snapshot)
        return .purchase(.snapshot(snapshot), on: date)
    }

    private static func recovered(_ token: String, on date: Int) -> Told {
        .purchase(.notice(PurchaseNotice(purchaseToken: token, kind: .recovered, at: day(date))), on: date)
    }

    /// Two subscriptions that are renewed once, in two currencies.
    private static let renewed = [
        answer("usd", .active, on: 5, start: 5, end: 36, order: "G-1"),
        answer("usd", .active, on: 36, start: 5, end: 65, order: "G-1..0"),
        answer("eur", .active, on: 10, start: 10, end: 41, order: "G-2", price: 8_490, currency: "EUR"),
        answer("eur", .active, on: 41, start: 10, end: 70, order: "G-2..0", price: 8_490, currency: "EUR"),
    ]

    /// Paused from February 1 until March 1.
    private static let paused = [
        answer("pause", .active, on: 1, start: 1, end: 32, order: "G-3"),
        answer("pause", .paused, on: 32, start: 1, end: 32, order: "G-3") { $0.autoResumeTime = day(61) },
        recovered("pause", on: 61),
        answer("pause", .active, on: 61, start: 1, end: 92, order: "G-3..0"),
    ]

    /// In account hold from February 3 until February 20.
    private static let held = [
        answer("hold", .active, on: 3, start: 3, end: 34, order: "G-4"),
        answer("hold", .onHold, on: 34, start: 3, end: 34, order: "G-4"),
        recovered("hold", on: 51),
        answer("hold", .active, on: 51, start: 3, end: 80, order: "G-4..0"),
    ]

    /// Another plan from January 20 on, by a linked purchase.
    private static let upgraded = [
        answer("basic", .active, on: 7, start: 7, end: 38, order: "G-5", product: "basic"),
        answer("pro", .active, on: 20, start: 20, end: 51, order: "G-6", product: "pro", price: 19_990) {
            $0.linkedPurchaseToken = "basic"
        },
        answer("basic", .expired, on: 20, start: 7, end: 20, order: "G-5", product: "basic") {
            $0.cancelReason = .replaced
        },
    ]

    /// Bought on January 12 and taken back on January 15.
    private static let voided: [Told] = [
        answer("void", .active, on: 12, start: 12, end: 43, order: "G-7"),
        .purchase(
            .void(PurchaseVoid(purchaseToken: "void", orderId: "G-7", voidedAt: day(15), isExactTime: true)), on: 15),
    ]

    /// Topped up on January 30.
    private static let prepaid = [
        answer("top-1", .active, on: 2, start: 2, end: 33, order: "G-8", product: "prepaid", price: 5_000) {
            $0.items[0].isPrepaid = true
            $0.items[0].isAutoRenewing = nil
        },
        answer("top-2", .active, on: 30, start: 30, end: 61, order: "G-9", product: "prepaid", price: 5_000) {
            $0.items[0].isPrepaid = true
            $0.items[0].isAutoRenewing = nil
            $0.linkedPurchaseToken = "top-1"
        },
    ]

    private static let all = renewed + paused + held + upgraded + voided + prepaid

    private static func with(_ told: [Told], _ test: (CustomerLog) async throws -> Void) async throws {
        try await CustomerLog.with { log async throws in
            try await log.tell(told, inBatches: true)
            try await log.tell(
                [answer("test", .active, on: 5, start: 5, end: 36, order: "G-T")], environment: .sandbox)
            try await test(log)
        }
    }

    private static let mrr = """
        select concat_ws(' ', to_char(day, 'MM-DD'), currency, subscriptions, mrr)
        from analyst.mrr
        where environment = 'production'
          and day in ('2024-01-15', '2024-01-25', '2024-02-15', '2024-02-25', '2024-03-03')
          and subscriptions > 0
        order by 1
        """

    @Test("MRR: two currencies, nothing while paused or in hold, one plan of an upgrade, no void, prepaid or test")
    func mrr() async throws {
        let expected = [
            // usd, pause, hold, basic: four times 9.99.
            "01-15 EUR 1 8.490", "01-15 USD 4 39.960",
            // usd, pause, hold and, in place of basic, pro for 19.99.
            "01-25 EUR 1 8.490", "01-25 USD 4 49.960",
            // usd and pro; pause is paused, hold is in hold.
            "02-15 EUR 1 8.490", "02-15 USD 2 29.980",
            // usd and, since February 20, hold; pro ended that day.
            "02-25 EUR 1 8.490", "02-25 USD 2 19.980",
            // usd, hold and, since March 1, pause.
            "03-03 EUR 1 8.490", "03-03 USD 3 29.970",
        ]
        for told in [Self.all, Self.all.reversed()] {
            try await Self.with(told) { log async throws in
                #expect(try await log.lines(Self.mrr) == expected)
            }
        }
    }

    @Test("active subscriptions: a void counts until it was taken back, a pause and hold do not count")
    func active() async throws {
        try await Self.with(Self.all) { log async throws in
            let active = try await log.lines(
                """
                select concat_ws(' ', to_char(day, 'MM-DD'), sum(paying), sum(in_trial), sum(in_grace))
                from analyst.active_subscriptions
                where environment = 'production'
                  and day in ('2024-01-14', '2024-01-15', '2024-01-25', '2024-02-15', '2024-03-03')
                group by day
                order by 1
                """)

            // usd, eur, pause, hold and basic or pro; on January 14 void as well.
            #expect(active == ["01-14 6 0 0", "01-15 5 0 0", "01-25 5 0 0", "02-15 3 0 0", "03-03 4 0 0"])
        }
    }

    @Test("movements: an upgrade is no movement, hold and a pause that end are recoveries, a void is churn")
    func movements() async throws {
        try await Self.with(Self.all) { log async throws in
            let movements = try await log.lines(
                """
                select concat_ws(' ', to_char(at at time zone 'UTC', 'MM-DD'), movement, original_transaction_id,
                  case when movement = 'churn' then churn_reason end)
                from analyst.movements_detail
                where environment = 'production'
                order by at, original_transaction_id collate "C"
                """)

            #expect(
                movements == [
                    "01-01 new pause", "01-03 new hold", "01-05 new usd", "01-07 new basic", "01-10 new eur",
                    "01-12 new void", "01-15 churn void refund", "02-01 churn pause unknown",
                    "02-03 churn hold billing",
                    "02-05 renewal usd", "02-10 renewal eur", "02-20 churn basic unknown", "02-20 recovered hold",
                    "03-01 recovered pause", "03-05 churn usd unknown", "03-10 churn eur unknown",
                    "03-20 churn hold unknown", "04-01 churn pause unknown",
                ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', to_char(month, 'MM'), sum(new), sum(recovered), sum(churned), sum(net), sum(renewals))
                    from analyst.movements
                    where environment = 'production'
                    group by month
                    order by 1
                    """) == ["01 6 0 1 5 0", "02 0 1 3 -2 2", "03 0 1 3 -2 0", "04 0 0 1 -1 0"])
        }
    }

    @Test("retention: three of six have access after a month, two after two months")
    func retention() async throws {
        try await Self.with(Self.all) { log async throws in
            // After a month usd, eur and basic, as pro; after two months pause and hold again.
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', to_char(cohort, 'YYYY-MM'), months_since, subscriptions, active)
                    from analyst.retention
                    where environment = 'production'
                      and months_since <= 3
                    order by 1
                    """) == ["2024-01 0 6 6", "2024-01 1 6 3", "2024-01 2 6 2", "2024-01 3 6 0"])
        }
    }

    /// Grace from February 5, paid on February 7.
    private static let paidInGrace = [
        answer("paid", .active, on: 5, start: 5, end: 36, order: "G-10"),
        answer("paid", .inGracePeriod, on: 36, start: 5, end: 39, order: "G-10"),
        answer("paid", .active, on: 38, start: 5, end: 65, order: "G-10..0"),
    ]

    /// Grace from February 6, account hold from February 9, expired on March 10.
    private static let lostAfterGrace = [
        answer("lost", .active, on: 6, start: 6, end: 37, order: "G-11"),
        answer("lost", .inGracePeriod, on: 37, start: 6, end: 40, order: "G-11"),
        answer("lost", .onHold, on: 40, start: 6, end: 40, order: "G-11"),
        answer("lost", .expired, on: 70, start: 6, end: 40, order: "G-11") { $0.cancelReason = .system },
    ]

    @Test("failed renewals: grace and hold, recovered or lost, and no pause")
    func retries() async throws {
        for told in [Self.held + Self.paused + Self.paidInGrace + Self.lostAfterGrace] {
            try await Self.with(told) { log async throws in
                #expect(
                    try await log.lines(
                        """
                        select concat_ws(' ', to_char(due_at at time zone 'UTC', 'MM-DD'), original_transaction_id, outcome)
                        from analyst.billing_retries_detail
                        where environment = 'production'
                        order by 1
                        """) == ["02-03 hold recovered_later", "02-05 paid recovered_in_grace", "02-06 lost lost"])
            }
        }
    }

    /// A year for 240.00, replaced at once by months for 9.99; and an extra that is bought beside it.
    private static let downAtOnce = [
        answer("year", .active, on: 7, start: 7, end: 372, order: "G-12", product: "yearly", price: 240_000),
        answer("month", .active, on: 40, start: 40, end: 71, order: "G-13", product: "monthly") {
            $0.linkedPurchaseToken = "year"
        },
        answer("year", .expired, on: 40, start: 7, end: 40, order: "G-12", product: "yearly", price: 240_000) {
            $0.cancelReason = .replaced
        },
        answer("month", .active, on: 45, start: 40, end: 71, order: "G-13", product: "monthly") {
            $0.linkedPurchaseToken = "year"
            var extra = PurchaseSnapshot.Item(productId: "extra")
            extra.expiryTime = day(71)
            extra.orderId = "G-14"
            extra.isAutoRenewing = true
            extra.price = 990
            extra.currency = "USD"
            $0.items.append(extra)
        },
    ]

    @Test("plan changes: up or down by the price per month, not by when it took effect; an extra item is none")
    func planChanges() async throws {
        try await Self.with(Self.upgraded + Self.downAtOnce) { log async throws in
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', from_product_id, to_product_id, direction)
                    from analyst.plan_changes_detail
                    where environment = 'production'
                    order by 1
                    """) == ["basic pro up", "yearly monthly down"])
        }
    }

    @Test("configured levels of plans decide whether a change is up or down, whatever they cost")
    func levels() async throws {
        try await CustomerLog.with { log in
            try await log.tell(Self.upgraded, inBatches: true)
            var directions: [[String]] = []
            for (basic, pro) in [("null", "1"), ("1", "2"), ("2", "1"), ("1", "1")] {
                try await log.script(
                    """
                    insert into subledger.product (app, product_id, level)
                    values ('com.example.magazine', 'basic', \(basic)), ('com.example.magazine', 'pro', \(pro))
                    on conflict (app, product_id) do update set level = excluded.level
                    """)
                directions.append(
                    try await log.lines("select coalesce(direction, 'same') from analyst.plan_changes_detail"))
            }

            // Without a level the price decides.
            #expect(directions == [["up"], ["up"], ["down"], ["same"]])
        }
    }

    private static func order(
        _ id: String, of token: String, on date: Int, product: String, total: Int64,
        refunds: [PurchaseOrder.Refund] = []
    ) -> Told {
        var order = PurchaseOrder(orderId: id, purchaseToken: token, stateName: "PROCESSED")
        order.createTime = day(1)
        (order.total, order.currency, order.refunds) = (total, "USD", refunds)
        var item = PurchaseOrder.Item(productId: product)
        item.total = total
        order.items = [item]
        return .purchase(.order(order), on: date)
    }

    /// Five units for 25.00, of which two are refunded on January 10, and the rest on January 20.
    private static let units: [Told] =
        [(1, 5), (10, 3), (20, 0)].map { date, left in
            var snapshot = PurchaseSnapshot(purchaseToken: "units", kind: .product, stateName: "PURCHASED")
            snapshot.startTime = day(1)
            var item = PurchaseSnapshot.Item(productId: "coins")
            (item.orderId, item.quantity, item.refundableQuantity) = ("G-20", 5, left)
            snapshot.items = [item]
            return .purchase(.snapshot(snapshot), on: date)
        } + [order("G-20", of: "units", on: 2, product: "coins", total: 25_000)]

    /// A month for 9.99, of which 2.00 is paid back on January 8, and the rest on February 2.
    private static let amounts = [
        answer("amounts", .active, on: 5, start: 5, end: 36, order: "G-21"),
        order(
            "G-21", of: "amounts", on: 34, product: "premium", total: 9_990,
            refunds: [
                PurchaseOrder.Refund(at: day(8), amount: 2_000), PurchaseOrder.Refund(at: day(33), amount: 7_990),
            ]),
    ]

    @Test("each refund of a purchase counts on its own day, and the one that leaves nothing is full")
    func refundsByDay() async throws {
        try await CustomerLog.with { log in
            try await log.tell(Self.units + Self.amounts, inBatches: true)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, (revocation_date at time zone 'UTC')::date, refund, amount)
                    from analyst.refunds_detail
                    order by product_id, revocation_date
                    """) == [
                        "coins 2024-01-20 full 25.000", "premium 2024-02-02 full 9.990",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, month, in_full, in_part, amount)
                    from analyst.refunds
                    order by product_id, month
                    """) == [
                        "coins 2024-01-01 1 1 25.000", "premium 2024-01-01 0 1 2.000",
                        "premium 2024-02-01 1 0 7.990",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, month, purchases, refunded, amount, refunded_amount)
                    from analyst.refund_rate
                    order by product_id
                    """) == ["coins 2024-01-01 1 1 25.000 25.000", "premium 2024-01-01 1 1 9.990 9.990"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, day, payments, gross, refunded, refunded_here)
                    from analyst.revenue
                    order by product_id, day
                    """) == [
                        "coins 2024-01-01 1 25.000 25.000 0", "coins 2024-01-10 0 0 0 10.000",
                        "coins 2024-01-20 0 0 0 15.000", "premium 2024-01-05 1 9.990 9.990 0",
                        "premium 2024-01-08 0 0 0 2.000", "premium 2024-02-02 0 0 0 7.990",
                    ])
            #expect(
                try await log.lines("select concat_ws(' ', product_id, refund) from analyst.transactions order by 1")
                    == ["coins full", "premium full"])
            // The customer keeps the month.
            #expect(
                try await log.lines(
                    "select (ends_at at time zone 'UTC')::date::text from subledger.access_period where product_id = 'premium'"
                ) == ["2024-02-05"])
        }
    }

    /// A month for 4.00 of a plan for 2.50 a week; a month for a promotion code, and one for 9.99; two products of one order.
    private static let offers = [
        answer("intro", .active, on: 5, start: 5, end: 36, order: "G-40", product: "weekly", price: 2_500) {
            ($0.items[0].phase, $0.items[0].offerId) = ("INTRODUCTORY_PRICE", "welcome")
        },
        order("G-40", of: "intro", on: 5, product: "weekly", total: 4_000),
        answer("intro", .active, on: 36, start: 5, end: 43, order: "G-40..0", product: "weekly", price: 2_500) {
            $0.items[0].offerId = "welcome"
        },
        answer("promo", .active, on: 6, start: 6, end: 37, order: "") { $0.items[0].orderId = nil },
        answer("promo", .active, on: 37, start: 6, end: 66, order: "G-41"),
        answer("both", .active, on: 7, start: 7, end: 38, order: "G-42", product: "basic") {
            var extra = $0.items[0]
            (extra.productId, extra.price) = ("extra", 990)
            $0.items.append(extra)
        },
    ]

    @Test("an introductory price is that of its own period, a promotion code pays nothing, and an order is one payment")
    func offered() async throws {
        try await Self.with(Self.offers) { log async throws in
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, price, round(mrr, 3), first_day)
                    from analyst.mrr_detail
                    where product_id = 'weekly'
                    order by first_day
                    """) == ["weekly 4.000 4.000 2024-01-05", "weekly 2.500 10.833 2024-02-05"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, price, state, offer_type, offer_identifier)
                    from analyst.price_cohorts_detail
                    where environment = 'production'
                    order by product_id, price
                    """) == [
                        "basic 10.980 churned", "premium 9.990 churned", "weekly 2.500 churned",
                        "weekly 4.000 moved 1 welcome",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, month, purchases, amount)
                    from analyst.refund_rate
                    where environment = 'production'
                    order by product_id, month
                    """) == [
                        "basic 2024-01-01 1 9.990", "extra 2024-01-01 1 0.990", "premium 2024-02-01 1 9.990",
                        "weekly 2024-01-01 1 4.000", "weekly 2024-02-01 1 2.500",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', product_id, new, renewal)
                    from analyst.revenue
                    where product_id in ('basic', 'extra')
                    order by product_id
                    """) == ["basic 9.990 0", "extra 0.990 0"])
        }
    }

    @Test("what is paid back in parts counts on the day of each, also if the last one takes the purchase back")
    func voidedInParts() async throws {
        let told = [
            Self.answer("parts", .active, on: 25, start: 25, end: 56, order: "G-60"),
            Self.order(
                "G-60", of: "parts", on: 41, product: "premium", total: 9_990,
                refunds: [
                    PurchaseOrder.Refund(at: day(30), amount: 2_000), PurchaseOrder.Refund(at: day(40), amount: 7_990),
                ]),
            .purchase(
                .void(PurchaseVoid(purchaseToken: "parts", orderId: "G-60", voidedAt: day(40), isExactTime: true)),
                on: 41),
        ]
        try await Self.with(told) { log async throws in
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, in_full, in_part, amount)
                    from analyst.refunds
                    order by month
                    """) == ["2024-01-01 0 1 2.000", "2024-02-01 1 0 7.990"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, gross, refunded, refunded_here)
                    from analyst.revenue
                    where environment = 'production'
                    order by day
                    """) == [
                        "2024-01-25 9.990 9.990 0", "2024-01-30 0 0 2.000", "2024-02-09 0 0 7.990",
                    ])
        }
    }

    @Test("an order that two purchases show is one payment and one monthly value, also if only one knows its refund")
    func repeatedOrder() async throws {
        try await CustomerLog.with { log in
            try await log.tell(
                [
                    Self.answer("one", .active, on: 5, start: 5, end: 36, order: "G-30"),
                    Self.answer("two", .active, on: 6, start: 5, end: 36, order: "G-30"),
                    Self.answer("other", .active, on: 6, start: 5, end: 36, order: "G-31"),
                ])
            let money = """
                select concat_ws(' ', count(*), sum(price), sum(refunded_amount))
                from analyst.refund_rate_detail
                """

            #expect(try await log.lines(money) == ["2 19.980"])
            #expect(
                try await log.lines(
                    "select concat_ws(' ', subscriptions, mrr) from analyst.mrr where day = '2024-01-15'")
                    == ["2 19.980"])
            #expect(try await log.lines("select count(*)::text from analyst.mrr_detail") == ["2"])

            try await log.tell(
                [
                    .purchase(
                        .void(
                            PurchaseVoid(purchaseToken: "two", orderId: "G-30", voidedAt: day(15), isExactTime: true)),
                        on: 15)
                ], on: 15)
            #expect(try await log.lines(money) == ["2 19.980 9.990"])
        }
    }
}
