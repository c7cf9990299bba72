import Encoding
import EventLog
import Postgres
import StoreClient
import Synchronization
import TestSupport
import Testing

@Suite("Work in rounds has one runner")
struct LedRoundsTests {
    @Test("a round that fails is logged once until it works again, and keeps no other round from being made")
    func failures() async throws {
        struct Away: Error {}
        try await TestCluster.withDatabase { database in
            let elector = Elector(database.with(role: "subledger_poller"))
            let log = LogRecorder()
            let made = Mutex((failing: 0, working: 0))
            let clock = StoreClock(
                date: { Instant(milliseconds: 1_800_000_000_000) ?? .earliest },
                sleep: { _ in try await Task.sleep(for: .milliseconds(5)) })
            let rounds = LedRounds(
                [
                    LedRounds.Round("deliveries not audited", StreamLeadership(elector, for: .audits), every: .zero) {
                        let number = made.withLock { made in
                            made.failing += 1
                            return made.failing
                        }
                        if number != 4 { throw Away() }
                    },
                    LedRounds.Round("histories not read", StreamLeadership(elector, for: .backfills), every: .zero) {
                        made.withLock { $0.working += 1 }
                    },
                ], elector: elector, clock: clock, logger: log.logger)

            let running = Task { await rounds.run() }
            try await eventually("each round is made several times") {
                made.withLock { $0.failing >= 8 && $0.working >= 8 ? true : nil }
            }
            running.cancel()
            await running.value

            // Before the fourth one, and after it.
            #expect(log.text.split(separator: "\n").count { $0.hasPrefix("warning deliveries not audited") } == 2)
            #expect(!log.text.contains("histories not read"))
        }
    }

    @Test("one statement renews the leases of all work of a process, and leaving one work keeps the others")
    func heartbeat() async throws {
        try await TestCluster.withDatabase { database in
            let now = Mutex(ContinuousClock.now)
            let role = database.with(role: "subledger_poller")
            let elector = Elector(role, now: { now.withLock { $0 } })
            let (voids, audits) = (StreamLeadership(elector, for: .voids), StreamLeadership(elector, for: .audits))
            let other = StreamLeadership(Elector(role), for: .voids)
            #expect(try await voids.lead([0]) == [0])
            #expect(try await audits.lead([0, 3]) == [0, 3])
            let owner = try await TestCluster.connect(database)
            let statement = Statement(
                "kept", "select count(*), count(distinct until) from subledger.lease where until > now()")

            now.withLock { $0 += .seconds(5) }
            try await elector.keep()
            let kept = try await owner.query(statement, deadline: .now + .seconds(20))[0]

            #expect(try kept.value(Int64.self, at: 0) == 3)
            #expect(try await other.lead([0]) == [])
            await voids.release()
            now.withLock { $0 += .seconds(5) }
            try await elector.keep()
            #expect(try await other.lead([0]) == [0])
            #expect(try await audits.lead([0, 3]) == [0, 3])
            await audits.release()
            await other.release()
            await owner.close()
        }
    }
}
