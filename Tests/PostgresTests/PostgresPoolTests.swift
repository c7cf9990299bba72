import Synchronization
import Testing

@testable import Postgres

/// A value that several tasks of a test share.
final class Recorder<Value: Sendable>: Sendable {
    let state: Mutex<Value>

    init(_ value: Value) {
        state = Mutex(value)
    }
}

extension WithServer {
    @Suite("a pool lends connections in order and within its limit")
    struct PostgresPoolTests {
        static let pid = Statement("p_pid", "select pg_backend_pid()")
        static let sleep = Statement("p_sleep", "select pg_sleep($1::text::float8)")

        @Test("waiting for the server blocks no cooperative thread")
        func concurrency() async throws {
            let pool = try TestServer.pool(limit: 32)
            let start = ContinuousClock.now

            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<32 {
                    group.addTask { _ = try await pool.query(Self.sleep, [Parameter("1")], deadline: soon()) }
                }
                try await group.waitForAll()
            }

            // In sequence they would take half a minute.
            #expect(start.duration(to: .now) < .seconds(20))
            #expect(await pool.counts == .init(open: 32, idle: 32, waiting: 0))
            await pool.close()
            #expect(await pool.counts == .init(open: 0, idle: 0, waiting: 0))
        }

        @Test("connections are used again")
        func reuse() async throws {
            let pool = try TestServer.pool(limit: 4)

            let first = try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0)
            let second = try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0)

            #expect(first == second)
        }

        @Test("callers are served in order, and one that waits too long gets an error")
        func order() async throws {
            let pool = try TestServer.pool(limit: 1)
            let served = Recorder<[Int]>([])
            let holder = try await pool.borrow(deadline: soon())

            let late = try await failure { () throws(PostgresError) in
                try await pool.query(Self.pid, deadline: .now + .milliseconds(60))
            }
            #expect(late.kind == .deadlineExceeded)

            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...5 {
                    group.addTask {
                        try await pool.withConnection(deadline: soon()) { _ in
                            served.state.withLock { $0.append(number) }
                        }
                    }
                    try await eventually { await pool.counts.waiting == number }
                }
                await pool.giveBack(holder)
                try await group.waitForAll()
            }
            #expect(served.state.withLock { $0 } == [1, 2, 3, 4, 5])
        }

        @Test("a cancelled caller leaves the queue")
        func cancellation() async throws {
            let pool = try TestServer.pool(limit: 1)
            let holder = try await pool.borrow(deadline: soon())
            let waiter = Task { try await pool.query(Self.pid, deadline: soon()) }
            try await eventually { await pool.counts.waiting == 1 }

            waiter.cancel()

            await #expect(throws: PostgresError(.deadlineExceeded)) { try await waiter.value }
            #expect(await pool.counts.waiting == 0)
            await pool.giveBack(holder)
            #expect(await pool.counts == .init(open: 1, idle: 1, waiting: 0))
        }

        @Test("an abandoned connection is replaced")
        func abandoned() async throws {
            let pool = try TestServer.pool(limit: 1)
            let before = try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0)

            let error = try await failure { () throws(PostgresError) in
                try await pool.query(Self.sleep, [Parameter("30")], deadline: .now + .milliseconds(100))
            }

            #expect(error.kind == .deadlineExceeded)
            #expect(try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0) != before)
        }

        @Test("an open transaction is rolled back before the connection is lent again")
        func leftover() async throws {
            let pool = try TestServer.pool(limit: 1)
            let before = try await pool.withConnection(deadline: soon()) { connection throws(PostgresError) in
                try await connection.begin(deadline: soon())
                return connection.backendPID
            }

            let after = try await pool.withConnection(deadline: soon()) { connection throws(PostgresError) in
                _ = try await connection.transaction([Step(Self.pid)], deadline: soon())
                return connection.backendPID
            }

            #expect(before == after)
        }

        @Test("a body that throws returns its connection")
        func throwing() async throws {
            let pool = try TestServer.pool(limit: 1)

            let error = try await failure { () throws(PostgresError) in
                try await pool.query(Statement("p_wrong", "select 1/0"), deadline: soon())
            }

            #expect(error.kind == .server(sqlstate: "22012"))
            #expect(await pool.counts == .init(open: 1, idle: 1, waiting: 0))
        }

        @Test("a connection that was idle for a long time is checked before use")
        func idleCheck() async throws {
            let offset = Recorder(Duration.zero)
            let pool = PostgresPool(
                try TestServer.configuration(), limit: 1, logger: .quiet, now: { .now + offset.state.withLock { $0 } }
            )
            let pid = try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0)
            try await TestServer.terminate(backend: pid)
            let connection = try #require(await pool.idle.first?.connection)
            try await eventually { await !connection.isQuiet() }
            offset.state.withLock { $0 = .seconds(31) }

            let next = try await pool.query(Self.pid, deadline: soon() + .seconds(31))[0].value(Int32.self, at: 0)

            #expect(next != pid)
        }

        /// Breaks every idle connection of the pool and waits until that can be detected.
        static func breakIdle(_ pool: PostgresPool) async throws {
            for entry in await pool.idle {
                try await TestServer.terminate(backend: entry.connection.backendPID)
                try await eventually { await !entry.connection.isQuiet() }
            }
        }

        @Test("connections that broke while idle cause no error")
        func brokenIdle() async throws {
            let pool = try TestServer.pool(limit: 2)
            let holder = try await pool.borrow(deadline: soon())
            let other = try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0)
            let before = [holder.backendPID, other]
            await pool.giveBack(holder)
            try await Self.breakIdle(pool)

            let pid = try await pool.query(Self.pid, deadline: soon())[0].value(Int32.self, at: 0)
            try await Self.breakIdle(pool)
            let rows = try await pool.withConnection(deadline: soon()) { connection throws(PostgresError) in
                try await connection.transaction([Step(Self.pid)], deadline: soon())
            }

            #expect(!before.contains(pid))
            #expect(try rows[0][0].value(Int32.self, at: 0) != pid)
            await pool.close()
            #expect(await pool.counts == .init(open: 0, idle: 0, waiting: 0))
        }

        @Test("a statement sent over a connection that breaks is not repeated")
        func brokenInUse() async throws {
            let pool = try TestServer.pool(limit: 2)
            let calls = Recorder(0)

            let error = try await failure { () throws(PostgresError) in
                try await pool.withConnection(deadline: soon()) { connection throws(PostgresError) in
                    calls.state.withLock { $0 += 1 }
                    _ = try await connection.query(Self.pid, deadline: soon())
                    return try await connection.query(
                        Statement("p_suicide", "select pg_terminate_backend(pg_backend_pid())"), deadline: soon())
                }
            }

            #expect(error.kind == .unavailable)
            #expect(calls.state.withLock { $0 } == 1)
        }

        @Test("a connection that its first statement breaks is not retried when it is reused")
        func brokenSecondUse() async throws {
            let pool = try TestServer.pool(limit: 1)
            _ = try await pool.query(Self.pid, deadline: soon())
            let calls = Recorder(0)

            let error = try await failure { () throws(PostgresError) in
                try await pool.withConnection(deadline: soon()) { connection throws(PostgresError) in
                    calls.state.withLock { $0 += 1 }
                    return try await connection.query(
                        Statement("p_suicide", "select pg_terminate_backend(pg_backend_pid())"), deadline: soon())
                }
            }

            #expect(error.kind == .unavailable)
            #expect(calls.state.withLock { $0 } == 1)
        }

        @Test("closing fails waiting and later callers")
        func closed() async throws {
            let pool = try TestServer.pool(limit: 1)
            let holder = try await pool.borrow(deadline: soon())
            let waiter = Task { try await pool.query(Self.pid, deadline: soon()) }
            try await eventually { await pool.counts.waiting == 1 }

            await pool.close()

            await #expect(throws: PostgresError(.closed)) { try await waiter.value }
            await #expect(throws: PostgresError(.closed)) { try await pool.query(Self.pid, deadline: soon()) }
            await pool.giveBack(holder)
            #expect(await pool.counts == .init(open: 0, idle: 0, waiting: 0))
        }
    }
}

@Suite("the back-off")
struct BackOffTests {
    @Test("the wait doubles from 50 ms to 1 s, less up to half by jitter")
    func doubling() {
        let now = ContinuousClock.now
        var backOff = BackOff()
        var waits: [Duration] = []

        for _ in 0..<10 {
            backOff.fail(now: now, jitter: 0)
            if let retryAt = backOff.retryAt { waits.append(now.duration(to: retryAt)) }
        }

        #expect(waits.prefix(3) == [.milliseconds(50), .milliseconds(100), .milliseconds(200)])
        #expect(waits[4...] == [.milliseconds(800)] + Array(repeating: .seconds(1), count: 5))
        backOff.fail(now: now, jitter: 1)
        #expect(backOff.isWaiting(now: now + .milliseconds(499)) && !backOff.isWaiting(now: now + .milliseconds(500)))
        backOff.reset()
        #expect(!backOff.isWaiting(now: now) && backOff.failures == 0)
    }
}
