import Logging
import Postgres
import Readers
import TestSupport
import Testing

@Suite("Read-only roles cannot block the projector")
struct ReaderLockTests {
    /// All advisory locks that projection, rebuild and skip might use.
    private static let advisory = Statement(
        "advisory",
        """
        select pg_advisory_lock(hashtext('subledger.projector'), 1)::text,
          pg_advisory_lock(hashtext('subledger_rebuild.projector'), 1)::text,
          pg_advisory_lock(hashtext('subledger'), hashtext('rebuild'))::text
        """)

    @Test("advisory locks of a reader do not block projection, rebuild or skip")
    func advisoryLocks() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 2))
            let reader = try await TestCluster.connect(log.database.with(role: "subledger_reader"))
            _ = try await reader.query(Self.advisory, deadline: .now + .seconds(20))

            #expect(await log.projector.foldAllStreams())
            #expect(try await log.status().allSatisfy { $0.contains("lag 0") })
            #expect(try await log.rebuild().rowsReplaced == 0)
            try await log.appendUnfoldable()
            let bad = try #require(Int64(try await log.lines("select max(position)::text from subledger.event")[0]))
            try await log.skip(bad)
            #expect(await log.projector.foldAllStreams())

            #expect(try await log.status().allSatisfy { $0.contains("lag 0, skips 1") })
            await reader.close()
        }
    }

    @Test(
        "a read-only role cannot take locks that block the projector",
        arguments: ["subledger_reader", "subledger_analyst"],
        [
            "select from subledger.checkpoint for update", "select from subledger.checkpoint for key share",
            "lock table subledger.checkpoint in row share mode",
            "lock table subledger.projector_skip in row exclusive mode",
            "lock table subledger.projector_skip in share row exclusive mode",
            "select from subledger.projector_stall for update",
        ])
    func refused(role: String, lock: String) async throws {
        let database = try await TestCluster.freshDatabase()
        let reader = try await TestCluster.connect(database.with(role: role))

        let error = await #expect(throws: PostgresError.self) {
            try await reader.script(
                "begin; set transaction_read_only = off; \(lock)", deadline: .now + .seconds(20))
        }

        #expect(error?.sqlstate == "42501")
        await reader.close()
    }

    @Test("if pg_notify fails, rows, changes and a rebuild are still committed")
    func notifications() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 4))
            try await log.script("revoke execute on function pg_notify(text, text) from public")

            #expect(await log.projector.foldAllStreams())
            try await log.script("update subledger.subscription set position = position + 1")
            #expect(try await log.rebuild().rowsReplaced > 0)

            #expect(try await log.status().allSatisfy { $0.contains("lag 0") })
            #expect(try await log.lines("select 'there' from subledger.change limit 1") == ["there"])
        }
    }

    @Test("a waiting reader of the feed polls if its notification is lost among others")
    func lostNotification() async throws {
        let database = try await TestCluster.freshDatabase()
        let signal = ChangeSignal(listener: database.with(role: "subledger_reader"), logger: LogRecorder().logger)
        let running = Task { await signal.run() }
        let noise = Task {
            let other = try await TestCluster.connect(database)
            while !Task.isCancelled {
                try await other.script("notify subledger_change, '2'", deadline: .now + .seconds(20))
                try? await Task.sleep(for: .milliseconds(200))
            }
            await other.close()
        }
        // Waits until the listener runs, so that its start wakes nothing later.
        let other = await signal.mark(of: 2)
        await signal.wait(for: 2, since: other, until: .now + .seconds(60))
        let noticed = await signal.mark(of: 2)
        await signal.wait(for: 2, since: noticed, until: .now + .seconds(60))

        let start = ContinuousClock.now
        await signal.wait(for: 1, since: await signal.mark(of: 1), until: .now + .seconds(60))

        #expect(ContinuousClock.now - start < .seconds(40))
        noise.cancel()
        running.cancel()
        await running.value
        _ = try? await noise.value
    }
}
