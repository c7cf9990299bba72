import EventLog
import Foundation
import Postgres

/// A coordinator and two workers with the extension Citus, for the whole test run: sockets only, trusted.
/// Each test has a database of its own, of the same name on all three.
package enum CitusCluster {
    /// Whether all tests use these nodes instead of one server.
    package static let isWanted = ProcessInfo.processInfo.environment["SUBLEDGER_TEST_CITUS"] == "1"

    private static let folders = (FileManager.default.enumerator(atPath: "/usr/lib/postgresql")?.allObjects ?? [])
        .compactMap { $0 as? String }.filter { $0.hasSuffix("/lib/citus.so") }

    /// Whether the extension is installed. Says so where it is not, once.
    package static let isInstalled: Bool = {
        if folders.isEmpty { print("the extension citus is not installed: tests of distributed databases are skipped") }
        return !folders.isEmpty
    }()

    private static let root = TestFolder.path("citus")
    package static let nodes = ["coordinator", "worker1", "worker2"]
    /// With the extension and its nodes, without the schema.
    private static let emptyTemplate = "template_citus"
    /// With the schema, distributed.
    private static let template = "template_subledger"

    private static let started = Task { () async throws -> Void in
        try run(startScript)
        endWithProcess()
        for node in nodes { try await execute(on: node, "create database \(emptyTemplate)") }
        for node in nodes { try await execute(on: node, in: emptyTemplate, "create extension citus") }
        try await execute(
            on: "coordinator", in: emptyTemplate,
            """
            select citus_set_coordinator_host('\(socketFolder("coordinator"))', 5432);
            select citus_add_node('\(socketFolder("worker1"))', 5432);
            select citus_add_node('\(socketFolder("worker2"))', 5432)
            """)
        try await create(template, from: emptyTemplate)
        let owner = try await TestCluster.connect(configuration(template))
        _ = try await Schema.migrate(owner)
        try await Distribution.distribute(owner)
        await owner.close()
    }

    /// A new database with the distributed schema, and the owner's configuration for it on the coordinator.
    package static func freshDatabase(from template: String? = nil) async throws -> ConnectionConfiguration {
        try await started.value
        return try await create(databaseName(), from: template ?? Self.template)
    }

    /// A new database with the extension and without the schema.
    package static func emptyDatabase() async throws -> ConnectionConfiguration {
        try await started.value
        return try await create(databaseName(), from: emptyTemplate)
    }

    /// A new database of this name with the distributed schema.
    package static func makeTemplate(_ name: String) async throws -> ConnectionConfiguration {
        try await started.value
        return try await create(name, from: template)
    }

    /// Refuses connections to a database on one node, and ends those that there are, or accepts them again.
    package static func permitConnections(
        _ isPermitted: Bool, to database: ConnectionConfiguration, on node: String
    ) async throws {
        let name = database.database ?? ""
        try await execute(on: node, "alter database \(name) allow_connections \(isPermitted)")
        guard !isPermitted else { return }
        try await execute(
            on: node, "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '\(name)'")
    }

    /// The process ids of the servers, in the order of ``nodes``.
    package static func postmasters() async throws -> [Int32] {
        try await started.value
        return serversToEnd
    }

    /// The folder of a node's socket, by which the other nodes know it.
    package static func socketFolder(_ node: String) -> String { "\(root)/\(node)/run" }

    private static func configuration(_ database: String, on node: String = "coordinator") -> ConnectionConfiguration {
        ConnectionConfiguration(socketFolder: socketFolder(node), user: "subledger", database: database)
    }

    @discardableResult
    private static func create(_ name: String, from template: String) async throws -> ConnectionConfiguration {
        for node in nodes {
            let deadline = ContinuousClock.now + .seconds(30)
            while true {
                do {
                    // The extension's own sessions keep a template in use.
                    try await execute(
                        on: node,
                        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '\(template)'")
                    try await execute(on: node, "create database \(name) template \(template)")
                    break
                } catch let error as PostgresError where error.sqlstate == "55006" && ContinuousClock.now < deadline {
                    continue
                }
            }
        }
        return configuration(name)
    }

    private static func execute(on node: String, in database: String = "postgres", _ sql: String) async throws {
        let connection = try await TestCluster.connect(configuration(database, on: node))
        do {
            try await connection.script(sql, deadline: .now + .seconds(60))
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
    }

    private static func databaseName() -> String {
        "test_" + UUID().uuidString.lowercased().replacingOccurrences(of: "-", with: "")
    }

    /// PostgreSQL does not run as root.
    private static var startScript: String {
        let asServer = getuid() == 0 ? "setpriv --reuid=postgres --regid=postgres --clear-groups" : ""
        let owner = getuid() == 0 ? "chown postgres \(root)" : ":"
        return """
            set -eu
            mkdir -m 755 \(root)
            \(owner)
            bin=$(dirname /usr/lib/postgresql/\(folders[0]))/../bin
            for node in \(nodes.joined(separator: " ")); do
                folder=\(root)/$node
                \(asServer) mkdir -p $folder/run
                \(asServer) $bin/initdb -D $folder/data -A trust -U subledger -E UTF8 --locale=C >/dev/null
                (
                    # Otherwise the end of this script would not be noticed as long as a server runs.
                    for file in /proc/self/fd/*; do
                        number=${file##*/}
                        [ "$number" -le 2 ] || eval "exec $number>&-"
                    done
                    \(asServer) $bin/pg_ctl -D $folder/data -l $folder/log -w start >/dev/null -o "\\
                        -c shared_preload_libraries=citus -c listen_addresses= -c port=5432 \\
                        -c unix_socket_directories=$folder/run -c citus.local_hostname=$folder/run \\
                        -c max_connections=300 -c max_prepared_transactions=300 -c citus.shard_count=4 \\
                        -c wal_level=logical -c max_worker_processes=300 -c citus.max_cached_conns_per_worker=1"
                )
            done
            """
    }

    private static func run(_ script: String) throws {
        let result = try Process.run(
            URL(fileURLWithPath: "/usr/bin/timeout"), ["--kill-after=5", "120", "/bin/bash", "-c", script],
            folder: URL(fileURLWithPath: "/"), limit: 130)
        guard result.status == 0 else { throw CitusError() }
    }

    private static func endWithProcess() {
        serversToEnd = nodes.compactMap { node in
            let file = try? String(contentsOfFile: "\(root)/\(node)/data/postmaster.pid", encoding: .utf8)
            return file?.split(separator: "\n").first.flatMap { Int32($0) }
        }
        folderToRemove = root
        atexit {
            for postmaster in serversToEnd { kill(postmaster, SIGQUIT) }
            for postmaster in serversToEnd {
                for _ in 0..<500 where kill(postmaster, 0) == 0 { usleep(10_000) }
            }
            try? FileManager.default.removeItem(atPath: folderToRemove)
        }
    }
}

/// The nodes could not be started.
package struct CitusError: Error {}

/// What the handler of the process's end stops and removes. Written once, before it is installed.
nonisolated(unsafe) private var serversToEnd: [Int32] = []
nonisolated(unsafe) private var folderToRemove = ""
