import AppStore
import EventLog
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("Verify reports damaged rows")
struct VerifyTests {
    struct Damage: Sendable, CustomTestStringConvertible {
        let name: String
        let sql: String
        /// The finding after the stream's name.
        let finding: String
        var stream = "stream 1 (com.example.magazine, sandbox) "

        init(_ name: String, _ sql: String, _ finding: String) {
            self.name = name
            self.sql = sql
            self.finding = finding
        }

        /// Changes the event at position 17.
        static func event(_ change: String, _ finding: String) -> Damage {
            Damage(change, "update subledger.event set \(change) where position = 17", "position 17: \(finding)")
        }

        /// Changes the body of that event.
        static func body(_ change: String, _ finding: String) -> Damage {
            Damage(change, "update subledger.event_body set \(change) where position = 17", "position 17: \(finding)")
        }

        /// Changes the first row of the table for the first subscription.
        static func row(_ relation: String, _ change: String, _ finding: String) -> Damage {
            let key = relation == "subscription" ? "original_transaction_id" : "transaction_id"
            return Damage(
                change,
                """
                update subledger.\(relation)
                set \(change)
                where \(key) = (
                  select \(key) from subledger.\(relation) order by original_transaction_id, \(key) limit 1
                )
                """, finding)
        }

        var testDescription: String { name }
    }

    static let events: [Damage] = [
        .body("body = set_byte(body, 10, get_byte(body, 10) # 1)", "body does not match its digest"),
        .body("body = ''", "body is missing, and no erasure in the log says so"),
        .body("received_at = received_at + interval '1 ms'", "body is stored under another time than received_at"),
        Damage(
            "delete a body", "delete from subledger.event_body where position = 17",
            "position 17: body is missing, and no erasure in the log says so"),
        .event("body_sha256 = sha256('x')", "body does not match its digest"),
        Damage(
            "a body that is not JSON, with its digest", SimulatedLog.replacement("{", at: 17),
            "position 17: body cannot be decoded: the body is not JSON: "),
        .event("facts = facts || '{\"transactions\":[]}'", "facts do not match the body"),
        .event("facts = facts || '{\"more\":1}'", "facts do not match the body"),
        .event("type = 'OTHER'", "type does not match the body"),
        .event("subtype = 'OTHER'", "subtype does not match the body"),
        .event("kind = 'other'", "kind does not match the body"),
        .event("occurred_at = occurred_at + interval '1 second'", "occurred_at does not match the body"),
        .event("dedupe_key = sha256('x')", "dedupe_key does not match the body"),
        Damage("remove an event", "delete from subledger.event where position = 17", "position 17: event is missing"),
        Damage(
            "remove the first event", "delete from subledger.event where position = 1", "position 1: event is missing"),
        Damage(
            "two of them", "update subledger.event set type = 'OTHER' where position in (17, 40)",
            "position 17: type does not match the body"),
        Damage(
            "a gap before other damage",
            """
            delete from subledger.event where position = 12;
            update subledger.event set type = 'OTHER' where position = 17
            """,
            "position 12: event is missing"),
        Damage(
            "facts before other damage",
            """
            update subledger.event set facts = '{}' where position = 11;
            delete from subledger.event where position = 12
            """,
            "position 11: facts do not match the body"),
    ]

    static let projections: [Damage] = [
        .row("subscription", "auto_renew = not coalesce(auto_renew, false)", "subscription LINE: differs"),
        .row("subscription", "facts = facts || '{\"renewals\":[]}'", "subscription LINE: differs"),
        .row("subscription", "position = position + 1", "subscription LINE: differs"),
        .row("subscription", "original_transaction_id = '0'", "access_period"),
        .row("transaction", "price = coalesce(price, 0) + 1", "transaction ROW of subscription LINE: differs"),
        .row("transaction", "positions = positions || 1::bigint", "transaction ROW of subscription LINE: differs"),
        .row(
            "access_period", "ends_at = ends_at + interval '1 microsecond'",
            "access_period ROW of subscription LINE: differs"),
        .row("refunded_period", "churn_reason = 'other'", "refunded_period "),
        Damage(
            "remove a subscription with all its rows",
            """
            create temporary table first as
            select original_transaction_id from subledger.subscription order by 1 limit 1;
            delete from subledger.subscription where original_transaction_id in (table first);
            delete from subledger.transaction where original_transaction_id in (table first);
            delete from subledger.access_period where original_transaction_id in (table first);
            delete from subledger.refunded_period where original_transaction_id in (table first);
            delete from subledger.check_schedule where original_transaction_id in (table first);
            delete from subledger.customer_edge where original_transaction_id in (table first);
            delete from subledger.ownership where original_transaction_id in (table first)
            """, "subscription LINE: is missing"),
        Damage(
            "remove transactions", "delete from subledger.transaction",
            "transaction ROW of subscription LINE: is missing"),
        Damage(
            "a subscription without events",
            """
            insert into subledger.subscription (stream_id, original_transaction_id, position, facts)
            values (1, '0', 1, '{"transactions":[],"renewals":[]}')
            """, "subscription 0: differs"),
        Damage(
            "a period without a subscription",
            """
            insert into subledger.access_period (
              stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, position
            )
            values (1, '0', '2020-01-01', '2021-01-01', 'paid', '00', 1)
            """, "access_period 00 of subscription 0: has no subscription"),
        Damage(
            "checkpoint", "update subledger.checkpoint set position = 100000", "checkpoint: position 100000 is beyond"),
    ]

