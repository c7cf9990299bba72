import Encoding
import EventLog
import Postgres
import Projector
import Readers
import Subscriptions
import TestSupport
import Testing

/// Purchases on Google Play that continue each other are one subscription in the database too, however the answers
/// arrive, and a rebuild and an audit find the same.
@Suite("Purchases on Google Play in the projections")
struct PurchaseProjectionTests {
    typealias Told = CustomerLog.Told

    /// An answer on the day of the purchase, which lasts until February 1.
    private static func bought(
        _ token: String, on start: Int, linked: String? = nil, state: PurchaseSnapshot.State = .active,
        answered: Int? = nil, account: String? = nil, change: (inout PurchaseSnapshot) -> Void = { _ in }
    ) -> Told {
        var snapshot = PurchaseSnapshot(purchaseToken: token, kind: .subscription, stateName: state.rawValue)
        snapshot.startTime = state == .pending ? nil : day(start)
        snapshot.linkedPurchaseToken = linked
        snapshot.obfuscatedAccountId = account
        var item = PurchaseSnapshot.Item(productId: "premium")
        item.basePlanId = start % 2 == 0 ? "monthly" : "yearly"
        item.expiryTime = day(32)
        item.orderId = "G-\(token)"
        item.isAutoRenewing = true
        snapshot.items = [item]
        change(&snapshot)
        return .purchase(.snapshot(snapshot), on: answered ?? start)
    }

    /// Every row of the projections that depends on purchases.
    private static func rows(_ log: CustomerLog) async throws -> [String] {
        try await log.lines(
            """
            select concat_ws(' ', 'subscription', original_transaction_id, part_of, product_id, auto_renew) as line
            from subledger.subscription
            union all
            select concat_ws(' ', 'transaction', original_transaction_id, transaction_id, product_id, is_upgraded)
            from subledger.transaction
            union all
            select concat_ws(' ', 'access', original_transaction_id, to_char(starts_at at time zone 'UTC', 'DD'),
              to_char(ends_at at time zone 'UTC', 'MM-DD'), cause, cut, transaction_id)
            from subledger.access_period
            union all
            select concat_ws(' ', 'owner', original_transaction_id, customer_kind, customer_id)
            from subledger.ownership
            union all
            select concat_ws(' ', 'check', original_transaction_id, reason)
            from subledger.check_schedule
            order by line
            """)
    }

    private static let chain = [
        bought("c", on: 2, account: "U"), bought("a", on: 5, linked: "c"), bought("b", on: 9, linked: "a"),
    ]

    private static let expected = [
        "access c 02 01-05 paid upgraded G-c", "access c 05 01-09 paid upgraded G-a", "access c 09 02-01 paid G-b",
        "check c renewal", "owner c account u", "subscription a c", "subscription b c",
        "subscription c premium:yearly t", "transaction c G-a premium:yearly t", "transaction c G-b premium:yearly f",
        "transaction c G-c premium:monthly t",
    ]

    @Test("a chain is one subscription, in any order of the answers, one at a time or all at once")
    func chain() async throws {
        let orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]]
        for order in orders {
            for inBatches in [false, true] {
                try await CustomerLog.with { log in
                    try await log.tell(order.map { Self.chain[$0] }, inBatches: inBatches)

                    #expect(try await Self.rows(log) == Self.expected, "order \(order), in batches \(inBatches)")
                    try await log.isConfirmed { try await Self.rows(log) }
                }
            }
        }
    }

    @Test("an earlier purchase that becomes known later gives the subscription another id")
    func reroot() async throws {
        try await CustomerLog.with { log in
            try await log.tell([Self.chain[2]])
            #expect(
                try await Self.rows(log) == [
                    "access a 09 02-01 paid G-b", "check a renewal", "owner a subscription a",
                    "subscription a premium:yearly t", "subscription b a", "transaction a G-b premium:yearly f",
                ])
            try await log.tell([Self.chain[1]])
            try await log.tell([Self.chain[0]])

            #expect(try await Self.rows(log) == Self.expected)
            try await log.isConfirmed { try await Self.rows(log) }
            for id in ["a", "b", "c"] {
                let found = try await SubscriptionReader(pool: log.reader).subscriptions(
                    originalTransactionId: id, environment: .production, app: nil)
                #expect(found.map(\.subscription.originalTransactionId) == ["c"])
            }
            #expect(
                try await log.identities().filter { $0.hasPrefix("subscription") }.allSatisfy {
                    $0.hasSuffix("→ account u")
                })
        }
    }

    @Test("a pending purchase joins what it is linked to when it is paid")
    func pending() async throws {
        try await CustomerLog.with { log in
            try await log.tell([Self.chain[0], Self.bought("a", on: 5, linked: "c", state: .pending)])
            #expect(
                try await Self.rows(log).filter { $0.hasPrefix("subscription") } == [
                    "subscription a", "subscription c premium:monthly t",
                ])
            try await log.tell([Self.bought("a", on: 5, linked: "c", answered: 6), Self.chain[2]])

            #expect(try await Self.rows(log) == Self.expected)
            try await log.isConfirmed { try await Self.rows(log) }
        }
    }

    @Test("a loop is one subscription")
    func loop() async throws {
        try await CustomerLog.with { log in
            try await log.tell([Self.chain[2], Self.chain[1], Self.bought("c", on: 2, linked: "b", account: "U")])

            let rows = try await Self.rows(log)
            #expect(
                rows.filter { $0.hasPrefix("subscription") } == [
                    "subscription a premium:yearly t", "subscription b a", "subscription c a",
                ])
            try await log.isConfirmed { try await Self.rows(log) }
        }
    }

    @Test("a void takes the period back, and its row")
    func void() async throws {
        try await CustomerLog.with { log in
            try await log.tell(Self.chain)
            try await log.tell([
                .purchase(
                    .void(PurchaseVoid(purchaseToken: "b", orderId: "G-b", voidedAt: day(12), isExactTime: true)),
                    on: 13)
            ])

            #expect(
                try await Self.rows(log).filter { $0.hasPrefix("access") }
                    == Array(Self.expected.prefix(2)))
            #expect(
                try await log.lines("select concat(transaction_id, ' ', cut) as line from subledger.refunded_period")
                    == ["G-b refunded"])
            try await log.isConfirmed { try await Self.rows(log) }
        }
    }

    @Test("what was known before a link is known as it was")
    func knownAt() async throws {
        try await CustomerLog.with { log in
            try await log.tell([Self.bought("c", on: 2, account: "U")], on: 2)
            try await log.tell([Self.bought("a", on: 5, linked: "c", account: "V")], on: 5)
            let reader = CustomerReader(pool: log.reader)
            func products(_ customer: String, knownAt: Instant?) async throws -> Int {
                let question = CustomerReader.Question(
                    .init(app: nil, environment: .production, id: customer, kind: .account), at: day(6))
                let answer =
                    if let knownAt { try await reader.entitlements(question, knownAt: knownAt) } else {
                        try await reader.entitlements(question)
                    }
                guard case .found(let found) = answer else { return -1 }
                return found.entitlements.count
            }

            #expect(try await products("u", knownAt: day(4)) == 1)
            #expect(try await products("v", knownAt: day(4)) == -1)
            #expect(try await products("v", knownAt: nil) == 1)
            #expect(try await products("v", knownAt: day(7)) == 1)
        }
    }
}
