import Encoding
import EventLog
import Postgres
import Readers
import Subscriptions
import TestSupport
import Testing

@Suite("Customers are read as they are, and as they were known")
struct CustomerReaderTests {
    typealias Row = CustomerLog.Row

    private static func question(_ id: String, on day: Instant, app: String? = nil) -> CustomerReader.Question {
        CustomerReader.Question(app: app, environment: .production, customerId: id, at: day)
    }

    /// `known as: entitlement until subscriptions`, as of noon of day 3, known on a day.
    private static func known(_ id: String, _ reader: CustomerReader, at knownAt: Instant?) async throws -> [String] {
        let question = question(id, on: day(3))
        let found =
            if let knownAt { try await reader.entitlements(question, knownAt: knownAt) } else {
                try await reader.entitlements(question)
            }
        return found.flatMap { found in
            found.entitlements.map { "\(found.knownAs): \($0.entitlement) \($0.until) \($0.subscriptions)" }
        }
    }

    @Test("what was believed before a link, while it held, and after it was taken back; and before a refund")
    func knownAt() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10, account: "aa")]), .rows([Row("20", 2..<20)])], on: 2)
            let both = [CustomerKey(.account, "aa"), CustomerKey(.subscription, "20")]
            try await log.tell([.links("u-1", both)], on: 4)
            try await log.tell([.links("u-1", [CustomerKey(.account, "aa")])], on: 6)
            try await log.tell([.rows([Row("10", 1..<10, account: "aa", revokedOn: 7)])], on: 8)
            try await log.tell([.rows([Row("10", 1..<10, account: "aa")])], on: 10)
            let reader = CustomerReader(pool: log.reader)

            let own = "monthly \(day(10)) [\"10\"]"
            let joined = "monthly \(day(20)) [\"10\", \"20\"]"
            #expect(try await Self.known("u-1", reader, at: day(1)) == [])
            #expect(try await Self.known("u-1", reader, at: day(3)) == [])
            #expect(try await Self.known("AA", reader, at: day(3)) == ["account: \(own)"])
            #expect(try await Self.known("20", reader, at: day(3)) == ["subscription: monthly \(day(20)) [\"20\"]"])
            #expect(try await Self.known("u-1", reader, at: day(5)) == ["link: \(joined)"])
            #expect(try await Self.known("20", reader, at: day(5)) == ["subscription: \(joined)"])
            #expect(try await Self.known("u-1", reader, at: day(7)) == ["link: \(own)"])
            #expect(try await Self.known("u-1", reader, at: day(9)) == [])
            #expect(try await Self.known("u-1", reader, at: day(11)) == ["link: \(own)"])
            #expect(try await Self.known("u-1", reader, at: nil) == ["link: \(own)"])
        }
    }

    @Test("asked by the subscription before a migration, the customer has what was migrated", arguments: [true, false])
    func migration(oldSubscriptionIsKnown: Bool) async throws {
        try await CustomerLog.with { log in
            if oldSubscriptionIsKnown { try await log.tell([.rows([Row("10", 1..<2)])], on: 1) }
            try await log.tell([.rows([Row("20", 3..<20, previousSubscription: "10")])], on: 2)
            let reader = CustomerReader(pool: log.reader)

            let migrated = "subscription: monthly \(day(20)) [\"20\"]"
            #expect(try await Self.known("10", reader, at: nil) == [migrated])
            #expect(try await Self.known("10", reader, at: day(3)) == [migrated])
            #expect(try await Self.known("20", reader, at: nil) == [migrated])
        }
    }

    @Test("an id is the backend's own first, then a token, an appTransactionId, a subscription")
    func precedence() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("1", account: "2")]), .rows([Row("2", appTransaction: "3")]),
                .rows([Row("3")]), .rows([Row("4")]), .links("1", [CustomerKey(.subscription, "4")]),
            ])
            let reader = CustomerReader(pool: log.reader)

            for known in [nil, day(2)] {
                var found: [String] = []
                for id in ["1", "2", "3", "4"] { found += try await Self.known(id, reader, at: known) }
                #expect(
                    found.map { $0.replacing("monthly \(day(32)) ", with: "") } == [
                        "link: [\"4\"]", "account: [\"1\"]", "appTransaction: [\"2\"]", "subscription: [\"4\"]",
                    ])
            }
        }
    }

    @Test("the pure fold and SQL agree on random stories, for every customer and day, singly and in one batch")
    func agreement() async throws {
        var random = SeededGenerator(seed: TestSeed.value)
        var told: [CustomerLog.Told] = []
        for index in 0..<80 {
            let subscription = "\(Int.random(in: 10..<24, using: &random))"
            let start = Int.random(in: 1..<20, using: &random)
            let end = start + Int.random(in: 1..<9, using: &random)
            if Int.random(in: 0..<4, using: &random) == 0 {
                let customer = "u\(Int.random(in: 0..<4, using: &random))"
                told.append(.links(customer, [CustomerKey(.subscription, subscription)]))
            } else {
                told.append(
                    .rows([
                        Row(
                            subscription, start..<end, product: "p\(Int.random(in: 0..<3, using: &random))",
                            account: Bool.random(using: &random) ? "a\(subscription.suffix(1))" : nil,
                            transaction: "t\(index)")
                    ]))
            }
        }
        try await CustomerLog.with { [told] log in
            try await log.tell(told, inBatches: true)
            try await log.script(
                """
                insert into subledger.product_entitlement (app, product_id, entitlement)
                values ('com.example.magazine', 'p1', 'read'), ('com.example.magazine', 'p2', 'read'),
                  ('com.example.magazine', 'p2', 'listen')
                """)
            let reader = CustomerReader(pool: log.reader)
            let ids = (10..<24).map(String.init) + (0..<10).map { "a\($0)" } + (0..<4).map { "u\($0)" }
            var questions: [CustomerReader.Question] = []
            for id in ids { for number in [1, 5, 12, 19, 27] { questions.append(Self.question(id, on: day(number))) } }

            let batch = try await reader.entitlements(questions)
            let pure = try await withThrowingTaskGroup(of: (Int, [Entitlement], [Entitlement]).self) { group in
                for (index, question) in questions.enumerated() {
                    group.addTask {
                        let alone = try await reader.entitlements(question).flatMap(\.entitlements)
                        let fold = try await reader.entitlements(question, knownAt: day(31)).flatMap(\.entitlements)
                        return (index, alone, fold)
                    }
                }
                return try await group.reduce(into: [:]) { $0[$1.0] = ($1.1, $1.2) }
            }

            #expect(batch.contains { $0.first?.entitlements.count ?? 0 > 1 })
            for index in questions.indices {
                let expected = batch[index].flatMap(\.entitlements)
                #expect(pure[index]?.0 == expected, "\(questions[index]) seed \(TestSeed.value)")
                #expect(pure[index]?.1 == expected, "\(questions[index]) seed \(TestSeed.value)")
            }
        }
    }

    @Test("who asks later does not wait for an answer that takes its time")
    func patience() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10")])])
            let reader = CustomerReader(pool: log.reader)
            let holder = try await TestCluster.connect(log.database)
            try await holder.script(
                "begin; lock table subledger.access_period in access exclusive mode", deadline: .now + .seconds(20))
            let first = Task { try await reader.entitlements(Self.question("10", on: day(3))) }
            _ = try await eventually("the first query waits") { try await Self.waiting(log) == 1 ? true : nil }
            let second = Task { try await reader.entitlements(Self.question("10", on: day(4))) }

            _ = try await eventually("the second is asked beside it") { try await Self.waiting(log) == 2 ? true : nil }
            await holder.close()

            #expect(try await first.value.count == 1)
            #expect(try await second.value.count == 1)
        }
    }

    /// Queries of readers that wait for a lock.
    private static func waiting(_ log: CustomerLog) async throws -> Int {
        try await log.lines(
            """
            select pid::text
            from pg_stat_activity
            where datname = current_database()
              and wait_event_type = 'Lock'
              and query like '%customer_identity%'
            """
        ).count
    }
}
