import AppStore
import Encoding
import EventLog
import Projector
import Simulation
import TestSupport
import Testing
import Verification

@Suite("Events of signed data of devices")
struct DeviceEventTests {
    /// 2025-09-04, after the signatures.
    private static let receivedAt = Instant(milliseconds: 1_757_000_900_000) ?? .latest

    /// A log with a transaction and its renewal info at position 1, and an app transaction at position 2.
    private static func withEvents(_ test: (SimulatedLog) async throws -> Void) async throws {
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: SignedBody.app)]), signatures: SignatureVerifier(roots: SignedBody.roots))
        let statements = try SignedStatement.decode(
            transactions: [Array(DeviceText.transaction().utf8)[...]],
            renewals: [Array(DeviceText.renewal().utf8)[...]],
            appTransaction: Array(DeviceText.appTransaction(createdAt: 1_757_000_000_000).utf8)[...])
        var events: [PreparedEvent] = []
        for statement in statements {
            let verified = try await verifier.verify(statement, of: SignedBody.app, receivedAt: receivedAt)
            events.append(PreparedEvent(verified, receivedAt: receivedAt))
        }
        try await SimulatedLog.with { log in
            #expect(try await log.append(events).map(\.position) == [1, 2])
            await log.projector.foldAllStreams()
            try await test(log)
        }
    }

    private static func finding(_ log: SimulatedLog, roots: RootCertificates = SignedBody.roots) async throws -> String?
    {
        let role = log.database.with(role: "subledger_projector")
        let events = try await TestCluster.connect(role)
        let rows = try await TestCluster.connect(role)
        let verifier = DatabaseVerifier(
            log: LogAudit(connection: events),
            projections: try await ProjectionAudit(connection: rows, seed: TestSeed.value),
            signatures: SignatureVerifier(roots: roots), extent: .all)
        let outcome = try await verifier.run()
        await events.close()
        await rows.close()
        return outcome.finding?.description
    }

    @Test("they are projected like notifications, are not deliveries, and pass verification")
    func projected() async throws {
        try await Self.withEvents { log in
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', source, kind, original_transaction_id, defects, type is null)
                    from analyst.events
                    order by position
                    """) == [
                        "apple-device transaction 2000000000000001 0 t", "apple-device app_transaction 0 t",
                    ])
            #expect(
                try await log.lines("select concat_ws(' ', cause, position) from subledger.access_period")
                    == ["paid 1"])
            #expect(try await log.lines("select source from analyst.delivery_lag_detail") == [])
            let finding = try await Self.finding(log)
            #expect(finding == nil)
        }
    }

    @Test("verification needs the root that signed them")
    func otherRoot() async throws {
        try await Self.withEvents { log in
            let finding = try await Self.finding(log, roots: .apple)

            #expect(
                finding
                    == "stream 1 (com.example.magazine, sandbox) position 1: body fails verification: signedTransaction has certificates that do not lead to a trusted root"
            )
        }
    }

    @Test(
        "verification finds a changed column",
        arguments: [
            ("chain_id = null, revocation = null", "chain_id does not match the body"),
            ("chain_id = sha256('x')", "chain_id does not match the body"),
            ("source = 'apple-v2'", "body cannot be decoded: the body is not an App Store notification: "),
            ("kind = 'other'", "kind does not match the body"),
            ("dedupe_key = sha256('x')", "dedupe_key does not match the body"),
            ("occurred_at = occurred_at + interval '1 second'", "occurred_at does not match the body"),
        ])
    func damaged(_ change: String, _ expected: String) async throws {
        try await Self.withEvents { log in
            try await log.damage("update subledger.event set \(change) where position = 1")

            let finding = try await Self.finding(log)

            let prefix = "stream 1 (com.example.magazine, sandbox) position 1: \(expected)"
            #expect(finding?.hasPrefix(prefix) == true, "\(finding ?? "none")")
        }
    }

    @Test("verification finds a replaced body")
    func replaced() async throws {
        try await Self.withEvents { log in
            try await log.damage(SimulatedLog.replacement(#"{"x":1}"#, at: 1))

            let finding = try await Self.finding(log)

            let expected = "position 1: body cannot be decoded: expected signed data"
            #expect(finding?.contains(expected) == true, "\(finding ?? "none")")
        }
    }
}