    /// Damages a log and its projections as a superuser can, and returns the outcome of verify.
    private static func verify(
        _ damage: String = "select", roots: RootCertificates = SimulatedLog.roots,
        extent: ProjectionAudit.Extent = .all, subscriptionsAtOnceMax: Int = ProjectionAudit.subscriptionsAtOnceMax
    ) async throws -> (outcome: VerificationOutcome, firstSubscription: String, firstTransaction: String) {
        var result: (VerificationOutcome, String, String)?
        try await SimulatedLog.withEveryStory { log in
            let subscription = try await log.lines("select min(original_transaction_id) from subledger.subscription")[0]
            let transaction = try await log.lines(
                """
                select transaction_id
                from subledger.transaction
                order by original_transaction_id, transaction_id
                limit 1
                """)[0]
            try await log.damage(damage)
            let outcome = try await run(
                log, roots: roots, extent: extent, subscriptionsAtOnceMax: subscriptionsAtOnceMax)
            try await expectSame(outcome, by: 3, log, SignatureVerifier(roots: roots))
            result = (outcome, subscription, transaction)
        }
        return try #require(result)
    }

    private static func run(
        _ log: SimulatedLog, roots: RootCertificates = SimulatedLog.roots, extent: ProjectionAudit.Extent = .all,
        subscriptionsAtOnceMax: Int = ProjectionAudit.subscriptionsAtOnceMax
    ) async throws -> VerificationOutcome {
        let role = log.database.with(role: "subledger_projector")
        let events = try await TestCluster.connect(role)
        let rows = try await TestCluster.connect(role)
        let verifier = DatabaseVerifier(
            log: LogAudit(connection: events),
            projections: try await ProjectionAudit(
                connection: rows, seed: TestSeed.value, subscriptionsAtOnceMax: subscriptionsAtOnceMax),
            signatures: SignatureVerifier(roots: roots), extent: extent)
        let outcome = try await verifier.run()
        await events.close()
        await rows.close()
        return outcome
    }

    /// Verifies the log again with several workers, in short ranges and pages, and expects the same findings: all but the
    /// one of the projections.
    private static func expectSame(
        _ outcome: VerificationOutcome, by workers: Int, _ log: SimulatedLog, _ signatures: SignatureVerifier
    ) async throws {
        var connections: [PostgresConnection] = []
        for _ in 0...workers {
            connections.append(try await TestCluster.connect(log.database.with(role: "subledger_projector")))
        }
        let parallel = try await DatabaseVerifier(
            log: LogAudit(connection: connections[0]),
            workers: connections.dropFirst().map { LogAudit(connection: $0, pageEventsMax: 3) }, projections: nil,
            signatures: signatures, extent: .all, rangeEventsMax: 7
        ).run()
        for connection in connections { await connection.close() }
        #expect(outcome.findings.starts(with: parallel.findings))
        #expect(outcome.findings.count - parallel.findings.count <= 1)
        #expect(parallel.events == outcome.events)
        #expect(parallel.erased == outcome.erased)
    }

    @Test("an undamaged log has no finding, checked in one batch or in several")
    func clean() async throws {
        let whole = try await Self.verify()
        let inParts = try await Self.verify(subscriptionsAtOnceMax: 3)

        for (outcome, _, _) in [whole, inParts] {
            #expect(outcome.finding == nil)
            #expect(outcome.streams == 1)
            #expect(outcome.events > 100)
            #expect(outcome.subscriptions >= 28)
        }
        #expect(whole.outcome.subscriptions == inParts.outcome.subscriptions)
    }

