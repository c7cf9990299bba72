import AppStore
import Encoding
import EventLog
import Foundation
import PlayStore
import Projector
import StoreClient
import TestSupport
import Testing
import Verification

@testable import HTTPServer

@Suite("Pushes of Google Play")
struct GoogleNotificationTests {
    private static let now = TestBundle.now

    private static func withServer(
        _ apps: [GoogleApp]? = nil, _ google: ScriptedGoogle? = nil, _ test: (TestBundle) async throws -> Void
    ) async throws {
        try await TestBundle.withServer(
            apps: [], store: try google ?? ScriptedGoogle(),
            googleApps: try apps ?? [try ScriptedGoogle.configured()], test)
    }

    @Test("a push is stored once before it is answered 200, and its redelivery gets the same position")
    func stored() async throws {
        try await Self.withServer { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now)

            let first = try await server.push(body)
            let second = try await server.push(body)

            #expect(first.status == 200, "\(first.body)")
            #expect(first.json["position"] as? Int == 1)
            #expect(first.json["duplicate"] as? Bool == false)
            #expect(second.status == 200)
            #expect(second.json["position"] as? Int == 1)
            #expect(second.json["duplicate"] as? Bool == true)
            #expect(
                try await server.sql(
                    """
                    select concat_ws(' ', app, environment, source, type, position)
                    from subledger.event
                    join subledger.stream using (stream_id)
                    """) == ["com.example.play unknown google-rtdn SUBSCRIPTION_PURCHASED 1"])
        }
    }

    @Test("a later attempt of a message with a dead-letter topic is a duplicate, and no conflict")
    func laterAttempt() async throws {
        try await Self.withServer { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now)
            func attempt(_ number: Int) -> [UInt8] { body.dropLast() + Array(#","deliveryAttempt":\#(number)}"#.utf8) }

            let answers = [try await server.push(attempt(1)), try await server.push(attempt(2))]

            #expect(answers.map(\.status) == [200, 200])
            #expect(answers.map { $0.json["position"] as? Int } == [1, 1])
            #expect(answers.map { $0.json["duplicate"] as? Bool } == [false, true])
            #expect(answers[1].json["conflict"] == nil)
            // The evidence is the push that was stored.
            let stored = try await server.sql(
                "select convert_from(subledger.event_body(stream_id, position), 'UTF8') from subledger.event")
            #expect(stored == [String(decoding: attempt(1), as: UTF8.self)])
        }
    }

    @Test("pushes that Pub/Sub says it has delivered before are counted")
    func repeatedPushes() async throws {
        let folder = TestFolder.path("pushes")
        let apps = folder + ".json"
        defer {
            try? FileManager.default.removeItem(atPath: folder)
            try? FileManager.default.removeItem(atPath: apps)
        }
        try Data(#"[{"packageName":"com.example.play","push":{"authentication":"none"}}]"#.utf8)
            .write(to: URL(fileURLWithPath: apps))
        let server = try ServerProcess(dataFolder: folder, environment: ["SUBLEDGER_APPS_FILE": apps])
        let ports = try await server.ports()
        let google = HTTPClient(port: ports.public, patience: .seconds(60))

        for (id, attempt) in [("1", ""), ("2", #","deliveryAttempt":1"#), ("3", #","deliveryAttempt":4"#)] {
            let body = ScriptedGoogle.push(4, "token-1", id: id, at: Self.now).dropLast() + Array("\(attempt)}".utf8)
            #expect(try await google.post(Array(body), to: "/google/notifications").status == 200)
        }
        let metrics = try await HTTPClient(port: ports.private).get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(metrics.contains("\nsubledger_google_pushes_repeated_total 1\n"), "\(metrics)")
    }

    @Test("headers beside a wrapped message do not count: what is stored is what is verified")
    func headersBesideMessage() async throws {
        try await Self.withServer([try ScriptedGoogle.configured(.none)]) { server async throws in
            let body = Array(#"{"message":{"data":"e30="}}"#.utf8)
            let answer = try await server.apple.send(
                "POST", "/google/notifications",
                headers: [
                    "x-goog-pubsub-message-id": "7", "x-goog-pubsub-subscription-name": "projects/p/subscriptions/x",
                ], body: body)
            #expect(answer.status == 200, "\(answer.body)")

            let role = server.database.with(role: "subledger_projector")
            let (log, rows) = (try await TestCluster.connect(role), try await TestCluster.connect(role))
            let outcome = try await DatabaseVerifier(
                log: LogAudit(connection: log), projections: try await ProjectionAudit(connection: rows, seed: 1),
                signatures: SignatureVerifier(roots: .apple), extent: .all
            ).run()
            await log.close()
            await rows.close()
            #expect(outcome.findings.isEmpty, "\(outcome.findings)")
            #expect(outcome.events == 1)
        }
    }

    @Test("pushes that anyone may have sent are limited in size and in their sum, those with a token are not")
    func openPushes() async throws {
        func body(_ bytes: Int, id: String) -> [UInt8] {
            ScriptedGoogle.push(
                #"{"version":"1.0","packageName":"com.example.play","eventTimeMillis":"1573200840000","#
                    + #""testNotification":{"version":"1.0","more":"\#(String(repeating: "x", count: bytes))"}}"#,
                id: id)
        }
        try await Self.withServer([try ScriptedGoogle.configured(.none)]) { server async throws in
            #expect(try await server.push(body(5000, id: "1"), identity: nil).status == 200)
            #expect(try await server.push(body(7000, id: "2"), identity: nil).status == 413)
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
        }
        try await Self.withServer { server async throws in
            #expect(try await server.push(body(100_000, id: "1")).status == 200)
        }
        let open = try PushVerifier(apps: [PlayApp(packageName: "com.example.play", pushAuthentication: .none)])
            .verify(
                try PushMessage(decoding: body(10, id: "1")), authorization: nil, keys: .empty, now: Self.now)
        let (pushes, now) = (OpenPushes(), ContinuousClock.now)
        for _ in 0..<(HTTPServer.Limits.openPushBurstBytesMax / HTTPServer.Limits.openPushBytesMax) {
            try pushes.admit(open, bodyBytes: HTTPServer.Limits.openPushBytesMax, at: now)
        }
        #expect(throws: OpenPushes.Excess.tooMany) { try pushes.admit(open, bodyBytes: 1, at: now) }
        try pushes.admit(open, bodyBytes: HTTPServer.Limits.openPushBytesPerSecond, at: now + .seconds(1))
        #expect(throws: OpenPushes.Excess.tooMany) { try pushes.admit(open, bodyBytes: 1, at: now + .seconds(1)) }
    }

    @Test("a test notification is stored, and so is malformed data of a genuine push")
    func odd() async throws {
        try await Self.withServer { server async throws in
            let test = ScriptedGoogle.push(
                #"{"version":"1.0","packageName":"com.example.play","eventTimeMillis":"1573200840000","#
                    + #""testNotification":{"version":"1.0"}}"#, id: "1")

            #expect(try await server.push(test).status == 200)
            #expect(try await server.push(ScriptedGoogle.push("no JSON", id: "2")).status == 200)
            #expect(try await server.push(Array(#"{"message":{"messageId":"3"}}"#.utf8)).status == 200)
            #expect(
                try await server.sql("select kind from subledger.event order by position")
                    == ["test", "other", "other"])
        }
    }

    @Test("a push without a genuine token is answered 403 and not stored; the same push is accepted later")
    func forged() async throws {
        try await Self.withServer { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now)
            let forged: [(String?, String)] = [
                (nil, "no identity token"),
                ("x", "not a JSON Web Token"),
                (try ScriptedGoogle.identity("aud", "https://other.example.com", at: Self.now), "another audience"),
                (try ScriptedGoogle.identity("email", "other@example.com", at: Self.now), "another account"),
                (try ScriptedGoogle.identity("email_verified", false, at: Self.now), "not verified"),
                (try ScriptedGoogle.identity("iss", "https://example.com", at: Self.now), "not Google's"),
                (try ScriptedGoogle.identity("exp", Self.now.milliseconds / 1000 - 61, at: Self.now), "expired"),
                (try ScriptedGoogle.identity(isForged: true, at: Self.now), "signature"),
                (try ScriptedGoogle.identity(kid: "k9", at: Self.now), "does not publish"),
            ]
            for (identity, problem) in forged {
                let answer = try await server.push(body, identity: identity)
                #expect(answer.status == 403, "\(problem)")
                #expect(answer.body.contains(problem), "\(answer.body)")
                if let identity { #expect(!server.logs.text.contains(identity)) }
            }
            #expect(try await server.sql("select position::text from subledger.event").isEmpty)
            #expect(server.logs.text.contains("token_audience"), "\(server.logs.text)")

            let accounts = try ScriptedGoogle.identity("iss", "accounts.google.com", at: Self.now)
            #expect(try await server.push(body, identity: accounts).status == 200)
        }
    }

    @Test("without Google's keys a push is answered 503; once they can be fetched it is accepted")
    func keys() async throws {
        let google = try ScriptedGoogle()
        google.publish(nil)
        try await Self.withServer(nil, google) { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now)

            let away = try await server.push(body)
            google.publish(try ScriptedGoogle.keySet())
            let back = try await eventually("the keys are fetched") {
                let answer = try await server.push(body)
                return answer.status == 200 ? answer : nil
            }

            #expect(away.status == 503)
            #expect(back.json["duplicate"] as? Bool == false)
        }
    }

    @Test("a push about a package that is not configured is answered 503, if it is genuine")
    func unknownPackage() async throws {
        try await Self.withServer { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now, app: "com.example.other")

            #expect(try await server.push(body).status == 503)
            #expect(try await server.push(body, identity: nil).status == 403)
        }
        try await Self.withServer([]) { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now)
            #expect(try await server.push(body).status == 503)
        }
    }

    @Test("an app may accept every push, and what is no push is answered 400")
    func unauthenticated() async throws {
        try await Self.withServer([try ScriptedGoogle.configured(.none)]) { server async throws in
            let body = ScriptedGoogle.push(4, "token-1", id: "11", at: Self.now)

            #expect(try await server.push(body, identity: nil).status == 200)
            #expect(try await server.push(Array("[]".utf8), identity: nil).status == 400)
            #expect(try await server.push([], identity: nil).status == 400)
            #expect(try await server.apple.get("/google/notifications").status == 405)
        }
    }
}
