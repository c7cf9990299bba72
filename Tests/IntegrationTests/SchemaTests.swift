import EventLog
import Postgres
import TestSupport
import Testing

@Suite("Migrations and constraints of the schema")
struct SchemaTests {
    @Test("the first run applies the schema, and the second reports it as up to date")
    func twice() async throws {
        let connection = try await TestCluster.connect(try await TestCluster.emptyDatabase())

        let first = try await Schema.migrate(connection)
        let second = try await Schema.migrate(connection)

        #expect(first == .applied)
        #expect(second == .upToDate)
        await connection.close()
    }

    @Test("four concurrent instances apply the schema once")
    func atOnce() async throws {
        let database = try await TestCluster.emptyDatabase()

        let outcomes = try await withThrowingTaskGroup(of: Schema.Outcome.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let connection = try await TestCluster.connect(database)
                    let outcome = try await Schema.migrate(connection)
                    await connection.close()
                    return outcome
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }

        #expect(outcomes.filter { $0 == .applied }.count == 1)
        #expect(outcomes.filter { $0 == .upToDate }.count == 3)
    }

    @Test("a schema newer than this release is rejected and left unchanged")
    func newer() async throws {
        let connection = try await TestCluster.connect(try await TestCluster.freshDatabase())
        try await connection.script(
            "insert into subledger.schema_version (version) values (1000)", deadline: .now + .seconds(10))

        let error = await #expect(throws: MigrationError.self) { try await Schema.migrate(connection) }

        #expect(
            error?.description
                == "the database has schema version 1000, this release supports up to \(Schema.version): install a newer subledger"
        )
        await connection.close()
    }

    /// A database whose recorded repeatable half is that of another release.
    private static func otherRelease() async throws -> (ConnectionConfiguration, PostgresConnection) {
        let database = try await TestCluster.freshDatabase()
        let owner = try await TestCluster.connect(database)
        try await owner.script(
            "update subledger.schema_version set repeatable_sha256 = sha256('x')", deadline: .now + .seconds(10))
        return (database, owner)
    }

    @Test("the repeatable half of another release is replaced once; an owner's grants and views remain")
    func repeatable() async throws {
        let (database, owner) = try await Self.otherRelease()
        try await owner.script(
            """
            grant select on analyst.mrr, analyst.trials_detail to subledger_products;
            create view public.mine as select mrr from analyst.mrr
            """, deadline: .now + .seconds(10))
        let before = try await SchemaCatalog.lines(of: owner)
        try await owner.script(
            """
            drop view analyst.trials;
            drop trigger store_check_append_only on subledger.store_check;
            drop function analyst.months_since cascade;
            alter table subledger.jws_header disable trigger jws_header_append_only;
            comment on column subledger.event.kind is 'other';
            create or replace function subledger.refuse_change() returns trigger language plpgsql as 'begin end'
            """, deadline: .now + .seconds(10))

        let outcomes = [try await Schema.migrate(owner), try await Schema.migrate(owner)]

        #expect(outcomes == [.applied, .upToDate])
        let after = try await SchemaCatalog.lines(of: owner)
        #expect(Set(after).symmetricDifference(before) == [])
        for role in ["subledger_reader", "subledger_analyst"] {
            let reader = try await TestCluster.connect(database.with(role: role))
            try await reader.script(
                "select from analyst.trials; select from analyst.retention; select from subledger.entitlement",
                deadline: .now + .seconds(10))
            await reader.close()
        }
        try await owner.script("select mrr from public.mine", deadline: .now + .seconds(10))
        await owner.close()
    }

    @Test("an up-to-date schema is not locked")
    func notLocked() async throws {
        let database = try await TestCluster.freshDatabase()
        let other = try await TestCluster.connect(database)
        try await other.script(
            "begin; lock table subledger.schema_version in share row exclusive mode", deadline: .now + .seconds(10))

        let connection = try await TestCluster.connect(database)

        #expect(try await Schema.migrate(connection) == .upToDate)
        await connection.close()
        await other.close()
    }

    @Test("a session that reads a view delays the replacement and does not stop a start")
    func inUse() async throws {
        let (database, owner) = try await Self.otherRelease()
        let analyst = try await TestCluster.connect(database.with(role: "subledger_analyst"))
        try await analyst.script("begin; select from analyst.mrr", deadline: .now + .seconds(10))

        let during = try await Schema.migrate(owner)
        await analyst.close()
        _ = try await eventually("the view is replaced") { try await Schema.migrate(owner) == .applied ? true : nil }

        #expect(during == .inUse)
        await owner.close()
    }

    @Test("a user who does not own the schema accepts the repeatable half of another release")
    func notOwner() async throws {
        let (database, owner) = try await Self.otherRelease()
        let reader = try await TestCluster.connect(database.with(role: "subledger_reader"))

        #expect(try await Schema.migrate(reader) == .upToDate)
        try await Schema.check(reader)
        await reader.close()
        await owner.close()
    }

    struct Broken: Sendable, CustomTestStringConvertible {
        let constraint: String
        let sqlstate: String
        let statement: String

        var testDescription: String { constraint }
    }

    private static func event(
        position: Int = 1, key: String = "decode(repeat('00', 32), 'hex')", source: String = "apple-v1",
        facts: String = "{}", defects: String = "null", fingerprint: String = "null",
        chain: String = "sha256('')"
    ) -> String {
        """
        insert into subledger.event (
          stream_id, position, received_at, source, kind, dedupe_key, fingerprint, facts, defects, body_sha256,
          chain
        )
        values (1, \(position), now(), '\(source)', 'other', \(key), \(fingerprint), '\(facts)', \(defects),
          sha256('{}'), \(chain))
        """
    }

    private static func subscriptionHead(_ digest: String = "subledger.subscription_sha256('x')") -> String {
        "insert into subledger.subscription_head (stream_id, subscription_sha256, position) values (1, \(digest), 1)"
    }

    private static func period(
        of table: String = "access_period", start: String = "2020-01-01", cause: String = "paid", cut: String = "null",
        previousCut: String = "null", payerState: String = "null", churnReason: String = "null",
        movement: String = "null", renewal: String = "null"
    ) -> String {
        """
        insert into subledger.\(table) (
          stream_id, original_transaction_id, starts_at, ends_at, cause, cut, transaction_id, position, previous_cut,
          payer_state, churn_reason, movement, renewal
        )
        values (1, 'o', '\(start)', '2021-01-01', '\(cause)', \(cut), 't', 1, \(previousCut), \(payerState),
          \(churnReason), \(movement), \(renewal))
        """
    }

    private static func refundedPeriod(
        start: String = "2020-01-01", cause: String = "refunded", cut: String = "null", previousCut: String = "null",
        payerState: String = "'paying'", churnReason: String = "null", movement: String = "null",
        renewal: String = "null"
    ) -> String {
        period(
            of: "refunded_period", start: start, cause: cause, cut: cut, previousCut: previousCut,
            payerState: payerState, churnReason: churnReason, movement: movement, renewal: renewal)
    }

    private static func subscription(
        lastCause: String = "null", lastPayerState: String = "null", lastChurnReason: String = "null"
    ) -> String {
        """
        insert into subledger.subscription (
          stream_id, original_transaction_id, position, facts, last_cause, last_payer_state, last_churn_reason
        )
        values (1, 'o', 1, '{}', \(lastCause), \(lastPayerState), \(lastChurnReason))
        """
    }

    private static func skip(position: Int = 1, reason: String = "r", by name: String = "n") -> String {
        """
        insert into subledger.projector_skip (stream_id, position, reason, skipped_by)
        values (1, \(position), '\(reason)', '\(name)')
        """
    }

    private static func stream(_ id: Int, _ app: String = "a", _ environment: String = "sandbox") -> String {
        "insert into subledger.stream (stream_id, app, environment) values (\(id), '\(app)', '\(environment)')"
    }

    private static func product(
        app: String = "a", id: String = "p", kind: String = "null", duration: String = "null", level: String = "null",
        name: String = "null"
    ) -> String {
        """
        insert into subledger.product (app, product_id, kind, duration, level, name)
        values ('\(app)', '\(id)', \(kind), \(duration), \(level), \(name))
        """
    }

    private static func entitlement(app: String = "a", product: String = "p", _ name: String = "e") -> String {
        """
        insert into subledger.product_entitlement (app, product_id, entitlement)
        values ('\(app)', '\(product)', '\(name)')
        """
    }

    private static let header =
        "insert into subledger.jws_header (stream_id, digest, header) values (1, sha256('a'), 'a')"

    private static func token(id: String = "0123456789ab", hash: String = "sha256('x')", scope: String = "read")
        -> String
    {
        """
        insert into subledger.token (token_id, secret_sha256, scope, name)
        values ('\(id)', \(hash), '\(scope)', '')
        """
    }

    private static func session(
        hash: String = "sha256('x')", csrf: String = "repeat('0', 64)", expires: String = "now() + interval '1 hour'"
    ) -> String {
        """
        insert into subledger.console_session (session_sha256, token_id, csrf, expires)
        values (\(hash), '0123456789ab', \(csrf), \(expires))
        """
    }

    private static func ticket(hash: String = "sha256('x')") -> String {
        "insert into subledger.console_ticket (ticket_sha256, token_id, expires) values (\(hash), '0123456789ab', now())"
    }

    static let broken = [
        Broken(constraint: "console_session_pkey", sqlstate: "23505", statement: "\(session()); \(session())"),
        Broken(
            constraint: "console_session_session_sha256_check", sqlstate: "23514", statement: session(hash: "'x'")),
        Broken(constraint: "console_session_csrf_check", sqlstate: "23514", statement: session(csrf: "'x'")),
        Broken(constraint: "console_session_expires_check", sqlstate: "23514", statement: session(expires: "now()")),
        Broken(constraint: "console_ticket_pkey", sqlstate: "23505", statement: "\(ticket()); \(ticket())"),
        Broken(constraint: "console_ticket_ticket_sha256_check", sqlstate: "23514", statement: ticket(hash: "'x'")),
        Broken(constraint: "token_pkey", sqlstate: "23505", statement: "\(token()); \(token())"),
        Broken(constraint: "token_token_id_check", sqlstate: "23514", statement: token(id: "0123456789AB")),
        Broken(constraint: "token_secret_sha256_check", sqlstate: "23514", statement: token(hash: "'x'")),
        Broken(constraint: "token_scope_check", sqlstate: "23514", statement: token(scope: "write")),
        Broken(constraint: "token_app_check", sqlstate: "23514", statement: token(scope: "publishable")),
        Broken(constraint: "jws_header_pkey", sqlstate: "23505", statement: "\(header); \(header)"),
        Broken(
            constraint: "jws_header_digest_check", sqlstate: "23514",
            statement: "insert into subledger.jws_header (stream_id, digest, header) values (1, sha256('a'), 'b')"),
        Broken(constraint: "event_pkey", sqlstate: "23505", statement: "\(event()); \(event(key: "sha256('x')"))"),
        Broken(
            constraint: "event_dedupe_key_key", sqlstate: "23505",
            statement: "\(event(source: "backend")); \(event(position: 2, source: "backend"))"),
        Broken(
            constraint: "event_fingerprint_check", sqlstate: "23514", statement: event(fingerprint: "'\\x00'")),
        Broken(
            constraint: "subscription_head_pkey", sqlstate: "23505",
            statement: "\(subscriptionHead()); \(subscriptionHead())"),
        Broken(
            constraint: "subscription_head_subscription_sha256_check", sqlstate: "23514",
            statement: subscriptionHead("sha256('x')")),
        Broken(constraint: "event_position_check", sqlstate: "23514", statement: event(position: 0)),
        Broken(constraint: "event_dedupe_key_check", sqlstate: "23514", statement: event(key: "'\\x00'")),
        Broken(constraint: "event_source_check", sqlstate: "23514", statement: event(source: "carrier-pigeon")),
        Broken(constraint: "event_facts_check", sqlstate: "23514", statement: event(facts: "[]")),
        Broken(constraint: "event_defects_check", sqlstate: "23514", statement: event(defects: "'{}'")),
        Broken(constraint: "stream_pkey", sqlstate: "23505", statement: "\(stream(1)); \(stream(1, "b"))"),
        Broken(constraint: "stream_app_environment_key", sqlstate: "23505", statement: "\(stream(1)); \(stream(2))"),
        Broken(constraint: "stream_app_check", sqlstate: "23514", statement: stream(1, "")),
        Broken(constraint: "stream_environment_check", sqlstate: "23514", statement: stream(1, "a", "PROD")),
        Broken(
            constraint: "stream_head_position_check", sqlstate: "23514",
            statement: "insert into subledger.stream_head (stream_id, position, chain) values (1, -1, sha256(''))"),
        Broken(
            constraint: "stream_head_chain_check", sqlstate: "23514",
            statement: "insert into subledger.stream_head (stream_id, position, chain) values (1, 0, 'x')"),
        Broken(constraint: "event_chain_check", sqlstate: "23514", statement: event(chain: "'x'")),
        Broken(
            constraint: "checkpoint_position_check", sqlstate: "23514",
            statement: "insert into subledger.checkpoint (stream_id, position, products) values (1, -1, '')"),
        Broken(constraint: "projector_skip_pkey", sqlstate: "23505", statement: "\(skip()); \(skip())"),
        Broken(constraint: "projector_skip_position_check", sqlstate: "23514", statement: skip(position: 0)),
        Broken(constraint: "projector_skip_reason_check", sqlstate: "23514", statement: skip(reason: "")),
        Broken(constraint: "projector_skip_skipped_by_check", sqlstate: "23514", statement: skip(by: "")),
        Broken(constraint: "access_period_pkey", sqlstate: "23505", statement: "\(period()); \(period())"),
        Broken(constraint: "access_period_ends_at_check", sqlstate: "23514", statement: period(start: "2021-01-01")),
        Broken(constraint: "access_period_cause_check", sqlstate: "23514", statement: period(cause: "luck")),
        Broken(constraint: "access_period_cut_check", sqlstate: "23514", statement: period(cut: "'x'")),
        Broken(
            constraint: "access_period_previous_cut_check", sqlstate: "23514", statement: period(previousCut: "'x'")),
        Broken(
            constraint: "access_period_payer_state_check", sqlstate: "23514", statement: period(payerState: "'x'")),
        Broken(
            constraint: "access_period_churn_reason_check", sqlstate: "23514", statement: period(churnReason: "'x'")),
        Broken(constraint: "access_period_movement_check", sqlstate: "23514", statement: period(movement: "'x'")),
        Broken(constraint: "access_period_renewal_check", sqlstate: "23514", statement: period(renewal: "'x'")),
        Broken(
            constraint: "subscription_last_churn_reason_check", sqlstate: "23514",
            statement: subscription(lastChurnReason: "'x'")),
        Broken(
            constraint: "refunded_period_pkey", sqlstate: "23505", statement: "\(refundedPeriod()); \(refundedPeriod())"
        ),
        Broken(
            constraint: "refunded_period_ends_at_check", sqlstate: "23514",
            statement: refundedPeriod(start: "2021-01-01")),
        Broken(
            constraint: "refunded_period_cause_check", sqlstate: "23514",
            statement: refundedPeriod(cause: "paid")),
        Broken(
            constraint: "refunded_period_cut_check", sqlstate: "23514",
            statement: refundedPeriod(cut: "'switched_off'")),
        Broken(
            constraint: "refunded_period_previous_cut_check", sqlstate: "23514",
            statement: refundedPeriod(previousCut: "'x'")),
        Broken(
            constraint: "refunded_period_payer_state_check", sqlstate: "23514",
            statement: refundedPeriod(payerState: "'family'")),
        Broken(
            constraint: "refunded_period_churn_reason_check", sqlstate: "23514",
            statement: refundedPeriod(churnReason: "'x'")),
        Broken(
            constraint: "refunded_period_movement_check", sqlstate: "23514",
            statement: refundedPeriod(movement: "'x'")),
        Broken(
            constraint: "refunded_period_renewal_check", sqlstate: "23514",
            statement: refundedPeriod(renewal: "'x'")),
        Broken(
            constraint: "subscription_last_cause_check", sqlstate: "23514",
            statement: subscription(lastCause: "'owned'")),
        Broken(
            constraint: "subscription_last_payer_state_check", sqlstate: "23514",
            statement: subscription(lastPayerState: "'x'")),
        Broken(constraint: "product_pkey", sqlstate: "23505", statement: "\(product()); \(product())"),
        Broken(constraint: "product_app_check", sqlstate: "23514", statement: product(app: "")),
        Broken(constraint: "product_product_id_check", sqlstate: "23514", statement: product(id: "")),
        Broken(constraint: "product_product_id_check", sqlstate: "23514", statement: product(id: "p\nq")),
        Broken(constraint: "product_kind_check", sqlstate: "23514", statement: product(kind: "'x'")),
        Broken(constraint: "product_name_check", sqlstate: "23514", statement: product(name: "''")),
        Broken(constraint: "product_name_check", sqlstate: "23514", statement: product(name: "E'a\\tb'")),
        Broken(constraint: "product_level_check", sqlstate: "23514", statement: product(level: "0")),
        Broken(
            constraint: "product_level_check", sqlstate: "23514", statement: product(kind: "'consumable'", level: "1")),
        Broken(constraint: "product_duration_check", sqlstate: "23514", statement: product(kind: "'non-renewing'")),
        Broken(constraint: "product_duration_check", sqlstate: "23514", statement: product(duration: "'P1M'")),
        Broken(
            constraint: "product_duration_check", sqlstate: "23514",
            statement: product(kind: "'consumable'", duration: "'P1M'")),
        Broken(
            constraint: "product_duration_format_check", sqlstate: "23514",
            statement: product(kind: "'non-renewing'", duration: "'P1H'")),
        Broken(
            constraint: "product_duration_format_check", sqlstate: "23514",
            statement: product(kind: "'non-renewing'", duration: "'P0M'")),
        Broken(
            constraint: "product_duration_format_check", sqlstate: "23514",
            statement: product(kind: "'non-renewing'", duration: "'P'")),
        Broken(
            constraint: "product_entitlement_pkey", sqlstate: "23505", statement: "\(entitlement()); \(entitlement())"),
        Broken(constraint: "product_entitlement_app_check", sqlstate: "23514", statement: entitlement(app: "")),
        Broken(
            constraint: "product_entitlement_product_id_check", sqlstate: "23514", statement: entitlement(product: "")),
        Broken(constraint: "product_entitlement_entitlement_check", sqlstate: "23514", statement: entitlement("")),
    ]

    @Test(
        "each constraint refuses what breaks it",
        arguments: broken + brokenCustomers + brokenReceipts + brokenQuarantine + brokenChecks + brokenTrees
            + brokenArchive
            + brokenRefunds
            + brokenEndpoints
            + brokenGoogle)
    func constraint(_ broken: Broken) async throws {
        let connection = try await TestCluster.connect(try await TestCluster.freshDatabase())

        let error = await #expect(throws: PostgresError.self) {
            try await connection.script(broken.statement, deadline: .now + .seconds(10))
        }

        #expect(error?.sqlstate == broken.sqlstate)
        #expect(error?.debugDescription.contains(broken.constraint) == true)
        await connection.close()
    }
}
