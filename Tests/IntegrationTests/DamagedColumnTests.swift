import AppStore
import Crypto
import Encoding
import EventLog
import Logging
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("Verify finds a changed value in any column")
struct DamagedColumnTests {
    /// Runs as the owner of a database, who can do what a superuser can. `damage` changes one value of a column in a
    /// row and returns the name of the row; `undo` restores the rows. Check constraints are dropped, because a damaged
    /// page can contain values that they reject.
    private static let intrusion = """
        do $$
        declare
          relation regclass;
        begin
          foreach relation in array array[
            'subledger.event', 'subledger.event_conflict', 'subledger.projector_skip', 'subledger.jws_header',
            'subledger.certificate_verdict', 'subledger.ocsp_response'
          ]::regclass[] loop
            execute format('alter table %s disable trigger user', relation);
          end loop;
        end
        $$;

        do $$
        declare
          found record;
        begin
          for found in
            select conrelid::regclass as relation, conname
            from pg_constraint
            where contype = 'c' and connamespace = 'subledger'::regnamespace and conrelid <> 0
          loop
            execute format('alter table %s drop constraint %I', found.relation, found.conname);
          end loop;
        end
        $$;

        create function damage(relation text, field text) returns text language plpgsql as $$
        declare
          kind text;
          usable text := format('%I is not null', field);
          changed text;
          other text;
          place tid;
          name text;
        begin
          execute format('create table copy_of_%s as table subledger.%I', relation, relation);
          select format_type(atttypid, null) into strict kind
          from pg_attribute
          where attrelid = format('subledger.%I', relation)::regclass and attname = field;
          case kind
            when 'text' then
              changed := 'left(%1$I, -1) || case when right(%1$I, 1) = ''x'' then ''y'' else ''x'' end';
              other := '''x''';
            when 'bytea' then
              changed := 'set_byte(%1$I, octet_length(%1$I) - 1, get_byte(%1$I, octet_length(%1$I) - 1) # 1)';
              other := 'sha256(''x'')';
            when 'timestamp with time zone' then
              usable := format('isfinite(%I)', field);
              changed := '%1$I + interval ''1 microsecond''';
              other := '''2020-01-01''';
            when 'bigint' then
              changed := '%1$I # 1048576';
              other := '1';
            when 'integer' then
              changed := '%1$I # 1';
              other := '1';
            when 'boolean' then
              changed := 'not %1$I';
              other := 'true';
            when 'jsonb' then
              changed := '%1$I || ''{"x":1}''';
              other := '''[{"x":1}]''';
            when 'bigint[]' then
              changed := '%1$I[:cardinality(%1$I) - 1] || (%1$I[cardinality(%1$I)] # 1048576)';
              other := '''{1}''';
          end case;
          execute format('select ctid from subledger.%I as t order by (%s) is not true, t::text limit 1', relation, usable)
          into place;
          execute format('select %s from subledger.%I where ctid = $1',
            case
              when relation in ('event', 'event_conflict', 'projector_skip') then 'position::text'
              when relation in ('stream', 'stream_head') then 'stream_id::text'
              when relation = 'certificate_verdict' then 'encode(chain_id, ''hex'')'
              when relation = 'ocsp_response' then 'encode(response_sha256, ''hex'')'
              when relation = 'subscription_head' then 'encode(subscription_sha256, ''hex'')'
              when relation = 'jws_header' then 'encode(digest, ''hex'')'
              when relation in ('subscription', 'ownership', 'check_schedule') then 'original_transaction_id'
              when relation in ('transaction', 'access_period', 'refunded_period') then 'transaction_id'
              when relation = 'checkpoint' then '''checkpoint'''
              else 'id'
            end, relation)
          into name using place;
          execute format('update subledger.%I set %I = case when %s then %s else %s end where ctid = $1',
            relation, field, usable, format(changed, field), other)
          using place;
          return name;
        end
        $$;

        create function undo(relation text) returns void language plpgsql as $$
        begin
          execute format('delete from subledger.%I', relation);
          execute format('insert into subledger.%I table copy_of_%s', relation, relation);
          execute format('drop table copy_of_%s', relation);
        end
        $$
        """

    /// Rows that the stories do not have: a conflict under a known id, a certificate verdict, and an operator's
    /// decision about a future position.
    private static let besides = """
        insert into subledger.event_conflict (stream_id, position, body_sha256, received_at, body)
        values (1, 3, sha256('{}'), now(), '{}');
        insert into subledger.certificate_verdict (chain_id, decided_at, verdict) values (sha256('a'), now(), 'good');
        insert into subledger.ocsp_response (
          certificate_sha256, response_sha256, status, this_update, next_update, answered_at, response
        )
        values (sha256('a'), sha256('b'), 'good', now(), now(), now(), 'b');
        insert into subledger.projector_skip (stream_id, position, reason, skipped_by)
        values (1, 1000000, 'unreadable', 'operator');
        """

