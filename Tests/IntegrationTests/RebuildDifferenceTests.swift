import Encoding
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
