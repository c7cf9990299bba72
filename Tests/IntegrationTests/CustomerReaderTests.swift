import Encoding
import EventLog
import Postgres
import Readers
import Subscriptions
import TestSupport
import Testing

@Suite("Current and historical reads of customers")
struct CustomerReaderTests {
    typealias Row = CustomerLog.Row

    private static func question(
        _ id: String, as kind: CustomerKey.Kind? = nil, on day: Instant, app: String? = nil
    ) -> CustomerReader.Question {
        CustomerReader.Question(
            CustomerReader.Reference(app: app, environment: .production, id: id, kind: kind), at: day)
    }

    /// `known as: entitlement until subscriptions`, as of noon of day 3, known on a day; or why there is no answer.
    private static func known(
        _ id: String, as kind: CustomerKey.Kind? = nil, _ reader: CustomerReader, at knownAt: Instant?
    ) async throws -> [String] {
        let question = question(id, as: kind, on: day(3))
        let answer =
            if let knownAt { try await reader.entitlements(question, knownAt: knownAt) } else {
                try await reader.entitlements(question)
            }
        switch answer {
        case .found(let found):
            return found.entitlements.map {
                "\(found.identity.knownAs): \($0.entitlement) \($0.until) \($0.subscriptions)"
            }
        case .unknown: return []
        case .severalApps(let apps): return ["several apps: \(apps)"]
        case .severalKinds(let kinds): return ["several kinds: \(kinds.map(\.rawValue))"]
        }
    }

    private static func entitlements(_ answer: CustomerReader.Answer<CustomerReader.Found>) -> [Entitlement] {
        if case .found(let found) = answer { found.entitlements } else { [] }
    }

    @Test("knownAt returns the entitlements before, during and after a link, and before and after a refund")
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

