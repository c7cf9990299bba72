import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Takeover of a stream from a killed or stopped projector")
struct TakeoverTests {
    /// A projector that leads the stream of one notification, with its batch blocked, and a second projector.
    private struct Bundle {
        let database: SharedDatabase
        /// Receiver and reader.
        let server: ServerProcess
        let leader: ServerProcess
        let leaderBackend: String
        /// Before the batch starts.
        let start: ContinuousClock.Instant
        let other: ServerProcess
        /// Holds the lock that the batch waits for.
        let blocker: PostgresConnection
        let backend: HTTPClient

        /// - Parameter table: The batch waits to write to this table.
        static func setup(blocked table: String = "access_period") async throws -> Bundle {
            let database = try await SharedDatabase.make()
            let server = try database.server("receiver,reader")
            let leader = try database.server("projector")
            let ports = try await server.ports()
            _ = try await leader.privatePort()
            let blocker = try await TestCluster.connect(database.configuration)
            try await blocker.begin(deadline: .now + .seconds(20))
            try await blocker.script(
                "lock table subledger.\(table) in share row exclusive mode", deadline: .now + .seconds(20))
            let start = ContinuousClock.now
            let answer = try await HTTPClient(port: ports.public, patience: .seconds(60)).post(
                try V1Body(number: 1).bytes)
            #expect(answer.status == 200)
            let leaderBackend = try await eventually("the batch waits") { try await leads(database, isWaiting: true) }
            let other = try database.server("projector")
            _ = try await other.privatePort()
            return Bundle(
                database: database, server: server, leader: leader, leaderBackend: leaderBackend, start: start,
                other: other,
                blocker: blocker, backend: HTTPClient(port: ports.private, token: try await database.token()))
        }

        /// The backend that holds the lock of the stream's leader.
        ///
        /// - Parameter isWaiting: Only if it waits for another lock. Otherwise the batch may have nothing to write.
        static func leads(_ database: SharedDatabase, isWaiting: Bool = false) async throws -> String? {
            let found = try await database.lines(
                """
                select format('%s %s', pg_locks.pid, pg_stat_activity.wait_event_type)
                from subledger.checkpoint
                join pg_locks on pg_locks.transactionid = checkpoint.xmax
                join pg_stat_activity using (pid)
                where checkpoint.stream_id = 1
                  and pg_locks.mode = 'ExclusiveLock'
                  and pg_locks.granted
                  and pg_stat_activity.datname = current_database()
                  and pg_stat_activity.application_name = 'subledger projector'
                """
            ).first?.split(separator: " ")
            return isWaiting && found?.last != "Lock" ? nil : found?.first.map(String.init)
        }

        /// Waits until another backend is the leader.
        func isTakenOver() async throws {
            _ = try await eventually("the other projector leads") {
                let pid = try await Self.leads(database)
                return pid == nil || pid == leaderBackend ? nil : pid
            }
        }

        func isFolded(_ number: Int) async throws {
            _ = try await eventually("notification \(number) is folded") {
                let subscription = 2_000_000_000_000_000 + number
                return try await backend.get("/subscriptions/\(subscription)").status == 200 ? true : nil
            }
        }

        func end(_ servers: [ServerProcess]) async throws {
            await blocker.close()
            for server in servers { server.signal(SIGTERM) }
            for server in servers {
                try await server.hasEnded()
                #expect(server.exitStatus == 0)
            }
        }
    }

    @Test("another projector leads within two seconds after the leader is killed during a statement")
    func killed() async throws {
        let bundle = try await Bundle.setup()

        let start = ContinuousClock.now
        bundle.leader.signal(SIGKILL)
        try await bundle.isTakenOver()
        let waited = ContinuousClock.now - start
        try await bundle.blocker.rollback(deadline: .now + .seconds(20))

        print("the leader was killed, and another led after \(waited)")
        #expect(waited < .seconds(2))
        try await bundle.isFolded(1)
        try await bundle.end([bundle.server, bundle.other])
    }

    /// Rows of access_period are copied, so the server waits for the rest of a statement. After a statement on
    /// customer_identity is complete, the stopped leader sends nothing more.
    @Test(
        "a stopped leader keeps its stream until its silent session is terminated, and does no harm when it resumes",
        arguments: ["access_period", "customer_identity"])
    func stopped(blocked table: String) async throws {
        let bundle = try await Bundle.setup(blocked: table)

        bundle.leader.signal(SIGSTOP)
        try await bundle.blocker.rollback(deadline: .now + .seconds(20))
        try await bundle.isFolded(1)
        let waited = ContinuousClock.now - bundle.start

        print("the leader was stopped, and another had folded after \(waited)")
        // Ten seconds of silence, and a margin for slow processes.
        #expect(waited > .seconds(10))
        #expect(waited < .seconds(30))
        let apple = HTTPClient(port: try await bundle.server.ports().public)
        #expect(try await apple.post(try V1Body(number: 2).bytes).status == 200)
        try await bundle.isFolded(2)
        bundle.leader.signal(SIGCONT)
        bundle.other.signal(SIGTERM)
        try await bundle.other.hasEnded()
        #expect(try await apple.post(try V1Body(number: 3).bytes).status == 200)
        try await bundle.isFolded(3)
        #expect(
            try await bundle.database.lines(
                "select format('%s %s', position, (select count(*) from subledger.access_period)) from subledger.checkpoint"
            ) == ["3 3"])
        try await bundle.end([bundle.server, bundle.leader])
    }
}
