import AppStore
import Encoding
import EventLog
import Postgres
import Simulation
import TestSupport
import Testing

@testable import HTTPServer

@Suite("Signed notifications of apps that are not configured")
struct QuarantineTests {
    private static let configured = App(bundleId: SignedBody.app)
    private static let other = App(bundleId: "com.example.other")

    private static func uuid(_ number: Int) -> String { "002e14d5-51f5-4503-b5a8-c3a1af68eb\(10 + number)" }

    private static func withServer(
        _ app: App, at now: Instant = TestBundle.now, database: ConnectionConfiguration? = nil,
        bounds: QuarantineBounds = .standard, _ test: (TestBundle) async throws -> Void
    ) async throws {
        try await TestBundle.withServer(
            apps: [app], roots: SignedBody.roots, now: { now }, database: database, quarantine: bounds, test)
    }

    /// Runs the test with the quarantine of a fresh database.
    private static func withQuarantine(
        _ bounds: QuarantineBounds, _ test: (Quarantine, ConnectionConfiguration) async throws -> Void
    ) async throws {
        let database = try await TestCluster.freshDatabase()
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 4, logger: LogRecorder().logger)
        let outcome: Result<Void, any Error>
        do {
            try await test(Quarantine(pool: pool, bounds: bounds), database)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await pool.close()
        try outcome.get()
    }

    private static func notification(_ body: [UInt8]) async throws -> UnconfiguredNotification {
        let verifier = NotificationVerifier(apps: Apps([]), signatures: SignatureVerifier(roots: SignedBody.roots))
        guard case .unconfigured(let notification) = try await verifier.examine(body, receivedAt: TestBundle.now) else {
            throw Configured()
        }
        return notification
    }

    private struct Configured: Error {}

