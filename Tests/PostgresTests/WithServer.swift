import Foundation
import Logging
import Testing

import enum TestSupport.TestFolder

@testable import Postgres

/// The nested suites share one PostgreSQL server, which runs as long as they do.
@Suite(.sharedServer)
enum WithServer {}

struct SharedServerTrait: SuiteTrait, TestScoping {
    /// No standby exists: a session that requires synchronous commits waits for one forever.
    static let settings = [
        "max_connections": "100", "fsync": "off", "synchronous_commit": "local", "synchronous_standby_names": "nobody",
    ]

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let folder = temporaryFolder()
        let server = try await EmbeddedServer.start(folder: folder, settings: Self.settings, logger: .quiet)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await TestServer.$current.withValue(server, operation: function))
        } catch {
            outcome = .failure(error)
        }
        await server.stop()
        try? FileManager.default.removeItem(atPath: folder)
        try outcome.get()
    }
}

extension Trait where Self == SharedServerTrait {
    static var sharedServer: SharedServerTrait { SharedServerTrait() }
}

enum TestServer {
    @TaskLocal static var current: EmbeddedServer?

    static func configuration() throws -> ConnectionConfiguration {
        try #require(current).configuration(database: "postgres")
    }

    static func connect() async throws -> PostgresConnection {
        try await PostgresConnection.connect(configuration(), deadline: soon())
    }

    static func pool(limit: Int) throws -> PostgresPool {
        PostgresPool(try configuration(), limit: limit, logger: .quiet)
    }

    /// Waits until `pg_stat_activity` shows that the backend waits for the event.
    static func waitUntil(backend pid: Int32, waitsFor event: String) async throws {
        let watcher = try await connect()
        try await eventually {
            let rows = try await watcher.query(
                Statement("test_wait_event", "select wait_event from pg_stat_activity where pid = $1"),
                [Parameter(pid)], deadline: soon()
            )
            return try rows.first?.optional(String.self, at: 0) == event
        }
        await watcher.close()
    }

    static func cancel(backend pid: Int32) async throws {
        let other = try await connect()
        _ = try await other.query(
            Statement("test_cancel", "select pg_cancel_backend($1)"), [Parameter(pid)], deadline: soon()
        )
        await other.close()
    }

    static func terminate(backend pid: Int32) async throws {
        let other = try await connect()
        _ = try await other.query(
            Statement("test_terminate", "select pg_terminate_backend($1)"), [Parameter(pid)], deadline: soon()
        )
        await other.close()
    }
}

extension Logger {
    static var quiet: Logger { Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }) }
}

/// A deadline that only a hanging test reaches.
func soon() -> ContinuousClock.Instant {
    .now + .seconds(20)
}

func temporaryFolder() -> String {
    TestFolder.path("postgres")
}

struct NeverHappened: Error {}

/// Polls the condition until it is true.
func eventually(
    within time: Duration = .seconds(15), _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + time
    while try await !condition() {
        guard !deadline.hasPassed else { throw NeverHappened() }
        await pause(milliseconds: 10)
    }
}

/// Returns the error that the body must throw.
func failure(_ body: () async throws(PostgresError) -> some Any) async throws -> PostgresError {
    do {
        _ = try await body()
    } catch {
        return error
    }
    Issue.record("nothing was thrown")
    throw NeverHappened()
}