    private static let columns = Statement(
        "columns",
        """
        select attname::text
        from pg_attribute
        where attrelid = ('subledger.' || $1)::regclass
          and attnum > 0
          and not attisdropped
        order by attnum
        """)
    private static let damage = Statement("damage", "select damage($1, $2)")
    private static let undo = Statement("undo", "select undo($1)::text")

    /// A backend's statement, as its route passes it on.
    private struct Stated: ProvenEvent {
        let stream: StreamKey
        let event: Event
        let evidence: Evidence
        let bodyDigest: [UInt8]
        let chain: SigningChain?

        init(_ statement: LinkStatement, at time: Instant, chain: SigningChain? = nil) {
            self.chain = chain
            stream = StreamKey(app: V1Body.app, environment: .sandbox)
            event = statement.event(environment: .sandbox, app: V1Body.app, receivedAt: time)
            evidence = Evidence(statement.canonicalText)
            bodyDigest = Array(SHA256.hash(data: statement.canonicalText))
        }
    }

    /// A log of signed and unsigned notifications, with two statements of a backend; the second replaces the first.
    ///
    /// - Parameters:
    ///   - template: The database with the notifications.
    ///   - chain: What stands beside the statements, as if they were signed.
    private static func withLog(
        _ template: String, chain: SigningChain? = nil,
        _ test: (SimulatedLog, PostgresConnection) async throws -> Void
    ) async throws {
        try await SimulatedLog.with(from: template) { log in
            let pool = PostgresPool(
                log.database.with(role: "subledger_receiver"), limit: 1, logger: LogRecorder().logger)
            let appender = Appender(pool: pool, logger: LogRecorder().logger)
            let running = Task { await appender.run() }
            for (second, subscription) in [(1, "1"), (2, "2")] {
                let time = Instant.earliest.advanced(byMilliseconds: Int64(1_700_000_000_000 + second * 1000))
                let statement = LinkStatement(
                    backendCustomerId: "customer", links: [CustomerKey(.subscription, subscription)])
                _ = try await appender.append(
                    PreparedEvent(Stated(statement, at: time, chain: chain), receivedAt: time))
            }
            await appender.stop()
            await running.value
            await pool.close()
            await log.projector.foldAllStreams()
            let owner = try await TestCluster.connect(log.database)
            try await owner.script(besides, deadline: .now + .seconds(20))
            try await owner.script(intrusion, deadline: .now + .seconds(20))
            try await test(log, owner)
            await owner.close()
        }
    }

    private static func finding(_ log: SimulatedLog, extent: ProjectionAudit.Extent) async throws -> String? {
        let role = log.database.with(role: "subledger_projector")
        let (events, rows) = (try await TestCluster.connect(role), try await TestCluster.connect(role))
        let outcome = try await DatabaseVerifier(
            log: LogAudit(connection: events), projections: try await ProjectionAudit(connection: rows, seed: 1),
            signatures: SignatureVerifier(roots: SimulatedLog.roots), extent: extent
        ).run()
        await events.close()
        await rows.close()
        return outcome.finding?.description
    }

    /// The finding of a verification of the projections. A changed projection cannot change the findings in the log.
    private static func projectionFinding(_ log: LogAudit, _ projections: ProjectionAudit) async throws -> String? {
        do {
            for stream in try await log.streams() {
                _ = try await projections.check(stream: stream.id, .all) { _, _ in }
            }
        } catch let problem as ProjectionAudit.Problem {
            return problem.description
        }
        return try await projections.strayStream()?.problem.description
    }

    /// The finding after a change, with the name of the changed row.
    private typealias Findings = [String: (row: String, finding: String?)]

    /// Changes each column of a table in turn, runs the check, and undoes the change.
    ///
    /// - Returns: The findings by column.
    private static func findings(
        _ relation: String, _ owner: PostgresConnection, _ look: () async throws -> String?
    ) async throws -> Findings {
        var findings: Findings = [:]
        let soon = ContinuousClock.now + .seconds(120)
        for row in try await owner.query(columns, [Parameter(relation)], deadline: soon) {
            let column: String = try row.value(at: 0)
            let damaged = try await owner.query(damage, [Parameter(relation), Parameter(column)], deadline: soon)
            findings[column] = (try damaged[0].value(at: 0), try await look())
            _ = try await owner.query(undo, [Parameter(relation)], deadline: soon)
        }
        return findings
    }

    /// Verifies a short log after each change. All of it is verified again each time, including signatures.
    private static func findingsInLog(_ relation: String) async throws -> Findings {
        var findings: Findings = [:]
        try await withLog(try await SimulatedLog.fewStories.value) { log, owner in
            #expect(try await finding(log, extent: .all) == nil)
            findings = try await Self.findings(relation, owner) { try await finding(log, extent: .sample(1)) }
        }
        return findings
    }