    /// The first column of the rows as text, read as the owner.
    private static func sql(_ statement: StaticString, _ database: ConnectionConfiguration) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement("test", SQL(stringLiteral: statement)), deadline: .now + .seconds(20))
        var result: [String] = []
        for row in rows { result.append(try row.value(at: 0)) }
        await connection.close()
        return result
    }

    private static func isTakenIn(_ server: TestBundle) async throws {
        _ = try await eventually("the quarantine is empty") {
            try await server.sql("select number::text from subledger.quarantine").isEmpty ? true : nil
        }
    }

    @Test("a signed notification is kept once, answered 503, and not in the log")
    func kept() async throws {
        try await Self.withServer(Self.other) { server async throws in
            let body = SignedBody.make()

            for _ in 0..<2 { #expect(try await server.apple.post(body).status == 503) }

            #expect(
                try await server.sql(
                    """
                    select concat_ws(' ', app, environment, received_at at time zone 'UTC', body_bytes)
                    from subledger.quarantine
                    """) == ["com.example.magazine sandbox 2019-11-08 08:14:00 \(body.count)"])
            #expect(
                try await server.sql("select convert_from(body, 'UTF8') from subledger.quarantine")
                    == [String(decoding: body, as: UTF8.self)])
            #expect(
                try await server.sql("select bytes::text from subledger.quarantine_size") == ["\(body.count)"])
            #expect(try await server.sql("select count(*)::text from subledger.stream") == ["0"])
            #expect(server.logs.text.contains("quarantine.outcome"))
            #expect(!server.logs.text.contains("2000000000000001"))
            #expect(!server.logs.text.contains(SignedBody.uuid))
        }
    }

    struct Forged: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let body: [UInt8]
    }

    private static var stranger: TestCertificates.Shape {
        var shape = TestCertificates.Shape()
        shape.label = "another"
        return shape
    }

    static let forged = [
        Forged(
            testDescription: "signed under another root",
            body: SignedBody.make(signer: JWSSigner(TestCertificates(stranger)))),
        Forged(
            testDescription: "not signed by the key of its certificates",
            body: SignedBody.make(
                signer: JWSSigner(key: TestKeys.p256("other"), x5c: TestCertificates.standard.x5c))),
        Forged(testDescription: "of Xcode, which Apple does not sign", body: SignedBody.make(environment: "Xcode")),
        Forged(
            testDescription: "of version 1",
            body: Array("{\"notification_type\":\"CANCEL\",\"bid\":\"com.example.magazine\"}".utf8)),
    ]

    @Test("a notification that Apple did not sign is not kept", arguments: forged)
    func isNotKept(_ forged: Forged) async throws {
        try await Self.withServer(Self.other) { server async throws in
            #expect(try await server.apple.post(forged.body).status != 200)

            #expect(try await server.sql("select count(*)::text from subledger.quarantine") == ["0"])
        }
    }

    @Test("once the app is configured, the log is as if it had been before")
    func takenIn() async throws {
        // The third is a repeat of the first with another time of signing: a conflict.
        let bodies = [
            SignedBody.make(uuid: Self.uuid(1)), SignedBody.make(uuid: Self.uuid(2)),
            SignedBody.make(uuid: Self.uuid(1), signedAt: 1_757_000_000_001), SignedBody.make(uuid: Self.uuid(3)),
        ]
        let events: StaticString = """
            select concat_ws(
              ' ', position, received_at, occurred_at, source, type, subtype, kind, encode(dedupe_key, 'hex'), facts,
              defects, encode(body_sha256, 'hex'), encode(chain_id, 'hex'), revocation,
              encode(subledger.event_body(stream_id, position), 'hex')
            )
            from subledger.event
            order by position
            """
        let conflicts: StaticString = """
            select concat_ws(' ', position, encode(body_sha256, 'hex'), received_at) from subledger.event_conflict
            """
        var expected: (events: [String], conflicts: [String]) = ([], [])
        try await Self.withServer(Self.configured) { server async throws in
            for body in bodies { #expect(try await server.apple.post(body).status == 200) }
            expected = (try await server.sql(events), try await server.sql(conflicts))
        }
        #expect(expected.events.count == 3 && expected.conflicts.count == 1)
        let database = try await TestCluster.freshDatabase()
        try await Self.withServer(Self.other, database: database) { server async throws in
            for body in bodies { #expect(try await server.apple.post(body).status == 503) }
        }

        let later = TestBundle.now.advanced(byMilliseconds: 86_400_000)
        try await Self.withServer(Self.configured, at: later, database: database) { server async throws in
            try await Self.isTakenIn(server)

            #expect(try await server.sql(events) == expected.events)
            #expect(try await server.sql(conflicts) == expected.conflicts)
            #expect(try await server.sql("select bytes::text from subledger.quarantine_size") == ["0"])
            #expect(try await server.apple.post(bodies[0]).json["duplicate"] as? Bool == true)
        }
    }

    @Test("a notification that was stored before a crash and not deleted is not stored again")
    func crashBetween() async throws {
        try await Self.withQuarantine(.standard) { quarantine, database in
            let body = SignedBody.make()
            try await Self.withServer(Self.configured, database: database) { server async throws in
                #expect(try await server.apple.post(body).status == 200)
            }
            _ = try await quarantine.keep(try await Self.notification(body), receivedAt: TestBundle.now)

            try await Self.withServer(Self.configured, database: database) { server async throws in
                try await Self.isTakenIn(server)

                #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
                #expect(try await server.sql("select count(*)::text from subledger.event_conflict") == ["0"])
            }
        }
    }

    @Test("two servers that start at the same time store each notification once, in order")
    func twoServers() async throws {
        try await Self.withQuarantine(.standard) { quarantine, database in
            for number in 0..<20 {
                let body = SignedBody.make(uuid: Self.uuid(number))
                let receivedAt = TestBundle.now.advanced(byMilliseconds: Int64(number))
                #expect(try await quarantine.keep(try await Self.notification(body), receivedAt: receivedAt).isNew)
            }

            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        try await Self.withServer(Self.configured, database: database) { server async throws in
                            try await Self.isTakenIn(server)
                        }
                    }
                }
                try await group.waitForAll()
            }

            let order = try await Self.sql(
                "select right(encode(dedupe_key, 'hex'), 2) from subledger.event order by position", database)
            #expect(order == (0..<20).map { "\(10 + $0)" })
        }
    }

    @Test("a notification that its app refuses stays in quarantine")
    func refusedAgain() async throws {
        try await Self.withQuarantine(.standard) { quarantine, database in
            _ = try await quarantine.keep(
                try await Self.notification(SignedBody.make(uuid: Self.uuid(1))), receivedAt: TestBundle.now)
            _ = try await quarantine.keep(
                try await Self.notification(SignedBody.make(uuid: Self.uuid(2), environment: "Production")),
                receivedAt: TestBundle.now)

            let app = App(bundleId: SignedBody.app, environments: [.production])
            try await Self.withServer(app, database: database) { server async throws in
                _ = try await eventually("the accepted one is taken in") {
                    try await server.sql("select position::text from subledger.event") == ["1"] ? true : nil
                }
                _ = try await eventually("the log reports the other one") {
                    server.logs.text.contains("environment_refused") ? true : nil
                }

                #expect(
                    try await server.sql("select environment from subledger.quarantine") == ["sandbox"])
            }
        }
    }

    @Test("a repetition waits for no database, and few others do")
    func flood() async throws {
        try await Self.withQuarantine(.standard) { quarantine, database in
            let keeper = QuarantineKeeper(quarantine)
            let known = try await Self.notification(SignedBody.make(uuid: Self.uuid(0)))
            #expect(await keeper.keep(known, receivedAt: TestBundle.now).outcome == .kept)
            var others: [UnconfiguredNotification] = []
            for number in 1..<60 {
                others.append(try await Self.notification(SignedBody.make(uuid: Self.uuid(number))))
            }
            let lock = try await TestCluster.connect(database)
            try await lock.script(
                "begin; select from subledger.quarantine_size for update", deadline: .now + .seconds(20))

            let start = ContinuousClock.now
            #expect(await keeper.keep(known, receivedAt: TestBundle.now).outcome == .known)
            let outcomes = try await withThrowingTaskGroup(of: QuarantineKeeper.Outcome.self) { group in
                for other in others { group.addTask { await keeper.keep(other, receivedAt: TestBundle.now).outcome } }
                var outcomes: [QuarantineKeeper.Outcome] = []
                while let outcome = try await group.next() {
                    outcomes.append(outcome)
                    guard outcomes.count == others.count - HTTPServer.Limits.quarantineWaitingMax else { continue }
                    #expect(.now - start < .seconds(2) * ProcessorShare.slowdown())
                    try await lock.script("rollback", deadline: .now + .seconds(20))
                }
                return outcomes
            }
            await lock.close()

            #expect(outcomes.count { $0 == .busy } == others.count - HTTPServer.Limits.quarantineWaitingMax)
            #expect(outcomes.suffix(HTTPServer.Limits.quarantineWaitingMax).allSatisfy { $0 == .kept })
            // After an hour, and for a notification that was not stored, the database is asked again.
            let later = TestBundle.now.advanced(by: .seconds(3601))
            #expect(await keeper.keep(known, receivedAt: later).outcome == .known)
        }
    }

    @Test("the oldest notifications are dropped to stay within the bytes, from several servers at once")
    func bytes() async throws {
        let bodies = (0..<20).map { SignedBody.make(uuid: Self.uuid($0)) }
        let longest = Int64(bodies.map(\.count).max() ?? 0)
        let bounds = QuarantineBounds(bytesMax: 3 * longest, daysMax: 30)
        try await Self.withQuarantine(bounds) { quarantine, database in
            for (number, body) in bodies.prefix(4).enumerated() {
                let (isNew, dropped) = try await quarantine.keep(
                    try await Self.notification(body), receivedAt: TestBundle.now)
                #expect(isNew)
                #expect(dropped.forBytes == (number < 3 ? 0 : 1))
                #expect(dropped.forAge == 0)
            }
            #expect(
                try await Self.sql(
                    "select convert_from(body, 'UTF8') from subledger.quarantine order by number", database)
                    == bodies[1..<4].map { String(decoding: $0, as: UTF8.self) })

            try await withThrowingTaskGroup(of: Void.self) { group in
                for body in bodies.dropFirst(4) {
                    group.addTask {
                        _ = try await quarantine.keep(
                            try await Self.notification(body), receivedAt: TestBundle.now)
                    }
                }
                try await group.waitForAll()
            }

            #expect(
                try await Self.sql(
                    """
                    select concat_ws(' ', count(*), sum(body_bytes) = (select bytes from subledger.quarantine_size))
                    from subledger.quarantine
                    """, database) == ["3 t"])
        }
    }

    @Test("a notification is dropped after the days of the setting, and not before")
    func days() async throws {
        try await Self.withQuarantine(QuarantineBounds(bytesMax: 1 << 20, daysMax: 2)) { quarantine, database in
            _ = try await quarantine.keep(try await Self.notification(SignedBody.make()), receivedAt: TestBundle.now)
            let end = TestBundle.now.advanced(byMilliseconds: 2 * 86_400_000)

            #expect(try await quarantine.prune(at: end).count == 0)
            #expect(try await quarantine.prune(at: end.advanced(byMilliseconds: 1)).forAge == 1)
            #expect(try await Self.sql("select bytes::text from subledger.quarantine_size", database) == ["0"])
        }
    }

    @Test("reading roles cannot read bodies in quarantine", arguments: ["subledger_reader", "subledger_analyst"])
    func readers(_ role: String) async throws {
        let database = try await TestCluster.freshDatabase()
        let connection = try await TestCluster.connect(database.with(role: role))

        _ = try await connection.query(
            Statement("columns", "select app, received_at, body_bytes from subledger.quarantine"),
            deadline: .now + .seconds(20))
        do throws(PostgresError) {
            _ = try await connection.query(
                Statement("bodies", "select body from subledger.quarantine"), deadline: .now + .seconds(20))
            Issue.record("the role can read bodies")
        } catch {
            #expect(error.sqlstate == "42501")
        }

        await connection.close()
    }
}