    @Test("app users of a shared device have their own purchases, and an id returns the owner at the instant")
    func sharedDevice() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10, account: "aa", appTransaction: "70")])], on: 2)
            try await log.tell(
                [.rows([Row("10", 20..<30, account: "bb", appTransaction: "70", transaction: "11")])], on: 20)
            let reader = CustomerReader(pool: log.reader)
            func until(_ id: String, _ kind: CustomerKey.Kind, on date: Int) async throws -> [String] {
                let question = Self.question(id, as: kind, on: day(date))
                let now = Self.entitlements(try await reader.entitlements(question))
                let folded = Self.entitlements(try await reader.entitlements(question, knownAt: day(31)))
                #expect(now == folded)
                return now.map { "\($0.until) \($0.isActive(at: day(date)))" }
            }

            #expect(try await until("aa", .account, on: 5) == ["\(day(10)) true"])
            #expect(try await until("aa", .account, on: 25) == ["\(day(10)) false"])
            #expect(try await until("bb", .account, on: 5) == [])
            #expect(try await until("bb", .account, on: 25) == ["\(day(30)) true"])
            #expect(try await until("10", .subscription, on: 5) == ["\(day(10)) true"])
            #expect(try await until("10", .subscription, on: 25) == ["\(day(30)) true"])
            #expect(try await until("70", .appTransaction, on: 25) == ["\(day(30)) true"])
            // Nobody is shown an id by which only the other is known.
            for (own, other) in [("aa", "bb"), ("bb", "aa")] {
                let reference = CustomerReader.Reference(app: nil, environment: .production, id: own, kind: .account)
                let answer = try await reader.ids(reference, at: day(25), after: nil, limit: 100)
                guard case .found(let page) = answer else {
                    Issue.record("no ids of \(own)")
                    continue
                }
                #expect(page.keys.contains(CustomerKey(.account, own)))
                #expect(!page.keys.contains(CustomerKey(.account, other)))
                #expect(page.keys.contains(CustomerKey(.subscription, "10")))
            }
        }
    }

    @Test("the history lists gained and lost access, newest first, with positions")
    func history() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10, account: "aa")])], on: 2)
            try await log.tell([.rows([Row("10", 20..<30, account: "bb", transaction: "11")])], on: 20)
            let reader = CustomerReader(pool: log.reader)
            func history(_ id: String, through date: Int, limit: Int = 100) async throws -> [String] {
                let reference = CustomerReader.Reference(app: nil, environment: .production, id: id, kind: .account)
                let answer = try await reader.history(reference, at: day(31), through: day(date), limit: limit)
                guard case .found(let history) = answer else { return [] }
                let lines = history.entries.map { entry in
                    let gained = entry.isGain.map { $0 ? " gained" : " lost" } ?? ""
                    return "\(entry.kind.rawValue)\(gained) \(entry.at.description.prefix(10)) \(entry.position ?? 0)"
                }
                return lines + (history.hasMore ? ["more"] : [])
            }

            #expect(
                try await history("aa", through: 25) == [
                    "customer_changed lost 2024-01-20 2", "closed 2024-01-10 0", "opened 2024-01-01 1",
                ])
            #expect(
                try await history("bb", through: 25) == [
                    "opened 2024-01-20 2", "customer_changed gained 2024-01-20 2",
                ])
            #expect(try await history("aa", through: 10) == ["closed 2024-01-10 0", "opened 2024-01-01 1"])
            #expect(try await history("aa", through: 9) == ["opened 2024-01-01 1"])
            #expect(try await history("bb", through: 31, limit: 1) == ["closed 2024-01-30 0", "more"])
        }
    }

    @Test("the original id before a migration returns the migrated subscription", arguments: [true, false])
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

    @Test("an id that different customers have is answered only as what the request says it is")
    func ambiguousId() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("1", account: "2")]), .rows([Row("2", appTransaction: "3")]),
                .rows([Row("3")]), .rows([Row("4")]), .links("1", [CustomerKey(.subscription, "4")]),
            ])
            let reader = CustomerReader(pool: log.reader)

            let until = "monthly \(day(32))"
            for known in [nil, day(2)] {
                func answer(_ id: String, _ kind: CustomerKey.Kind? = nil) async throws -> [String] {
                    try await Self.known(id, as: kind, reader, at: known)
                }
                #expect(try await answer("1") == [#"several kinds: ["link", "subscription"]"#])
                #expect(try await answer("2") == [#"several kinds: ["account", "subscription"]"#])
                #expect(try await answer("3") == [#"several kinds: ["app_transaction", "subscription"]"#])
                #expect(try await answer("4") == [#"subscription: \#(until) ["4"]"#])
                #expect(try await answer("1", .link) == [#"link: \#(until) ["4"]"#])
                #expect(try await answer("1", .subscription) == [#"subscription: \#(until) ["1"]"#])
                #expect(try await answer("2", .account) == [#"account: \#(until) ["1"]"#])
                #expect(try await answer("2", .subscription) == [#"subscription: \#(until) ["2"]"#])
                #expect(try await answer("3", .appTransaction) == [#"appTransaction: \#(until) ["2"]"#])
                #expect(try await answer("4", .link) == [])
                #expect(try await answer("3", .account) == [])
            }
        }
    }

    @Test("an id of several kinds that identify the same customer is not ambiguous")
    func sameCustomer() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", account: "20")]), .rows([Row("20", account: "20")])], on: 2)
            try await log.tell(
                [.links("10", [CustomerKey(.subscription, "10"), CustomerKey(.account, "20")])], on: 4)
            let reader = CustomerReader(pool: log.reader)

            let both = #"monthly \#(day(32)) ["10", "20"]"#
            for known in [nil, day(5)] {
                #expect(try await Self.known("10", reader, at: known) == ["link: \(both)"])
                #expect(try await Self.known("20", reader, at: known) == ["account: \(both)"])
                #expect(
                    try await Self.known("10", as: .subscription, reader, at: known) == ["subscription: \(both)"])
            }
            #expect(try await Self.known("10", reader, at: day(3)) == ["subscription: \(both)"])
            #expect(try await Self.known("10", as: .link, reader, at: day(3)) == [])
        }
    }

    @Test("an id in several apps is answered for one app only")
    func severalApps() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10")])])
            try await log.tell([.rows([Row("10", product: "yearly")])], app: "com.example.books")
            let reader = CustomerReader(pool: log.reader)

            let both = [#"several apps: ["com.example.books", "com.example.magazine"]"#]
            #expect(try await Self.known("10", reader, at: nil) == both)
            #expect(try await Self.known("10", reader, at: day(2)) == both)
            let books = try await reader.entitlements(Self.question("10", on: day(3), app: "com.example.books"))
            #expect(Self.entitlements(books).map(\.entitlement) == ["yearly"])
        }
    }

    @Test("the pure fold and SQL agree for every customer and day, in single and batch queries")
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
                        let alone = Self.entitlements(try await reader.entitlements(question))
                        let fold = Self.entitlements(try await reader.entitlements(question, knownAt: day(31)))
                        return (index, alone, fold)
                    }
                }
                return try await group.reduce(into: [:]) { $0[$1.0] = ($1.1, $1.2) }
            }

            #expect(batch.contains { Self.entitlements($0).count > 1 })
            for index in questions.indices {
                let expected = Self.entitlements(batch[index])
                #expect(pure[index]?.0 == expected, "\(questions[index]) seed \(TestSeed.value)")
                #expect(pure[index]?.1 == expected, "\(questions[index]) seed \(TestSeed.value)")
            }
        }
    }

    @Test("a request does not wait for a slow query of an earlier request")
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

            _ = try await eventually("the second query runs beside it") {
                try await Self.waiting(log) == 2 ? true : nil
            }
            await holder.close()

            #expect(Self.entitlements(try await first.value).count == 1)
            #expect(Self.entitlements(try await second.value).count == 1)
        }
    }

    /// The number of reader queries that wait for a lock.
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
