import Foundation
import Postgres
import TestSupport
import Testing

/// A projector that leads the stream of one notification, with its batch blocked, and a second projector.
struct TakeoverBundle {
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
    static func setup(blocked table: String = "access_period") async throws -> TakeoverBundle {
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
        return TakeoverBundle(
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
