import Foundation
import Postgres
import Subscriptions
import TestSupport
import Testing

@testable import Projector

@Suite("A stalled projection is reported")
struct StalledStreamTests {
    /// Something that stalls a stream, and how it is removed.
    struct Obstacle: Sendable, CustomTestStringConvertible {
        let cause: StallCause
        var isOfAllStreams = false
        var isLock = false
        /// Run in a session of the owner that stays open until `end` has run.
        let begin: String
        let end: String
        var testDescription: String { "\(cause): \(begin.prefix(60))" }
    }

    static let obstacles = [
        Obstacle(
            cause: .statement, begin: "revoke insert on subledger.subscription from subledger_projector",
            end: "grant insert on subledger.subscription to subledger_projector"),
        Obstacle(
            cause: .leader, isLock: true,
            begin: "begin; select from subledger.checkpoint where stream_id = 1 for update", end: "rollback"),
        Obstacle(
            cause: .busy, isLock: true,
            begin: "begin; lock table subledger.subscription in access exclusive mode", end: "rollback"),
        Obstacle(
            cause: .refold,
            begin: """
                create function subledger.spoil() returns trigger language plpgsql as
                $$ begin new.projection_version := 0; return new; end $$;
                create trigger spoil before update on subledger.checkpoint
                  for each row execute function subledger.spoil();
                update subledger.checkpoint set projection_version = 0
                """,
            end: """
                drop trigger spoil on subledger.checkpoint;
                update subledger.checkpoint set projection_version = \(Checkpoint.projectionVersion)
                """),
        Obstacle(
            cause: .statement, isOfAllStreams: true,
            begin: "revoke select on subledger.stream_head from subledger_projector",
            end: "grant select on subledger.stream_head to subledger_projector"),
    ]

    @Test(
        "each cause of a stall is reported once, and so is the end of the stall", arguments: obstacles)
    func reported(_ obstacle: Obstacle) async throws {
        let deliveries = try await SimulatedLog.deliveries(subscriptions: 2)
        try await SimulatedLog.with { log in
            try await log.append(deliveries[..<4])
            #expect(await log.projector.foldAllStreams())
            let owner = try await TestCluster.connect(log.database)
            try await owner.script(obstacle.begin, deadline: .now + .seconds(20))
            try await log.append(deliveries[4...])
            try await Self.withProjector(log) { projector, logs in
                let stalled = try await eventually("the stream is stalled") {
                    await projector.stalledStreams.first { $0.cause == obstacle.cause }
                }
                #expect(stalled.app == (obstacle.isOfAllStreams ? nil : V1Body.app))
                #expect(stalled.environment == (obstacle.isOfAllStreams ? nil : "sandbox"))
                #expect(try await log.status().allSatisfy { $0.contains(", waiting since 2") })
                if !obstacle.isOfAllStreams {
                    let recorded = "stalled: \(obstacle.cause.rawValue)"
                    _ = try await eventually("the status shows the stall") {
                        try await log.status().allSatisfy { $0.hasSuffix(recorded) } ? true : nil
                    }
                }

                try await owner.script(obstacle.end, deadline: .now + .seconds(20))
                _ = try await eventually("the stream resumes") {
                    let status = try await log.status()
                    return await projector.stalledStreams.isEmpty && status.allSatisfy { $0.contains("lag 0") }
                        ? true : nil
                }
                _ = try await eventually("the record is cleared") {
                    try await log.lines("select cause from subledger.projector_stall").isEmpty ? true : nil
                }
                #expect(try await log.status().allSatisfy { $0.hasSuffix("skips 0") })
                let lines = logs.text.split(separator: "\n")
                let name = "\(obstacle.cause.rawValue)"
                #expect(lines.count { $0.contains("projector stalled") && $0.contains(name) } == 1)
                let isOver = obstacle.isOfAllStreams ? "projector reads the log again" : "projector resumed"
                #expect(lines.count { $0.contains(isOver) } == 1)
                #expect(lines.count { $0.contains("projector stopped") } <= 1, "a repeated failure is logged once")
            }
            await owner.close()
        }
    }

    @Test("an event that cannot be folded is reported until it is skipped, even by a process that only reads")
    func unfoldable() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 1))
            try await log.appendUnfoldable()
            let bad = try #require(Int64(try await log.lines("select max(position)::text from subledger.event")[0]))
            try await Self.withProjector(log) { projector, logs in
                _ = try await eventually("the stream is stalled") {
                    await projector.stalledStreams.first { $0.cause == .event }
                }
                _ = try await eventually("the status shows the stall") {
                    try await log.status().allSatisfy { $0.hasSuffix("stalled: event") } ? true : nil
                }
                let recorded = try await log.lines(
                    "select format('%s %s', position, cause) from subledger.projector_stall")
                #expect(recorded == ["\(bad - 1) event"])

                try await log.skip(bad)
                _ = try await eventually("the stream resumes") { await projector.stalledStreams.isEmpty ? true : nil }

                #expect(try await log.status().allSatisfy { $0.hasSuffix("lag 0, skips 1") })
                #expect(logs.text.split(separator: "\n").count { $0.contains("projector stopped") } == 1)
            }
        }
    }

    @Test("without a projector, the status shows how many events wait, and since when")
    func nobodyRuns() async throws {
        let deliveries = try await SimulatedLog.deliveries(subscriptions: 1)
        try await SimulatedLog.with { log in
            try await log.append(deliveries)

            let head = try await log.lines("select max(position)::text from subledger.event")[0]
            let first = try #require(deliveries.first).receivedAt
            #expect(
                try await log.status() == [
                    "\(V1Body.app), sandbox: head \(head), folded 0, lag \(head), skips 0, waiting since \(first)"
                ])
        }
    }

    /// Runs the test with a projector that reports a stall after 0.8 s.
    private static func withProjector(
        _ log: SimulatedLog, _ test: (Projector, LogRecorder) async throws -> Void
    ) async throws {
        let logs = LogRecorder()
        let role = log.database.with(role: "subledger_projector")
        let pool = PostgresPool(role, limit: Projector.connectionsMax, logger: logs.logger)
        let projector = Projector(
            pool: pool, listener: role, stallAfter: .milliseconds(800), now: { .latest }, logger: logs.logger)
        let running = Task { await projector.run() }
        let outcome: Result<Void, any Error>
        do {
            try await test(projector, logs)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        running.cancel()
        await running.value
        await pool.close()
        try outcome.get()
    }
}