    /// Checks the projections of every story after each change. The whole verification runs before the changes and
    /// after the first one.
    private static func findingsInProjections(_ relation: String) async throws -> Findings {
        var findings: Findings = [:]
        try await withLog(try await SimulatedLog.everyStory.value) { log, owner in
            #expect(try await finding(log, extent: .all) == nil)
            let role = log.database.with(role: "subledger_projector")
            let (events, rows) = (try await TestCluster.connect(role), try await TestCluster.connect(role))
            let (audit, projections) = (
                LogAudit(connection: events), try await ProjectionAudit(connection: rows, seed: 1)
            )
            var isFirst = true
            findings = try await Self.findings(relation, owner) {
                let found = try await projectionFinding(audit, projections)
                if isFirst, let found { #expect(try await finding(log, extent: .all)?.hasSuffix(found) == true) }
                isFirst = false
                return found
            }
            await events.close()
            await rows.close()
        }
        return findings
    }

    /// Nothing signs the links of a backend, so a chain of certificates beside them claims a signature that is not there.
    @Test("a backend's links with a chain of certificates are reported")
    func chainOfUnsigned() async throws {
        let chain = SigningChain(id: [UInt8](repeating: 7, count: 32), revocation: .good)
        try await Self.withLog(try await SimulatedLog.fewStories.value, chain: chain) { log, _ in
            let finding = try await Self.finding(log, extent: .sample(1))

            #expect(finding?.contains("chain_id does not match the body") == true, "\(finding ?? "nothing")")
        }
    }

    @Test("a change in any column of an event is found with its position")
    func events() async throws {
        let findings = try await Self.findingsInLog("event")

        #expect(findings.count >= 15)
        for (column, (row, finding)) in findings.sorted(by: { $0.key < $1.key }) {
            // An event that moved to another stream belongs to an unregistered stream.
            let name = column == "stream_id" ? "stream 0: " : "position \(row): "
            #expect(finding?.contains(name) == true, "\(column): \(finding ?? "nothing")")
        }
    }

    /// Columns that neither a body nor the hash chain determines. Guarantees.md lists them.
    private static let unprotected: [String: Set<String>] = [
        "event_conflict": ["received_at"],
        "projector_skip": ["position", "reason", "skipped_at", "skipped_by"],
        "certificate_verdict": ["chain_id", "decided_at", "verdict"],
        "ocsp_response": [
            "certificate_sha256", "response_sha256", "status", "this_update", "next_update", "answered_at", "response",
        ],
    ]

    @Test(
        "a change in any column of the log's other tables is found, except in those that are documented",
        arguments: [
            "stream", "stream_head", "subscription_head", "event_conflict", "projector_skip", "certificate_verdict",
            "ocsp_response", "jws_header",
        ])
    func besideEvents(relation: String) async throws {
        let findings = try await Self.findingsInLog(relation)

        #expect(findings.count >= 2)
        for (column, (row, finding)) in findings.sorted(by: { $0.key < $1.key }) {
            if Self.unprotected[relation]?.contains(column) == true {
                #expect(finding == nil, "\(column)")
                continue
            }
            #expect(finding != nil, "\(column)")
            // Damage of streams, heads and headers shows in the events that need them.
            let isKey = ["stream_id", "position", "body_sha256", "subscription_sha256"].contains(column)
            guard !isKey, !["stream", "stream_head", "jws_header"].contains(relation), let finding else { continue }
            #expect(finding.contains("\(relation) \(row): "), "\(column): \(finding)")
        }
    }

    @Test(
        "a change in any column of a projection is found with its row",
        arguments: [
            "subscription", "transaction", "access_period", "refunded_period", "check_schedule", "customer_edge",
            "customer_link",
            "ownership", "customer_identity", "checkpoint",
        ])
    func projections(relation: String) async throws {
        let findings = try await Self.findingsInProjections(relation)

        #expect(findings.count >= 3)
        let keys: Set = [
            "stream_id", "original_transaction_id", "transaction_id", "kind", "id", "cause", "backend_customer_id",
        ]
        for (column, (row, finding)) in findings.sorted(by: { $0.key < $1.key }) {
            // When a check is made next, and who makes it, depends on the checks that were made, which are not in the log.
            if relation == "check_schedule", ["next_at", "asking_until"].contains(column) {
                #expect(finding == nil)
                continue
            }
            #expect(finding != nil, "\(column)")
            // A changed key gives both an unexpected row and a missing one; either may be reported.
            guard !keys.contains(column), let finding else { continue }
            #expect(finding.contains("\(relation) ") || finding.contains("checkpoint: "), "\(column): \(finding)")
            #expect(finding.contains(row), "\(column): \(finding)")
        }
    }
}