    @Test("a damaged event is reported", arguments: events)
    func event(_ damage: Damage) async throws {
        let (outcome, _, _) = try await Self.verify(damage.sql)

        let finding = try #require(outcome.finding?.description)
        #expect(finding.hasPrefix(damage.stream + damage.finding), "\(finding)")
    }

    @Test("the database is asked only about facts that are not those of the body in the same text")
    func otherFacts() async throws {
        try await SimulatedLog.withEveryStory { log in
            let connection = try await TestCluster.connect(log.database.with(role: "subledger_projector"))
            let verifier = DatabaseVerifier(
                log: LogAudit(connection: connection), projections: nil,
                signatures: SignatureVerifier(roots: SimulatedLog.roots), extent: .all)
            func wasAsked() async throws -> Bool {
                let rows = try await connection.query(
                    Statement("asked", "select name from pg_prepared_statements where name = 'audit_other_facts'"),
                    deadline: .now + .seconds(20))
                return rows.count > 0
            }

            let clean = try await verifier.run()
            let wasAskedAboutClean = try await wasAsked()
            try await log.damage("update subledger.event set facts = facts || '{\"more\":1}' where position = 17")
            let damaged = try await verifier.run()
            let wasAskedAboutDamaged = try await wasAsked()
            await connection.close()

            #expect(clean.finding == nil)
            #expect(!wasAskedAboutClean)
            #expect(damaged.finding?.description.hasSuffix("position 17: facts do not match the body") == true)
            #expect(wasAskedAboutDamaged)
        }
    }

    @Test("every damaged event is reported, and the projections are compared nevertheless")
    func all() async throws {
        let (outcome, subscription, _) = try await Self.verify(
            """
            update subledger.event set type = 'OTHER' where position in (17, 40);
            update subledger.event set facts = '{}' where position = 21;
            update subledger.event set received_at = received_at + interval '1 second' where position = 23;
            delete from subledger.event where position in (30, 33, 34);
            update subledger.event set dedupe_key = sha256('x') where position = 50;
            update subledger.subscription
            set auto_renew = not coalesce(auto_renew, false)
            where original_transaction_id = (
              select original_transaction_id from subledger.subscription order by original_transaction_id limit 1
            )
            """)

        let stream = "stream 1 (com.example.magazine, sandbox) "
        let found = outcome.findings.map(\.description)
        let expected = [
            "position 17: type does not match the body", "position 21: facts do not match the body",
            "position 23: ", "position 30: event is missing", "positions 33 to 34: events are missing",
            "position 40: type does not match the body", "position 50: dedupe_key does not match the body",
        ]
        // A subscription whose newest event is gone is found as well.
        let log = found.filter { !$0.hasPrefix(stream + "subscription \(subscription)") }
        #expect(found.count > expected.count, "\(found)")
        for (finding, start) in zip(log.prefix(7), expected) {
            #expect(finding.hasPrefix(stream + start), "\(finding)")
        }
        #expect(found.last?.contains(" position ") == false, "\(found)")
        #expect(outcome.events > 100)
        #expect(outcome.further == 0)
    }

    @Test("a damaged row of a projection is reported", arguments: projections)
    func projection(_ damage: Damage) async throws {
        let (outcome, subscription, transaction) = try await Self.verify(damage.sql)

        let expected = damage.finding.replacing("LINE", with: subscription).replacing("ROW", with: transaction)
        let finding = try #require(outcome.finding?.description)
        #expect(finding.hasPrefix(damage.stream + expected), "\(finding)")
    }

    @Test("a damaged subscription is found in any batch")
    func parts() async throws {
        let damage = """
            update subledger.subscription
            set auto_renew = not coalesce(auto_renew, false)
            where original_transaction_id = (select max(original_transaction_id) from subledger.subscription)
            """
        let (outcome, _, _) = try await Self.verify(damage, subscriptionsAtOnceMax: 3)

        #expect(outcome.finding?.description.contains(" subscription ") == true)
        #expect(outcome.finding?.description.hasSuffix(": differs from a fresh fold") == true)
    }

