import Postgres
import Projector
import TestSupport
import Testing

@Suite("Batches are folded ahead of their writes")
struct BatchPipelineTests {
    /// Deletes all projections, as if nothing had been folded yet.
    private static let startOver = """
        truncate subledger.checkpoint, subledger.subscription, subledger.transaction, subledger.access_period,
          subledger.refunded_period, subledger.check_schedule, subledger.customer_edge, subledger.customer_link,
          subledger.ownership, subledger.customer_identity, subledger.shared_account_token
        """

    private static let waitingWriter: StaticString = """
        select pid::text
        from pg_stat_activity
        where datname = current_database()
          and wait_event_type = 'Lock'
          and query like '%copy subscription%'
        """

    private static let transactions: StaticString = "select count(*)::text from subledger.transaction"

    /// About 1,500 folded events: five batches.
    private static func withManyBatches(_ test: (SimulatedLog) async throws -> Void) async throws {
        let deliveries = try await SimulatedLog.deliveries(subscriptions: 160)
        try await SimulatedLog.with { log in
            try await log.append(deliveries)
            #expect(await log.projector.foldAllStreams())
            try await test(log)
        }
    }

    @Test("after a lost batch, it and all later batches are folded again")
    func lostBatch() async throws {
        try await Self.withManyBatches { log in
            let before = try await log.projections()
            try await log.script(Self.startOver)
            let blocker = try await TestCluster.connect(log.database)
            try await blocker.script(
                "begin; lock table subledger.subscription in share mode", deadline: .now + .seconds(20))

            async let folding = log.projector.foldAllStreams()
            let writer = try await eventually("the first batch waits to be written") {
                try await log.lines(Self.waitingWriter).first
            }
            // Later batches are folded meanwhile.
            try await Task.sleep(for: .milliseconds(500))
            try await log.script("select pg_terminate_backend(\(writer))")
            await blocker.close()

            #expect(await folding == false)
            #expect(await log.projector.foldAllStreams())
            #expect(try await log.projections() == before)
        }
    }

    @Test("all batches before an event that cannot be folded are written")
    func unfoldable() async throws {
        try await Self.withManyBatches { log in
            let before = try await log.lines(Self.transactions)
            try await log.script(Self.startOver)
            try await log.appendUnfoldable()

            #expect(await log.projector.foldAllStreams() == false)
            #expect(try await log.lines(Self.transactions) == before)
            #expect(try await log.status().allSatisfy { $0.contains("lag 1, skips 0, waiting since 2") })
        }
    }
}
