import AppStore
import EventLog
import Foundation
import Postgres
import Projector
import Subscriptions
import Synchronization
import TestSupport
import Testing

@Suite(
    "A database that Citus distributes over three nodes keeps the promises of one server", .serialized,
    .enabled(if: CitusCluster.isInstalled, "the extension citus is not installed"), .timeLimit(.minutes(5)))
struct CitusTests {
    /// A notification of a V1 app about a subscription of its own.
    private static func notification(_ number: Int, app: String) throws -> VerifiedNotification {
        var body = V1Body(number: number)
        body.fields["bid"] = app
        let apps = Apps([App(bundleId: app, sharedSecrets: [V1Body.secret])])
        return try apps.verify(body.bytes, receivedAt: TestBundle.now)
    }

    private static func rows(
        _ connection: PostgresConnection, _ name: SQL, _ sql: SQL, _ parameters: [Parameter] = []
    ) async throws -> RowSet {
        try await connection.query(Statement(name, sql), parameters, deadline: .now + .seconds(60))
    }

    @Test("migrate --distributed distributes every table of a stream, and a second run changes nothing")
    func migrate() async throws {
        let configuration = try await CitusCluster.emptyDatabase()
        let socket = CitusCluster.socketFolder("coordinator")
        let url = "postgres:///\(configuration.database ?? "")?host=\(socket)&user=subledger"
        let environment = ["SUBLEDGER_DATABASE_URL": url]

        let first = try ServerProcess.run(["migrate", "--distributed"], environment: environment)
        let second = try ServerProcess.run(["migrate", "--distributed"], environment: environment)

        #expect(first.status == 0, "\(first.error)")
        #expect(first.output == "tables are distributed by stream\nschema version \(Schema.version) applied\n")
        #expect(second.status == 0, "\(second.error)")
        let owner = try await TestCluster.connect(configuration)
        let found = try await Self.rows(
            owner, "tables",
            """
            select coalesce(citus_table_type || ' by ' || distribution_column, 'on the coordinator')
              || case when exists (
                select
                from pg_attribute
                where attrelid = pg_class.oid
                  and attname = 'stream_id'
              ) then '' else ', without a stream' end
              || ': ' || relname
            from pg_class
            left join citus_tables on table_name = pg_class.oid
            where relnamespace = 'subledger'::regnamespace
              and relkind in ('r', 'p')
              and not relispartition
            order by relname
            """)
        let tables: [String] = try (0..<found.count).map { try found[$0].value(at: 0) }
        let here = Set(Distribution.onCoordinator)
        let local = tables.filter { $0.hasPrefix("on the coordinator") }.compactMap { $0.split(separator: " ").last }
        #expect(Set(local.map(String.init)) == here)
        #expect(
            tables.filter { $0.hasPrefix("distributed by stream_id: ") }.count == Distribution.byStream.count)
        let groups = try await Self.rows(owner, "groups", "select count(distinct colocation_id) from citus_tables")
        #expect(try groups[0].value(Int64.self, at: 0) == 2)
        await owner.close()
    }

    @Test("migrate --distributed rejects a database without the extension, and changes nothing")
    func noExtension() async throws {
        let server = try await TestCluster.server()
        let name = "without_citus"
        try await server.createDatabase(name)

        let result = try ServerProcess.run(
            ["migrate", "--distributed"],
            environment: [
                "SUBLEDGER_DATABASE_URL": "postgres:///\(name)?host=\(server.socketFolder)&user=subledger"
            ])

        #expect(result.status == 78)
        #expect(
            result.error
                == "subledger: the database has no extension citus: create it, add the other nodes, and run this again"
                + "\n")
    }

    @Test(
        "two writers of the same notifications to eight streams store positions 1...n of each, without gaps or repeats")
    func writers() async throws {
        let database = try await CitusCluster.freshDatabase()
        let logger = LogRecorder().logger
        let (apps, count) = (Self.apps, 20)
        let pools = (0..<2).map { _ in
            PostgresPool(database.with(role: "subledger_receiver"), limit: 4, logger: logger)
        }
        let writers = pools.map { Appender(pool: $0, logger: logger) }
        let running = writers.map { writer in Task { await writer.run() } }

        let places = try await withThrowingTaskGroup(of: (String, Appended).self) { group in
            for app in apps {
                for number in 0..<count {
                    for writer in writers {
                        group.addTask {
                            let event = PreparedEvent(
                                try Self.notification(number, app: app), receivedAt: TestBundle.now)
                            return (app, try await writer.append(event))
                        }
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for writer in writers { await writer.stop() }
        for task in running { await task.value }
        for pool in pools { await pool.close() }

        for app in apps {
            let own = places.filter { $0.0 == app }.map(\.1)
            #expect(Set(own.map(\.position)) == Set(1...Int64(count)))
            #expect(own.filter(\.isNew).count == count)
        }
        let owner = try await TestCluster.connect(database)
        let nodes = try await Self.rows(
            owner, "nodes",
            """
            select count(distinct citus_shards.nodename)
            from subledger.stream
            join citus_shards
              on citus_shards.table_name = 'subledger.event'::regclass
              and citus_shards.shardid = get_shard_id_for_distribution_column('subledger.event', stream.stream_id)
            """)
        #expect(try nodes[0].value(Int64.self, at: 0) == 2, "both workers hold streams")
        await owner.close()
    }

    @Test("while a worker is away, the streams of the other one are stored, and afterwards all are")
    func workerAway() async throws {
        let database = try await CitusCluster.freshDatabase()
        try await Self.withAppender(database) { appender in
            let first = try await Self.append(0, with: appender)
            #expect(try first.values.allSatisfy { try $0.get().position == 1 })
            let owner = try await TestCluster.connect(database)
            let places = try await Self.rows(
                owner, "places",
                """
                select stream.app, citus_shards.nodename
                from subledger.stream
                join citus_shards
                  on citus_shards.table_name = 'subledger.event'::regclass
                  and citus_shards.shardid = get_shard_id_for_distribution_column('subledger.event', stream.stream_id)
                """)
            let onFirst = try places.filter { try $0.value(String.self, at: 1) == CitusCluster.socketFolder("worker1") }
            let stored = Set(try onFirst.map { try $0.value(String.self, at: 0) })
            await owner.close()

            try await CitusCluster.permitConnections(false, to: database, on: "worker2")
            let during = try await Self.append(1, with: appender)
            try await CitusCluster.permitConnections(true, to: database, on: "worker2")
            let after = try await Self.append(1, with: appender)

            #expect(!stored.isEmpty && stored.count < Self.apps.count, "both workers hold streams")
            for app in Self.apps {
                if stored.contains(app) {
                    #expect(try during[app]?.get().position == 2)
                } else {
                    #expect(during[app] == .failure(.unavailable))
                }
                #expect(try after[app]?.get().position == 2)
            }
        }
    }

    @Test("on every node, only the receiver may run the functions that have the owner's rights")
    func privileges() async throws {
        let owner = try await TestCluster.connect(try await CitusCluster.freshDatabase())
        let found = try await Self.rows(
            owner, "privileges",
            """
            select result
            from run_command_on_all_nodes($command$
              select string_agg(
                concat_ws(
                  ' ', proname, array_to_string(proconfig, ' '),
                  has_function_privilege('subledger_receiver', oid, 'execute'),
                  has_function_privilege('subledger_analyst', oid, 'execute')),
                '; ' order by proname)
              from pg_proc
              where pronamespace = 'subledger'::regnamespace
                and proname in ('append_to_part', 'hold_stream')
            $command$)
            """)
        await owner.close()
        #expect(
            try found.map { try $0.value(String.self, at: 0) }
                == Array(
                    repeating: "append_to_part search_path=pg_catalog, pg_temp citus.enable_ddl_propagation=off t f; "
                        + "hold_stream search_path=pg_catalog, pg_temp t f", count: 3))
    }

    @Test("after a part of the tables is split, its streams are stored in the new parts")
    func split() async throws {
        let database = try await CitusCluster.freshDatabase()
        try await Self.withAppender(database) { appender in
            let before = try await Self.append(0, with: appender)
            let owner = try await TestCluster.connect(database)
            let parts = try await Self.rows(
                owner, "split",
                """
                select citus_split_shard_by_split_points(
                  shardid, array[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text],
                  array[nodeid, nodeid], 'block_writes')
                from pg_dist_shard
                join pg_dist_placement using (shardid)
                join pg_dist_node using (groupid)
                where shardid = get_shard_id_for_distribution_column('subledger.stream_head', 1)
                """)
            await owner.close()
            let after = try await Self.append(1, with: appender)

            #expect(parts.count == 1)
            #expect(try before.values.map { try $0.get().position } == Array(repeating: 1, count: 8))
            #expect(try after.values.map { try $0.get().position } == Array(repeating: 2, count: 8))
        }
    }

    @Test("serve rejects joined apps, whose customers it could not read as one")
    func joinedApps() async throws {
        let shared = try await SharedDatabase.distributed()
        let file = TestFolder.path("apps") + ".json"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try Data(
            #"[{"bundleId":"a"},{"packageName":"x","push":{"authentication":"none"},"joinedWith":"a"}]"#.utf8
        ).write(to: URL(fileURLWithPath: file))

        let result = try ServerProcess.run(
            ["serve", "--apps-file", file, "--public-port", "0", "--private-port", "0"],
            environment: shared.environment())

        #expect(result.status == 78)
        #expect(
            result.error.contains(
                "subledger: app x: joinedWith is not possible in a distributed database: remove it\n"))
    }

    @Test("moving a stream to another node while it takes notifications loses none, and the log and the rows are right")
    func move() async throws {
        let shared = try await SharedDatabase.distributed()
        try await TestBundle.withServer(database: shared.configuration) { server in
            let first = try await server.apple.post(try V1Body(number: 0).bytes)
            #expect(first.status == 200)
            let (moves, senders) = (3, 4)
            let isMoving = Flag()

            let sent = try await withThrowingTaskGroup(of: Int.self) { group in
                defer { isMoving.clear() }
                for sender in 0..<senders {
                    group.addTask {
                        var acknowledged = 0
                        while isMoving.isSet {
                            let body = try V1Body(number: 1 + sender + acknowledged * senders).bytes
                            // As the store does, until it is acknowledged.
                            _ = try await eventually(within: .seconds(60), "a notification is acknowledged") {
                                try await server.apple.post(body).status == 200 ? true : nil
                            }
                            acknowledged += 1
                        }
                        return acknowledged
                    }
                }
                for _ in 0..<moves { try await Self.moveStream(shared.configuration) }
                isMoving.clear()
                return try await group.reduce(1, +)
            }

            let head = try await server.sql("select position::text from subledger.stream_head")
            #expect(head == ["\(sent)"], "each acknowledged notification is stored once")
            _ = try await eventually(within: .seconds(60), "all events are folded") { () -> Bool? in
                let folded = try await server.sql("select position::text from subledger.checkpoint")
                return folded == head ? true : nil
            }
            let subscriptions = try await server.sql("select count(*)::text from subledger.subscription")
            #expect(subscriptions == ["\(sent)"])
            let id = "2000000000000000"
            for path in ["/customers/\(id)", "/customers/\(id)/entitlements"] {
                let answer = try await server.backend.get("\(path)?environment=production")
                #expect(answer.status == 200, "\(answer.body)")
                #expect(answer.body.contains("\"app\":\"com.example.magazine\""))
            }
            let verified = try ServerProcess.run(["verify", "--all"], environment: shared.environment())
            #expect(verified.status == 0, "\(verified.output)\(verified.error)")
            let rebuilt = try ServerProcess.run(["rebuild"], environment: shared.environment())
            #expect(rebuilt.status == 0, "\(rebuilt.error)")
            let left = try await server.sql(
                "select count(*)::text from pg_namespace where nspname = 'subledger_rebuild'")
            #expect(left == ["0"], "the tables of the rebuild are dropped")
        }
    }

    @Test("a product is set on every node, and the poller reads it with its own rights")
    func products() async throws {
        let database = try await CitusCluster.freshDatabase()
        let products = try await TestCluster.connect(database.with(role: "subledger_products"))
        let poller = try await TestCluster.connect(database.with(role: "subledger_poller"))

        _ = try await Self.rows(
            products, "state",
            """
            insert into subledger.product (app, product_id, kind, duration)
            values ('com.example.magazine', 'season', 'non-renewing', 'P3M')
            """)
        let found = try await Self.rows(poller, "catalog", "select products from subledger.product_catalog")

        #expect(found.count == 1)
        await products.close()
        await poller.close()
    }

    private static let apps = (1...8).map { "com.example.app\($0)" }

    private static func withAppender(
        _ database: ConnectionConfiguration, _ test: (Appender) async throws -> Void
    ) async throws {
        let logger = LogRecorder().logger
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 4, logger: logger)
        let appender = Appender(pool: pool, logger: logger)
        let running = Task { await appender.run() }
        let result: Result<Void, any Error>
        do {
            result = .success(try await test(appender))
        } catch {
            result = .failure(error)
        }
        await appender.stop()
        await running.value
        await pool.close()
        try result.get()
    }

    /// Appends a notification to each of ``apps``, all at once.
    private static func append(
        _ number: Int, with appender: Appender
    ) async throws -> [String: Result<Appended, AppendError>] {
        try await withThrowingTaskGroup(of: (String, Result<Appended, AppendError>).self) { group in
            for app in apps {
                let event = PreparedEvent(try notification(number, app: app), receivedAt: TestBundle.now)
                group.addTask {
                    do throws(AppendError) {
                        return (app, .success(try await appender.append(event)))
                    } catch {
                        return (app, .failure(error))
                    }
                }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
    }

    /// Moves stream 1 to the other worker.
    private static func moveStream(_ database: ConnectionConfiguration) async throws {
        let owner = try await TestCluster.connect(database)
        let moved = try await rows(
            owner, "move_stream",
            """
            select citus_move_shard_placement(
              placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, 'force_logical')
            from citus_shards as placed
            join pg_dist_node as other
              on other.nodename <> placed.nodename
              and other.shouldhaveshards
            where placed.table_name = 'subledger.event'::regclass
              and placed.shardid = get_shard_id_for_distribution_column('subledger.event', 1)
            """)
        #expect(moved.count == 1)
        await owner.close()
    }
}

/// A flag that is set until it is cleared.
private final class Flag: Sendable {
    private let state = Mutex(true)
    var isSet: Bool { state.withLock { $0 } }
    func clear() { state.withLock { $0 = false } }
}