    /// A body with a cancellation date of zero, a date in Pacific time alone, and renewal info that names no subscription.
    private static var readDifferently: V1Body {
        var body = V1Body()
        body["auto_renew_status"] = nil
        body["unified_receipt"] =
            [
                "status": 0, "environment": "Production",
                "latest_receipt_info": [
                    [
                        "transaction_id": "1000000000000001", "original_transaction_id": "1000000000000001",
                        "product_id": "com.example.magazine.monthly", "quantity": "1",
                        "purchase_date_pst": "2018-02-19 16:00:00 America/Los_Angeles",
                        "expires_date_ms": "1521504000000", "cancellation_date_ms": "0",
                    ]
                ],
                "pending_renewal_info": [
                    [
                        "product_id": "com.example.magazine.monthly",
                        "auto_renew_product_id": "com.example.magazine.monthly", "auto_renew_status": "1",
                    ]
                ],
            ] as [String: Any]
        return body
    }

    /// What the release of 26 November 2026 derived from it. The fingerprint was computed by hand.
    private static let derivedBefore = """
        update subledger.event
        set facts = '{
            "renewals": [],
            "transactions": [{
              "quantity": 1, "productId": "com.example.magazine.monthly", "expiresDate": "2018-03-20T00:00:00.000Z",
              "revocationDate": "1970-01-01T00:00:00.000Z", "transactionId": "1000000000000001",
              "originalTransactionId": "1000000000000001"
            }]
          }',
          defects = '[{
            "path": "unified_receipt.pending_renewal_info[0].original_transaction_id",
            "problem": "is missing, the element is passed over"
          }]',
          occurred_at = '1970-01-01T00:00:00Z',
          kind = 'renewal',
          fingerprint = '\\xcdac829eb87385fea56deba6dba136dc61c96ef96695c72646f769b7c01d4894'
        """

    @Test("what the release before a migration derived differently is no damage, and any other value is")
    func readDifferently() async throws {
        try await SimulatedLog.with { log in
            let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
            let notification = try apps.verify(try Self.readDifferently.bytes, receivedAt: TestBundle.now)
            _ = try await log.append([PreparedEvent(notification, receivedAt: TestBundle.now)])
            try await log.damage(Self.derivedBefore)
            await log.projector.foldAllStreams()

            let withoutMigration = try await Self.run(log)
            try await log.script("insert into subledger.schema_version (version) values (1)")
            let migrated = try await Self.run(log)
            var findings: [String?] = []
            for change in [
                "facts = jsonb_set(facts, '{transactions,0,revocationDate}', '\"1970-01-02T00:00:00.000Z\"')",
                "fingerprint = sha256('x')", "occurred_at = '1970-01-01T00:00:01Z'", "kind = 'other'",
            ] {
                try await log.damage("\(Self.derivedBefore); update subledger.event set \(change)")
                findings.append(try await Self.run(log).finding?.description)
            }
            // A receiver of this release stored it, so it would have read it otherwise.
            try await log.damage(Self.derivedBefore)
            try await log.script("update subledger.schema_version set applied_at = '2019-01-01'")
            let afterwards = try await Self.run(log)

            #expect(migrated.finding == nil)
            for (finding, problem) in zip(findings, ["facts do", "fingerprint does", "occurred_at does", "kind does"]) {
                #expect(finding?.contains("position 1: \(problem) not match the body") == true, "\(finding ?? "none")")
            }
            for outcome in [withoutMigration, afterwards] {
                #expect(outcome.finding?.description.contains("position 1: ") == true)
            }
        }
    }

    @Test("a sample checks some subscriptions, and finds damage that affects all")
    func sample() async throws {
        let (clean, _, _) = try await Self.verify(extent: .sample(8))
        let (damaged, _, _) = try await Self.verify(
            "update subledger.subscription set position = position + 1", extent: .sample(8))

        #expect(clean.finding == nil)
        #expect((1...20).contains(clean.subscriptions), "\(clean.subscriptions)")
        #expect(damaged.finding?.description.hasSuffix("differs from a fresh fold") == true)
    }

