import Crypto
import Encoding
import Postgres

/// The functions of a distributed database that run on the node of a stream.
///
/// They are made from the statements that one server executes: each name of a table is replaced by that of its part on
/// the node. So a statement with writing subqueries, which the extension does not plan, is planned by PostgreSQL itself,
/// and all steps of a batch take one call.
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
                from pg_catalog.pg_dist_shard
                where pg_dist_shard.logicalrelid = pg_dist_partition.logicalrelid
              )
            end
          from pg_catalog.pg_dist_partition
          where logicalrelid = ('subledger.' || name)::regclass
        $function$;

        create or replace function subledger.hold_stream(of_stream integer) returns void
        language plpgsql
        security definer
        set search_path = pg_catalog, pg_temp
        as $function$
        begin
          -- Moving the stream to another node waits for this lock, and this waits until the stream has moved.
          perform lock_shard_metadata(
            5, array[get_shard_id_for_distribution_column('subledger.stream_head', of_stream)]);
        end
        $function$;

        \(append);

        do $block$
        declare
          name text;
        begin
          -- Only the owner of a table may lock its parts.
          foreach name in array '{hold_stream,append_to_part}'::text[] loop
            execute format(
              'alter function subledger.%I(integer) owner to %s', name,
              (select relowner::regrole::text from pg_class where oid = 'subledger.stream_head'::regclass));
          end loop;
        end
        $block$;
        revoke execute on function subledger.hold_stream(integer), subledger.append_to_part(integer) from public;
        grant execute on function subledger.hold_stream(integer) to subledger_receiver, subledger_projector;
        grant execute on function subledger.append_to_part(integer) to subledger_receiver;
        """

    /// The name of the function that appends to one stream.
    private static let appendName = "subledger.append_on_node"
    private static let resultColumns = #"(ordinal bigint, "position" bigint, is_new boolean, is_conflict boolean)"#

    private static let append: String = {
        let headers = types(of: EventLogWriter.Statements.keepHeaders)
        let events = types(of: EventLogWriter.Statements.append)
        let signature = (["integer"] + headers + events).joined(separator: ", ")
        let arguments = (1...1 + headers.count + events.count).map { "$\($0)" }.joined(separator: ", ")
        let template = appendToPart(signature: signature, firstOfEvents: 2 + headers.count)
        return """
            do $block$
            declare
              other record;
            begin
              -- Drops the functions of earlier releases.
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

            -- The function that appends to the part of a stream. It is created on first use, because Citus moves and splits
            -- parts later. Those of earlier releases, or for parts of other tables, are dropped here.
            select run_command_on_all_nodes($command$
              do $block$
              declare
                other record;
              begin
                for other in
                  select oid::regprocedure as name
                  from pg_proc
                  where pronamespace = 'subledger'::regnamespace
                    and starts_with(proname, 'append_to_')
                    and proname <> 'append_to_part'
                loop
                  execute format('drop function %s', other.name);
                end loop;
              end
              $block$
            $command$);
            create or replace function subledger.append_to_part(of_stream integer) returns text
            language plpgsql
            security definer
            set search_path = pg_catalog, pg_temp
            set citus.enable_ddl_propagation = off
            as $function$
            declare
              part constant bigint := get_shard_id_for_distribution_column('subledger.stream_head', of_stream);
              name constant text := format('append_to_%s_\(template.version)', part);
            begin
              if to_regproc('subledger.' || name) is null then
                begin
                  execute format($definition$\(template.format)$definition$, name, \(template.tables));
                exception when unique_violation or duplicate_function or internal_error then
                  -- Another session has created it meanwhile: the catalog's unique index made this one wait for it.
                  if to_regproc('subledger.' || name) is null then
                    raise;
                  end if;
                end;
              end if;
              return 'subledger.' || name;
            end
            $function$;

            create or replace function \(appendName)(\(signature))
            returns table \(resultColumns)
            language plpgsql
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
              return query execute format('select * from %s(\(arguments))', subledger.append_to_part($1))
                using \(arguments);
            end
            $function$;
            select create_distributed_function(
              '\(appendName)(\(signature))', '$1', colocate_with => 'subledger.stream_head',
              force_delegation => true)
            """
    }()

    /// Defines a function that appends to one stream of a part, with the statements of one server. A session plans it once
    /// for each part, because planning takes several times as long as appending an event.
    ///
    /// - Returns: The template of the definition, for SQL's `format` with the function's name and the names of tables; the
    ///   expressions of these names; and a digest of the template.
    private static func appendToPart(
        signature: String, firstOfEvents: Int
    ) -> (format: String, tables: String, version: String) {
        var tables: [String] = []
        /// Tables keep their names as aliases; functions are on all nodes.
        func text(of statement: Statement, firstParameter: Int) -> String {
            statement.sql
                .replacing(/\$(\d+)/) { "$\((Int($0.1) ?? 0) + firstParameter - 1)" }
                .replacing("%", with: "%%")
                .replacing(/subledger\.(\w+)\b(?!\()/) { match in
                    let table = String(match.1)
                    if !tables.contains(table) { tables.append(table) }
                    return "subledger.%\((tables.firstIndex(of: table) ?? 0) + 2)$I as \(table)"
                }
        }
        let lock = text(of: EventLogWriter.Statements.lockHeads, firstParameter: 1)
            .replacing("$1::integer[]", with: "array[$1]")
        let headers = text(of: EventLogWriter.Statements.keepHeaders, firstParameter: 2)
        let events = text(of: EventLogWriter.Statements.append, firstParameter: firstOfEvents)
        let settings = EventLogWriter.planSettings.sorted { $0.key < $1.key }.map { "set \($0.key) = \($0.value)" }
        let format = """
            create or replace function subledger.%1$I(\(signature))
            returns table \(resultColumns)
            language plpgsql
            \(settings.joined(separator: "\n"))
            as $part$
            #variable_conflict use_column
            begin
              perform from (\(lock)) as locked;
              if cardinality($3) > 0 then
                \(headers);
              end if;
              return query \(events);
            end
            $part$
            """
        let version = Hex.text(Array(SHA256.hash(data: Array(format.utf8)).prefix(4)))
        return (format, tables.map { "subledger.part_of('\($0)', of_stream)" }.joined(separator: ", "), version)
    }

    /// The types of a statement's parameters, each of which has a cast in its text.
    private static func types(of statement: Statement) -> [String] {
        var types: [Int: String] = [:]
        for match in statement.sql.matches(of: /\$(\d+)::(\w+(?:\[\])?)/) {
            types[Int(match.1) ?? 0] = String(match.2)
        }
        return types.keys.sorted().compactMap { types[$0] }
    }
}
