import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Faults of the proxy")
struct FaultyProxyTests {
    private static let create = Statement("proxy_create", "create table entry (number integer)")
    private static let insert = Statement("proxy_insert", "insert into entry values (1)")
    private static let count = Statement("proxy_count", "select count(*) from entry")
    private static let connections = Statement(
        "proxy_connections",
        """
        select count(*)
        from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
        """)

    /// An empty table, a connection to it through a proxy, and one that bypasses the proxy.
    private struct Bundle {
        let proxy: FaultyProxy
        let through: ConnectionConfiguration
        let around: PostgresConnection

        static func setup() async throws -> Bundle {
            let server = try await TestCluster.server()
            let name = "proxy_" + UUID().uuidString.lowercased().prefix(8)
            try await server.createDatabase(name)
            let proxy = try FaultyProxy(target: server.socketFolder + "/.s.PGSQL.5432")
            let around = try await TestCluster.connect(server.configuration(database: name))
            _ = try await around.query(create, deadline: .now + .seconds(10))
            return Bundle(
                proxy: proxy,
                through: ConnectionConfiguration(
                    url: "host=127.0.0.1 port=\(proxy.port) user=subledger dbname=\(name)"),
                around: around)
        }

        func end() async {
            proxy.stop()
            await around.close()
        }

        func rows() async throws -> Int64 {
            try await around.query(count, deadline: .now + .seconds(10))[0].value(at: 0)
        }

        /// The number of rows after all other connections have ended. The server may execute statements that it has
        /// received even after the connection was cut.
        func finalRows() async throws -> Int64 {
            _ = try await eventually(within: .seconds(10), "the server ends the connection") {
                let others: Int64 = try await around.query(connections, deadline: .now + .seconds(10))[0].value(at: 0)
                return others == 0 ? true : nil
            }
            return try await rows()
        }
    }

    @Test("a cut during a transaction leaves the outcome unknown, and no row if it comes before the commit")
    func moments() async throws {
        let bundle = try await Bundle.setup()
        for moment in FaultyProxy.Moment.allCases {
            let before = try await bundle.rows()
            let connection = try await TestCluster.connect(bundle.through)
            bundle.proxy.inject(.cut(moment))

            let error = await #expect(throws: PostgresError.self) {
                _ = try await connection.transaction([Step(Self.insert)], deadline: .now + .seconds(10))
            }

            #expect(error?.kind == .outcomeUnknown, "\(moment)")
            let added = try await bundle.finalRows() - before
            switch moment {
            case .beforeCommitAnswer: #expect(added == 1)
            // The server may or may not have received the commit.
            case .beforeSync, .afterSync, .afterCommitSent: #expect((0...1).contains(added))
            default: #expect(added == 0, "\(moment)")
            }
        }
        #expect(bundle.proxy.cuts == FaultyProxy.Moment.allCases.count)
        await bundle.end()
    }

    @Test("a black hole forwards its bytes when it ends, so an abandoned commit happens late")
    func blackHole() async throws {
        let bundle = try await Bundle.setup()
        let connection = try await TestCluster.connect(bundle.through)
        bundle.proxy.inject(.blackHole)

        let error = await #expect(throws: PostgresError.self) {
            _ = try await connection.transaction([Step(Self.insert)], deadline: .now + .milliseconds(300))
        }
        #expect(try await bundle.rows() == 0)
        bundle.proxy.heal()

        #expect(error?.kind == .outcomeUnknown)
        _ = try await eventually(within: .seconds(10), "the commit happens") {
            try await bundle.rows() == 1 ? true : nil
        }
        await bundle.end()
    }

    @Test("refused and reset connections are unavailable and work again after the fault")
    func refuseAndReset() async throws {
        let bundle = try await Bundle.setup()
        for fault in [FaultyProxy.Fault.refuse, .reset] {
            bundle.proxy.inject(fault)
            let error = try await eventually(within: .seconds(10), "a connection fails") { () -> PostgresError? in
                do throws(PostgresError) {
                    await (try PostgresConnection.connect(bundle.through, deadline: .now + .seconds(2))).close()
                    return nil
                } catch {
                    return error
                }
            }
            #expect(error.kind == .unavailable)
            bundle.proxy.heal()
            _ = try await eventually(within: .seconds(10), "a connection is made") {
                try? await PostgresConnection.connect(bundle.through, deadline: .now + .seconds(2))
            }
        }
        await bundle.end()
    }
}
