import Postgres

/// Distributes the tables over the nodes of a cluster of PostgreSQL servers with the extension Citus, by stream.
///
/// All rows of a stream are on one node, so every statement about one stream runs there. What belongs to no stream and
/// is joined with streams is on all nodes; the queues, tokens and receipts remain on the coordinator, which is the node
/// that Subledger connects to.
package enum Distribution {
    /// Distributed by `stream_id`, all with the same nodes as the first one: every table whose key begins with it, unless it
    /// is listed below.
    package static let byStream: [String] = {
        let others = Set(onAllNodes + ofQueues)
        let names = Schema.tables.filter { $0.isKeyedByStream && !others.contains($0.name) }.map { $0.name }
        return ["stream_head"] + names.filter { $0 != "stream_head" }
    }()
    /// On every node.
    package static let onAllNodes = [
        "stream", "app_checks", "app_join", "app_ownership", "commission", "consumption_policy", "exchange_rate",
        "product", "product_entitlement", "store_report", "store_report_row", "tax_rate",
    ]
    /// Keyed by stream, but written together with queues, which are on the coordinator.
    private static let ofQueues = ["google_intake"]
    /// On the coordinator only: all others.
    package static let onCoordinator: [String] = {
        let others = Set(byStream + onAllNodes)
        return Schema.tables.map { $0.name }.filter { !others.contains($0) }
    }()

    /// Distributes the tables of a database with an up-to-date schema. Safe to repeat: tables that are distributed stay
    /// as they are. Every distributed table is locked until this returns.
    ///
    /// - Throws: ``DistributionError``; ``PostgresError``, after which nothing has changed.
    package static func distribute(_ connection: PostgresConnection) async throws {
        let deadline = ContinuousClock.now + Limits.migrateWaitMax
        guard try await connection.query(Statements.hasExtension, deadline: deadline)[0].value(at: 0) else {
            throw DistributionError.noExtension
        }
        for node in try await connection.query(Statements.unsafeNodes, deadline: deadline) {
            throw DistributionError.unsafe(node: try node.value(at: 0), settings: try node.value(at: 1))
        }
        try await connection.begin(deadline: deadline)
        do {
            try await connection.script(script, deadline: deadline)
            try await connection.commit(deadline: deadline)
        } catch {
            try? await connection.rollback(deadline: deadline)
            throw error
        }
    }

    /// Whether the tables are distributed, as an expression.
    package static let condition: SQL = "to_regproc('subledger.part_of') is not null"

    /// Whether the tables are distributed.
    package static func isInUse(_ connection: PostgresConnection) async throws(PostgresError) -> Bool {
        try await connection.query(Statements.isInUse, deadline: .now + Limits.readWaitMax)[0].value(at: 0)
    }

    enum Statements {
        static let hasExtension = Statement(
            "distribution_has_extension",
            """
            select exists (select from pg_extension where extname = 'citus')
            """)

        static let isInUse = Statement(
            "distribution_is_in_use",
            """
            select \(Distribution.condition)
            """)

        /// A commit is durable if the node that holds the stream has flushed it.
        static let unsafeNodes = Statement(
            "distribution_unsafe_nodes",
            """
            select nodename || ':' || nodeport, result
            from run_command_on_workers($command$
              select coalesce(string_agg(name, ', ' order by name), '')
              from pg_settings
              where name in ('fsync', 'full_page_writes', 'synchronous_commit')
                and setting = 'off'
            $command$)
            where result <> ''
              or not success
            order by nodename, nodeport
            limit 1
            """)
    }

    /// For a transaction that changes tables on all nodes.
    static let sequentially = "set local citus.multi_shard_modify_mode = 'sequential';"

    /// Distributes the tables that are not distributed yet, and creates the functions that run on the nodes.
    ///
    /// Nodes connect to each other as the role that a session has assumed, so the roles must be permitted to log in. The
    /// extension reads the tables of a view with the rights of that role, not of the view's owner.
    static let script = """
        \(sequentially)
        set local citus.enable_unsafe_triggers = on;
        set local client_min_messages = error;
        -- The rows are on the nodes, of which a subscriber of the coordinator knows nothing.
        drop publication if exists subledger_feed;
        do $$
        declare
          name text;
        begin
          foreach name in array array[
            'subledger_owner', 'subledger_receiver', 'subledger_projector', 'subledger_products',
            'subledger_authenticator', 'subledger_poller', 'subledger_reader', 'subledger_analyst'
          ] loop
            if not (select rolcanlogin from pg_roles where rolname = name) then
              execute format('alter role %I login', name);
            end if;
          end loop;
          foreach name in array '{\(list(onAllNodes))}'::text[] loop
            if not exists (select from pg_dist_partition where logicalrelid = ('subledger.' || name)::regclass) then
              perform create_reference_table('subledger.' || name);
            end if;
          end loop;
          foreach name in array '{\(list(byStream))}'::text[] loop
            if not exists (select from pg_dist_partition where logicalrelid = ('subledger.' || name)::regclass) then
              perform create_distributed_table(
                'subledger.' || name, 'stream_id',
                colocate_with => case when name = 'stream_head' then 'none' else 'subledger.stream_head' end);
            end if;
          end loop;
        end
        $$;
        grant select on subledger.product, subledger.product_entitlement to subledger_poller;
        -- A transaction on all nodes must not notify. The projector finds the change of a product within seconds.
        create or replace function subledger.notify_products() returns trigger
        language plpgsql as $function$
        begin
          return null;
        end
        $function$;
        \(NodeFunctions.script)
        """

    private static func list(_ names: [String]) -> String {
        names.joined(separator: ",")
    }

    /// Distributes the tables of a schema by stream, like those of the log, if those are distributed.
    package static func follow(in schema: SQL) -> SQL {
        """
        do $$
        begin
          if \(condition) then
            perform create_distributed_table(pg_class.oid, 'stream_id', colocate_with => 'subledger.stream_head')
            from pg_class
            where pg_class.relnamespace = '\(schema)'::regnamespace
              and pg_class.relkind = 'r';
          end if;
        end
        $$
        """
    }
}

/// Why the tables cannot be distributed.
package enum DistributionError: Error, CustomStringConvertible {
    case noExtension
    case unsafe(node: String, settings: String)
    /// Apps whose customers are one, which a distributed database does not read.
    case joined(app: String)

    package var description: String {
        switch self {
        case .noExtension:
            "the database has no extension citus: create it, add the other nodes, and run this again"
        case .unsafe(let node, let settings):
            "node \(node) runs with \(settings) = off, or does not answer, so a crash could lose what was acknowledged"
        case .joined(let app):
            "app \(app): joinedWith is not possible in a distributed database: remove it"
        }
    }
}