    @Test("a head that was moved up or down, and a missing last event or head, are reported")
    func head() async throws {
        let (up, _, _) = try await Self.verify("update subledger.stream_head set position = position + 1")
        let (down, _, _) = try await Self.verify("update subledger.stream_head set position = position - 1")
        let (last, _, _) = try await Self.verify(
            "delete from subledger.event where position = (select position from subledger.stream_head)")
        let (none, _, _) = try await Self.verify("delete from subledger.stream_head")

        let stream = "stream 1 (com.example.magazine, sandbox) "
        #expect(up.finding?.description == stream + "position \(up.events + 1): event is missing")
        #expect(
            down.finding?.description == stream + "position \(down.events): event is past the head of its stream")
        #expect(last.finding?.description == stream + "position \(last.events + 1): event is missing")
        #expect(none.finding?.description.hasSuffix("has events but no head") == true)
    }

    @Test("a signature under an untrusted root and a truncated signature are reported")
    func signatures() async throws {
        let (untrusted, _, _) = try await Self.verify(roots: .apple)
        let (cut, _, _) = try await Self.verify(
            """
            update subledger.event_body
            set body = overlay(whole.body placing 'AAAAAAAA' from octet_length(whole.body) - 9)
            from (
              select stream_id, position, subledger.event_body(stream_id, position) as body
              from subledger.event
              where source = 'apple-v2' and position > 5
              order by position
              limit 1
            ) as whole
            where whole.stream_id = event_body.stream_id
              and whole.position = event_body.position;
            update subledger.event
            set body_sha256 = sha256(event_body.body)
            from subledger.event_body
            where event_body.stream_id = event.stream_id
              and event_body.position = event.position
              and event.position = (select min(position) from subledger.event where source = 'apple-v2' and position > 5)
            """)

        #expect(untrusted.finding?.description.contains("certificates that do not lead to a trusted root") == true)
        #expect(cut.finding?.description.contains("body fails verification: signedPayload") == true)
    }

    @Test("a changed or missing header is reported with the first event that needs it")
    func headers() async throws {
        let changes = [
            "update subledger.jws_header set header = set_byte(header, 0, get_byte(header, 0) # 1)",
            "update subledger.jws_header set header = set_byte(header, 1500, get_byte(header, 1500) # 4)",
            """
            update subledger.jws_header
            set header = set_byte(header, octet_length(header) - 1, get_byte(header, octet_length(header) - 1) # 1)
            """,
            "update subledger.jws_header set digest = set_byte(digest, 31, get_byte(digest, 31) # 1)",
            "delete from subledger.jws_header",
        ]
        for change in changes {
            let (outcome, _, _) = try await Self.verify(
                """
                alter table subledger.jws_header disable trigger jws_header_append_only;
                alter table subledger.jws_header drop constraint jws_header_digest_check;
                \(change)
                """)

            let problem =
                change.contains("set header =")
                ? "body does not match its digest" : "body refers to a header that is not there"
            let finding = try #require(outcome.finding?.description)
            #expect(finding.hasSuffix("position \(try await Self.firstSigned()): \(problem)"), "\(change): \(finding)")
        }
    }

    private static func firstSigned() async throws -> String {
        var first = ""
        try await SimulatedLog.withEveryStory { log in
            first = try await log.lines(
                "select min(position)::text from subledger.event where source = 'apple-v2'")[0]
        }
        return first
    }

    @Test("events and projections of unregistered streams are reported")
    func strays() async throws {
        let (event, _, _) = try await Self.verify(
            """
            insert into subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body_sha256, chain
            )
            values (7, 1, now(), 'apple-v1', 'other', sha256('x'), '{}', sha256('{}'), sha256(''))
            """)
        let (row, _, _) = try await Self.verify(
            "insert into subledger.checkpoint (stream_id, position, products) values (7, 0, '')")

        #expect(event.finding?.description == "stream 7: has a head or events but is not registered")
        #expect(row.finding?.description == "stream 7 checkpoint: has rows of a stream that does not exist")
    }

    @Test("there is no finding while events arrive and are projected")
    func live() async throws {
        try await SimulatedLog.with { log in
            let deliveries = try await SimulatedLog.deliveries(subscriptions: 40)
            try await log.append(deliveries[..<60])
            let live = Task { await log.projector.run() }
            let load = Task { try await log.append(deliveries[60...]) }
            var outcomes: [VerificationOutcome] = []

            repeat { outcomes.append(try await Self.run(log)) } while outcomes.count < 5

            try await load.value
            live.cancel()
            await live.value
            await log.projector.foldAllStreams()
            outcomes.append(try await Self.run(log))
            #expect(outcomes.allSatisfy { $0.finding == nil }, "\(outcomes.compactMap(\.finding))")
            #expect(outcomes.last.map { $0.subscriptions >= 40 } == true)
        }
    }
}
