import Foundation
import Glibc
import Testing

@testable import Postgres

/// A host that accepts connections and never answers, like a machine that is frozen.
private final class FrozenHost: Sendable {
    let port: Int
    private let descriptor: Int32

    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        self.descriptor = descriptor
        port = Int(UInt16(bigEndian: address.sin_port))
        try #require(status)
    }

    deinit { close(descriptor) }

    /// Whether a client has connected since the last call.
    func wasAsked() -> Bool {
        let client = accept(descriptor, nil, nil)
        if client >= 0 { close(client) }
        return client >= 0
    }
}

extension WithServer {
    @Suite("a connection string with several hosts")
    struct SeveralHostsTests {
        /// The frozen host is the first, and the test server the second.
        private static func configuration(
            _ frozen: FrozenHost, wanted: String, more: String = ""
        ) throws -> ConnectionConfiguration {
            let parameters = Dictionary(
                uniqueKeysWithValues: try #require(TestServer.configuration().parameters()).map { ($0.key, $0.value) })
            let folder = try #require(parameters["host"])
            let user = try #require(parameters["user"])
            return ConnectionConfiguration(
                url: "host=127.0.0.1,\(folder) port=\(frozen.port),5432 user=\(user) dbname=postgres"
                    + " target_session_attrs=\(wanted) \(more)")
        }

        @Test(
            "a host that does not answer does not delay the connection to another",
            arguments: ["read-write", "primary"])
        func frozen(_ wanted: String) async throws {
            let frozen = try FrozenHost()

            let connection = try await PostgresConnection.connect(
                Self.configuration(frozen, wanted: wanted), deadline: soon())
            let rows = try await connection.query(PostgresConnectionTests.one, deadline: soon())

            #expect(try rows[0].value(Int32.self, at: 0) == 1)
            #expect(frozen.wasAsked())
        }

        @Test("prefer-standby takes the primary if no standby answers within connect_timeout")
        func preferStandby() async throws {
            let frozen = try FrozenHost()

            let connection = try await PostgresConnection.connect(
                Self.configuration(frozen, wanted: "prefer-standby", more: "connect_timeout=1"), deadline: soon())

            #expect(await connection.isQuiet())
            #expect(frozen.wasAsked() && frozen.wasAsked())
        }

        @Test("a host that becomes suitable is found while another one does not answer")
        func becomesSuitable() async throws {
            let frozen = try FrozenHost()
            let admin = try await TestServer.connect()
            try await admin.script("create database c_hosts", deadline: soon())
            try await admin.script(
                "alter database c_hosts set default_transaction_read_only = on", deadline: soon())
            let configuration = try Self.configuration(frozen, wanted: "read-write", more: "connect_timeout=600")
                .with(database: "c_hosts")
            let deadline = ContinuousClock.now + .seconds(60)
            async let connecting = PostgresConnection.connect(configuration, deadline: deadline)
            // The first session has ended: it was not suitable.
            try await eventually {
                let rows = try await admin.query(
                    Statement("c_sessions", "select sessions from pg_stat_database where datname = 'c_hosts'"),
                    deadline: soon())
                return try rows[0].value(Int64.self, at: 0) > 0
            }

            try await admin.script("alter database c_hosts reset default_transaction_read_only", deadline: soon())
            let connection = try await connecting

            #expect(await connection.isQuiet())
            await connection.close()
            try await admin.script("drop database c_hosts with (force)", deadline: soon())
            await admin.close()
        }

        @Test("if no host is suitable, the attempt ends after connect_timeout with the reason of a host that answered")
        func noneSuitable() async throws {
            let frozen = try FrozenHost()

            await #expect {
                _ = try await PostgresConnection.connect(
                    Self.configuration(frozen, wanted: "standby", more: "connect_timeout=1"),
                    deadline: .now + .seconds(600))
            } throws: { error in
                let problem = error as? PostgresError
                return problem?.kind == .unavailable && problem?.debugDescription.contains("hot standby") == true
            }
        }
    }
}
