import Encoding
import EventLog
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("What a rebuild would change, without changing it")
struct RebuildDifferenceTests {
    private static func differences(
        _ log: SimulatedLog, onProgress: (ProjectionRebuild.Progress) async throws -> Void = { _ in }
    ) async throws -> (comparison: ProjectionRebuild.Comparison, all: [RebuildDifference]) {
        let pool = PostgresPool(
            log.database.with(role: "subledger_projector"), limit: 3, logger: LogRecorder().logger)
        let rebuild = ProjectionRebuild(
            owner: log.database, pool: pool, app: nil, environment: nil, now: { .latest })
        var all: [RebuildDifference] = []
        let outcome: Result<ProjectionRebuild.Comparison, any Error>
        do {
            outcome = .success(try await rebuild.compare(onProgress: onProgress) { all.append($0) })
        } catch {
            outcome = .failure(error)
        }
        await pool.close()
        return (try outcome.get(), all)
    }

    private static let leftovers: StaticString = "select nspname::text from pg_namespace where nspname ~ 'rebuild'"

    @Test("correct rows do not differ, and nothing is left")
    func same() async throws {
        try await SimulatedLog.withEveryStory { log in
            let before = try await log.projections()

            let (comparison, all) = try await Self.differences(log)

            #expect(comparison.rows == 0 && comparison.subscriptions == 0 && all.isEmpty)
            #expect(comparison.streams == 1 && comparison.eventsFolded > 100)
            #expect(try await log.projections() == before)
            #expect(try await log.lines(Self.leftovers) == [])
        }
    }

    @Test("a changed field, a missing row and an additional one are named with the rules, and stay as they are")
    func differing() async throws {
        try await SimulatedLog.withEveryStory { log in
            try await log.script(
                """
                update subledger.access_period
                set ends_at = ends_at + interval '1 day'
                where (original_transaction_id, transaction_id, cause) = (
                  select original_transaction_id, transaction_id, cause
                  from subledger.access_period
                  where cause = 'paid' and cut is null
                  order by 1, 2
                  limit 1
                );
                delete from subledger.transaction
                where transaction_id = (select max(transaction_id) from subledger.transaction);
                insert into subledger.access_period (
                  stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, position
                )
                values (1, 'nobody', '2020-01-01', '2021-01-01', 'paid', 'nothing', 1)
                """)
            let before = try await log.projections()

            let (comparison, all) = try await Self.differences(log)

            #expect(comparison.rows == 3 && comparison.subscriptions == 3)
            #expect(all.count == 3, "\(all.map(\.json))")
            let changed = try #require(all.first { $0.change == .changed })
            #expect(changed.table == "access_period" && changed.field == "ends_at")
            #expect(changed.live != nil && changed.rebuilt != nil && changed.live != changed.rebuilt)
            #expect(changed.because.map(\.rule).contains(.paid))
            #expect(changed.because.allSatisfy { !$0.text.isEmpty })
            #expect(all.first { $0.change == .added }?.table == "transaction")
            #expect(all.first { $0.change == .removed }?.originalTransactionId == "nobody")
            #expect(try await log.projections() == before)
            #expect(try await log.lines(Self.leftovers) == [])
        }
    }

    /// The differences as `table change field: number, rules`.
    private static func summary(_ differences: [RebuildDifference]) -> [String] {
        let alike = Dictionary(grouping: differences) { difference in
            [difference.table, difference.change.rawValue, difference.field].compactMap(\.self).joined(separator: " ")
        }
        return alike.sorted { $0.key < $1.key }.map { place, rows in
            let rules = Set(rows.flatMap(\.because).map(\.rule.rawValue)).sorted()
            return "\(place): \(rows.count), \(rules.joined(separator: " "))"
        }
    }

    @Test(
        "of a database of the release of November 2026, what changes is what the rules of this release change",
        .enabled(if: !CitusCluster.isWanted))
    func ofRelease() async throws {
        try await ReleaseDump.withDatabase { database in
            let owner = try await TestCluster.connect(database)
            _ = try await Schema.migrate(owner) { _ in }
            await owner.close()
            try await SimulatedLog.with(database: database) { log in
                let (comparison, all) = try await Self.differences(log)

                #expect(comparison.eventsFolded == 173)
                // No period and no owner changes: the evidence is the statement that decides (positions, facts), people are
                // counted by store accounts (customer_edge), purchases of Google Play have a schedule and a price of the plan,
                // and an add-on counts with its plan.
                #expect(
                    Self.summary(all) == [
                        "access_period changed effective_start: 2, paid", "access_period changed first_month: 2, paid",
                        "access_period changed last_month: 2, paid", "access_period changed movement: 2, paid",
                        "access_period changed payment_number: 2, paid",
                        "access_period changed position: 6, grace_granted paid",
                        "access_period changed previous_end: 2, paid",
                        "access_period changed previous_product_id: 1, paid", "access_period changed price: 2, paid",
                        "access_period changed run_start: 2, paid",
                        "check_schedule added: 8, ", "customer_edge changed position: 4, ",
                        "customer_edge changed store_account: 10, ",
                        "ownership changed position: 1, tied_by_account_token",
                        "subscription changed auto_renew_product_id: 1, paid",
                        "subscription changed facts: 14, family_revoked paid refunded_whole",
                        "subscription changed renewal_price: 1, paid",
                        "transaction changed plan_price: 18, grace_granted paid refunded_whole",
                        "transaction changed positions: 10, grace_granted no_access_kind paid",
                    ])
            }
        }
    }

    @Test("events that arrive meanwhile are no differences")
    func beside() async throws {
        let deliveries = try await SimulatedLog.deliveries()
        try await SimulatedLog.with { log in
            let half = deliveries.count / 2
            try await log.append(deliveries[..<half])
            await log.projector.foldAllStreams()
            // Half of the rest is folded, the other half only appended.
            let late = (half + deliveries.count) / 2
            var isAppended = false

            let (comparison, all) = try await Self.differences(log) { _ in
                guard !isAppended else { return }
                isAppended = true
                try await log.append(deliveries[half..<late])
                await log.projector.foldAllStreams()
                try await log.append(deliveries[late...])
            }

            #expect(isAppended)
            #expect(comparison.rows == 0, "\(all.prefix(3).map(\.json))")
            await log.projector.foldAllStreams()
            #expect(try await Self.differences(log).comparison.rows == 0)
        }
    }
}
