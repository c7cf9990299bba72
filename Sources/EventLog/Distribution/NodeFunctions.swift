import Postgres

/// The functions of a distributed database that run on the node of a stream.
///
/// They are made from the statements that one server executes: each name of a table is replaced by that of its part on
/// the node, when it is called. So a statement with writing subqueries, which the extension does not plan, is planned by
/// PostgreSQL itself, and all steps of a batch take one call.
enum NodeFunctions {
    /// Appends to the stream of the first parameter: the headers of the bodies are next, then the events.
    static let appendOnNode = Statement(
        "log_append_on_node",
        """
        select ordinal, "position", is_new, is_conflict
        from subledger.append_on_node(
          $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
          $25, $26, $27, $28, $29, $30, $31, $32, $33
        )
        """)

    /// The SQLSTATE of a call that began on a node from which the stream was moved meanwhile.
    static let moved = "40001"

    static let script = """
        create or replace function subledger.part_of(name text, of_stream integer) returns text
        language sql stable as $function$
          select name || '_' || case partmethod
              when 'h' then get_shard_id_for_distribution_column(logicalrelid, of_stream)
              else (
                select shardid
                from pg_dist_shard
                where pg_dist_shard.logicalrelid = pg_dist_partition.logicalrelid
              )
            end
          from pg_dist_partition
          where logicalrelid = ('subledger.' || name)::regclass
        $function$;

        create or replace function subledger.hold_stream(of_stream integer) returns void
        language plpgsql
        security definer
        set search_path = pg_catalog
        as $function$
        begin
          -- Moving the stream to another node waits for this lock, and this waits until the stream has moved.
          perform lock_shard_metadata(
            5, array[get_shard_id_for_distribution_column('subledger.stream_head', of_stream)]);
        end
        $function$;

        do $block$
        begin
          -- Only the owner of a table may lock its parts.
          execute format(
            'alter function subledger.hold_stream(integer) owner to %s',
            (select relowner::regrole::text from pg_class where oid = 'subledger.stream_head'::regclass));
        end
        $block$;

        \(append)
        """

    /// The name of the function that appends to one stream.
    private static let appendName = "subledger.append_on_node"

    private static let append: String = {
        let (lock, headers, events) = (
            EventLogWriter.Statements.lockHeads, EventLogWriter.Statements.keepHeaders,
            EventLogWriter.Statements.append
        )
        let headerTypes = types(of: headers)
        let eventTypes = types(of: events)
        let signature = (["integer"] + headerTypes + eventTypes).joined(separator: ", ")
        let first = headerTypes.count + 2
        return """
            do $block$
            declare
              other record;
            begin
              -- Of earlier releases.
              for other in
                select oid::regprocedure as name
                from pg_proc
                where oid::regproc::text = '\(appendName)'
                  and oid is distinct from to_regprocedure('\(appendName)(\(signature))')
              loop
                execute format('drop function %s', other.name);
              end loop;
            end
            $block$;
            create or replace function \(appendName)(\(signature))
            returns table (ordinal bigint, "position" bigint, is_new boolean, is_conflict boolean)
            language plpgsql
            set enable_seqscan = off
            set jit = off
            as $function$
            begin
              perform subledger.hold_stream($1);
              -- After a move, the rows that the stream had here remain for a while.
              if not exists (
                select
                from pg_dist_placement
                join pg_dist_local_group using (groupid)
                where pg_dist_placement.shardid =
                  get_shard_id_for_distribution_column('subledger.stream_head', $1)
              ) then
                raise exception 'the stream was moved to another node' using errcode = 'serialization_failure';
              end if;
              execute \(text(of: lock)) using array[$1];
              execute \(text(of: headers)) using \(arguments(from: 2, count: headerTypes.count));
              return query execute \(text(of: events)) using \(arguments(from: first, count: eventTypes.count));
            end
            $function$;
            select create_distributed_function(
              '\(appendName)(\(signature))', '$1', colocate_with => 'subledger.stream_head',
              force_delegation => true)
            """
    }()

    /// The types of a statement's parameters, each of which has a cast in its text.
    private static func types(of statement: Statement) -> [String] {
        var types: [Int: String] = [:]
        for match in statement.sql.matches(of: /\$(\d+)::(\w+(?:\[\])?)/) {
            types[Int(match.1) ?? 0] = String(match.2)
        }
        return types.keys.sorted().compactMap { types[$0] }
    }

    private static func arguments(from first: Int, count: Int) -> String {
        (first..<first + count).map { "$\($0)" }.joined(separator: ", ")
    }

    /// An expression that gives a statement's text for the parts of its tables on a node. Tables keep their names as
    /// aliases; functions are on all nodes.
    private static func text(of statement: Statement) -> String {
        var tables: [String] = []
        let format = statement.sql.replacing("%", with: "%%").replacing(/subledger\.(\w+)\b(?!\()/) { match in
            let table = String(match.1)
            if !tables.contains(table) { tables.append(table) }
            return "subledger.%\((tables.firstIndex(of: table) ?? 0) + 1)$I as \(table)"
        }
        let parts = tables.map { "subledger.part_of('\($0)', $1)" }
        return "format($statement$\(format)$statement$, \(parts.joined(separator: ", ")))"
    }
}
