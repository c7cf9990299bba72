import AppStore
import Encoding
import EventLog
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("Answers about receipts are events of the log")
struct ReceiptEventTests {
    private static let subscription = "1000000000000001"

    /// The milliseconds of a day of 2024, as Apple writes them.
    private static func ms(_ date: String) -> String {
        String(Instant(iso8601: date)?.milliseconds ?? 0)
    }

    /// A sandbox answer with one period.
    private static func answer(at date: String, status: Int = 0, until end: String = "2024-02-01") -> String {
        """
        {"status":\(status),"environment":"Sandbox","receipt":{"bundle_id":"\(V1Body.app)",\
        "request_date_ms":"\(ms(date))","in_app":[]},"latest_receipt_info":[{"transaction_id":"\(subscription)",\
        "original_transaction_id":"\(subscription)","product_id":"com.example.magazine.monthly","quantity":"1",\
        "purchase_date_ms":"\(ms("2024-01-01"))","expires_date_ms":"\(ms(end))","web_order_line_item_id":"7"}],\
        "pending_renewal_info":[{"original_transaction_id":"\(subscription)","auto_renew_status":"1"}]}
        """
    }

    private static func verified(_ body: String, receivedAt date: String) throws -> VerifiedReceipt {
        let answer = AnswerFromApple(
            answer: try ReceiptAnswer(decoding: Array(body.utf8)), host: .sandbox,
            receipt: Receipt(stored: [0x30, 0x00]), receivedAt: try #require(Instant(iso8601: date)))
        return try Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
            .verify(answer, of: V1Body.app, subscriptions: [subscription])
    }

    /// A log with an answer at position 1 and the deletion of the account at position 2.
    private static func withDeletion(_ test: (SimulatedLog) async throws -> Void) async throws {
        try await SimulatedLog.with { log in
            let receipts = [
                try verified(answer(at: "2024-01-02"), receivedAt: "2024-01-02T00:00:01Z"),
                try verified("{\"status\":21010}", receivedAt: "2024-01-15"),
            ]
            #expect(try await log.append(receipts).map(\.position) == [1, 2])
            await log.projector.foldAllStreams()
            try await test(log)
        }
    }

    private static func finding(_ log: SimulatedLog) async throws -> String? {
        let role = log.database.with(role: "subledger_projector")
        let events = try await TestCluster.connect(role)
        let rows = try await TestCluster.connect(role)
        let verifier = DatabaseVerifier(
            log: LogAudit(connection: events),
            projections: try await ProjectionAudit(connection: rows, seed: TestSeed.value),
            signatures: SignatureVerifier(roots: .apple), extent: .all)
        let outcome = try await verifier.run()
        await events.close()
        await rows.close()
        return outcome.finding?.description
    }

    @Test("an answer is projected like a notification")
    func projected() async throws {
        try await SimulatedLog.with { log in
            let receipt = try Self.verified(Self.answer(at: "2024-01-02"), receivedAt: "2024-01-02T00:00:01Z")

            _ = try await log.append([receipt])
            await log.projector.foldAllStreams()

            #expect(
                try await log.lines(
                    """
                    select concat_ws(
                      ' ', (starts_at at time zone 'UTC')::date, (ends_at at time zone 'UTC')::date, cause, position
                    )
                    from subledger.access_period
                    """) == ["2024-01-01 2024-02-01 paid 1"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', source, kind, original_transaction_id, defects, type is null)
                    from analyst.events
                    """) == ["apple-receipt receipt 1000000000000001 0 t"])
            #expect(try await log.lines("select source from analyst.delivery_lag_detail") == [])
            let finding = try await Self.finding(log)
            #expect(finding == nil)
        }
    }

    @Test("the same answer is stored once for each time at which it was received")
    func repeats() async throws {
        try await SimulatedLog.with { log in
            let first = try Self.verified(Self.answer(at: "2024-01-02"), receivedAt: "2024-01-02T00:00:01Z")
            let later = try Self.verified(Self.answer(at: "2024-01-02"), receivedAt: "2024-01-02T00:00:02Z")

            let places = try await log.append([first, first, later])

            #expect(places.map(\.position) == [1, 1, 2])
            #expect(places.map(\.isNew) == [true, false, true])
            #expect(places.map(\.isConflict) == [false, false, false])
        }
    }

    @Test("the deletion of an account removes access, and shows in the rows")
    func deletion() async throws {
        try await Self.withDeletion { (log: SimulatedLog) async throws in
            #expect(try await log.lines("select transaction_id from subledger.access_period") == [])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', (revocation_date at time zone 'UTC')::date, positions)
                    from subledger.transaction
                    """) == ["2024-01-15 {1,2}"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', source, kind, original_transaction_id)
                    from analyst.events
                    where position = 2
                    """) == ["apple-receipt account_deletion 1000000000000001"])
            let finding = try await Self.finding(log)
            #expect(finding == nil)
        }
    }

    @Test("a later answer with the purchase opens access again")
    func reopened() async throws {
        try await Self.withDeletion { log in
            let again = try Self.verified(Self.answer(at: "2024-01-20"), receivedAt: "2024-01-20")

            _ = try await log.append([again])
            await log.projector.foldAllStreams()

            #expect(
                try await log.lines("select (ends_at at time zone 'UTC')::date::text from subledger.access_period")
                    == ["2024-02-01"])
            let finding = try await Self.finding(log)
            #expect(finding == nil)
        }
    }

    struct Damage: Sendable, CustomTestStringConvertible {
        let sql: String
        let finding: String
        let position: Int

        var testDescription: String { sql }

        init(change: String, finding: String, position: Int = 1) {
            self.init(
                sql: "update subledger.event set \(change) where position = \(position)", finding: finding,
                position: position)
        }

        private init(sql: String, finding: String, position: Int) {
            self.sql = sql
            self.finding = finding
            self.position = position
        }

        /// Replaces a stored answer, with its digest.
        static func body(_ text: String, _ finding: String, position: Int = 1) -> Damage {
            Damage(sql: SimulatedLog.replacement(text, at: position), finding: finding, position: position)
        }
    }

    static let damages: [Damage] = [
        .body("{", "body cannot be decoded: the answer ends too early"),
        .body("{\"status\":21005}", "body is not an answer that can be a fact"),
        .body(answer(at: "2024-01-03"), "dedupe_key does not match the body"),
        .body("{\"status\":21010}", "dedupe_key does not match the body"),
        .body(
            "{\"answer\":{\"status\":21010},\"subscriptions\":[\"1\"]}", "dedupe_key does not match the body",
            position: 2),
        Damage(change: "source = 'apple-v1'", finding: "body cannot be decoded: the body is not an App Store"),
        Damage(change: "kind = 'other'", finding: "kind does not match the body"),
        Damage(change: "dedupe_key = sha256('x')", finding: "dedupe_key does not match the body"),
        Damage(
            change: "facts = '{\"transactions\":[],\"renewals\":[]}'", finding: "facts do not match the body",
            position: 2),
        Damage(
            change: "received_at = received_at + interval '1 second'",
            finding: "body is stored under another time than received_at"),
        Damage(change: "chain_id = sha256('x')", finding: "chain_id does not match the body"),
    ]

    @Test("a damaged answer is reported", arguments: damages)
    func damaged(_ damage: Damage) async throws {
        try await Self.withDeletion { log in
            try await log.damage(damage.sql)

            let finding = try #require(try await Self.finding(log))
            let place = "stream 1 (com.example.magazine, sandbox) position \(damage.position): "
            #expect(finding.hasPrefix(place + damage.finding), "\(finding)")
        }
    }
}
