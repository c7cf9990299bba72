import Foundation
import StandardWebhooks
import TestSupport
import Testing

@Suite("Endpoints over HTTP")
struct WebhookRoutesTests {
    private static let url = "https://backend.example.com/hook"

    private static func json(_ value: [String: Any]) throws -> [UInt8] {
        Array(try JSONSerialization.data(withJSONObject: value))
    }

    @Test("an endpoint is added, listed, disabled, enabled, replayed and rotated")
    func life() async throws {
        try await TestBundle.withServer { server in
            let client = try await server.client(with: .webhooks)
            let added = try await client.post(
                try Self.json(["app": V1Body.app, "url": Self.url, "kinds": ["opened"]]), to: "/webhooks")
            #expect(added.status == 201, "\(added.body)")
            let endpoint = try #require(added.json["endpoint"] as? [String: Any])
            let id = try #require(endpoint["id"] as? String)
            let key = try #require(added.json["key"] as? String)
            #expect(key.hasPrefix("whpk_"))
            #expect(endpoint["state"] as? String == "active")
            #expect(endpoint["kinds"] as? [String] == ["opened"])
            let nobody = HTTPClient(port: server.backend.port)
            #expect(try await nobody.get("/webhooks/keys").json["keys"] as? [String] == [key])

            let list = try await client.get("/webhooks").json["endpoints"] as? [[String: Any]]
            #expect(list?.map { $0["id"] as? String } == [id])
            let disabled = try await client.post([], to: "/webhooks/\(id)/disable").json["endpoint"] as? [String: Any]
            #expect(disabled?["state"] as? String == "disabled")
            #expect(disabled?["disabledFor"] as? String == "operator")
            let enabled = try await client.post([], to: "/webhooks/\(id)/enable").json["endpoint"] as? [String: Any]
            #expect(enabled?["state"] as? String == "active")

            for (body, status) in [
                (["after": 0], 202), (["failedSince": "2026-01-01T00:00:00Z"], 202), (["after": 1], 400),
                (["number": 1], 400), ([:], 400), (["after": 0, "number": 1], 400), (["after": "x"], 400),
                (["failedSince": "yesterday"], 400),
            ] as [([String: Any], Int)] {
                let answer = try await client.post(try Self.json(body), to: "/webhooks/\(id)/replay")
                #expect(answer.status == status, "\(body): \(answer.body)")
            }
            #expect(try await client.post([], to: "/webhooks/\(id)/rotate").status == 409)
            let rotated = try await client.post([], to: "/webhooks/keys/rotate").json["key"] as? String
            let next = try #require(rotated)
            let keys = try await nobody.get("/webhooks/keys").json["keys"] as? [String]
            #expect(keys == [next, key])
            #expect(try await client.get("/webhooks/\(id)").json["attempts"] as? [String] == [])
        }
    }

    @Test("a secret of an endpoint is shown once, when it is added or replaced, and is not in the database")
    func secret() async throws {
        try await TestBundle.withServer { server in
            let added = try await server.owner.post(
                try Self.json(["app": V1Body.app, "url": Self.url, "signature": "v1"]), to: "/webhooks")
            let secret = try #require(added.json["key"] as? String)
            let id = try #require((added.json["endpoint"] as? [String: Any])?["id"] as? String)
            #expect(secret.hasPrefix("whsec_"))
            #expect(!(try await server.owner.get("/webhooks/\(id)").body.contains("whsec_")))
            let rotated = try await server.owner.post([], to: "/webhooks/\(id)/rotate").json["key"] as? String
            #expect(rotated?.hasPrefix("whsec_") == true && rotated != secret)
            #expect(!server.logs.text.contains("whsec_"))
            #expect(!server.logs.text.contains("backend.example.com"))
            let rows = try await server.sql("select endpoint::text from subledger.endpoint")
            #expect(rows.count == 1 && !rows[0].contains("whsec"))
        }
    }

    @Test("a request with an Idempotency-Key adds an endpoint or a key once, whoever repeats it")
    func repeated() async throws {
        try await TestBundle.withServer { server in
            func post(_ body: [UInt8], _ path: String, _ key: String) async throws -> HTTPAnswer {
                try await server.owner.send("POST", path, headers: ["Idempotency-Key": key], body: body)
            }
            func id(_ answer: HTTPAnswer) -> String? { (answer.json["endpoint"] as? [String: Any])?["id"] as? String }
            let wish = try Self.json(["app": V1Body.app, "url": Self.url, "signature": "v1"])

            let first = try await post(wish, "/webhooks", "a-1")
            let same = try await post(wish, "/webhooks", "\"a-1\"")
            let other = try await post(
                try Self.json(["app": V1Body.app, "url": Self.url, "signature": "v1a"]), "/webhooks", "a-1")
            let second = try await post(wish, "/webhooks", "a-2")
            let malformed = try await post(wish, "/webhooks", "a b")
            let endpoint = try #require(id(first))
            let rotated = try await post([], "/webhooks/\(endpoint)/rotate", "r-1")
            let again = try await post([], "/webhooks/\(endpoint)/rotate", "r-1")
            let next = try await post([], "/webhooks/\(endpoint)/rotate", "r-2")
            let keys = try await [post([], "/webhooks/keys/rotate", "s"), post([], "/webhooks/keys/rotate", "s")]
            let count = try await server.sql("select count(*)::text from subledger.endpoint")

            #expect(first.status == 201 && same.status == 201, "\(same.body)")
            #expect(id(same) == endpoint && same.json["key"] as? String == first.json["key"] as? String)
            #expect(other.status == 422 && other.json["field"] as? String == "Idempotency-Key", "\(other.body)")
            #expect(id(second) != endpoint && second.json["key"] as? String != first.json["key"] as? String)
            #expect(malformed.status == 400)
            #expect(count == ["2"])
            let secrets = [first, rotated, again, next].compactMap { $0.json["key"] as? String }
            #expect(secrets.count == 4 && secrets[1] == secrets[2] && Set(secrets).count == 3)
            #expect(keys[0].status == 200 && keys[0].body == keys[1].body, "\(keys[0].body)")
        }
    }

    @Test("a test message says what came of it")
    func test() async throws {
        try await ScriptedReceiver.with { receiver in
            try await TestBundle.withServer { server in
                let url = "http://127.0.0.1:\(receiver.port)/hook"
                let added = try await server.owner.post(
                    try Self.json(["app": V1Body.app, "url": url]), to: "/webhooks")
                let id = try #require((added.json["endpoint"] as? [String: Any])?["id"] as? String)
                let key = try VerificationKey(try #require(added.json["key"] as? String))

                let good = try await server.owner.post([], to: "/webhooks/\(id)/test")
                receiver.answer(usually: .status(500))
                let bad = try await server.owner.post([], to: "/webhooks/\(id)/test")

                #expect(good.json["result"] as? String == "success")
                #expect(bad.json["result"] as? String == "server_error")
                #expect(bad.json["status"] as? Int == 500)
                let message = try #require(receiver.messages.first)
                #expect(message.json["type"] as? String == "subledger.subscription.test.v1")
                try WebhookVerifier(keys: [key]).verify(
                    Data(message.body), now: Date(timeIntervalSince1970: 1_573_200_840)
                ) { message.headers[$0] }
                #expect(try await server.owner.post([], to: "/webhooks/end_0000000000000000/test").status == 404)
            }
        }
    }

    @Test("what is not valid is refused with its field")
    func malformed() async throws {
        try await TestBundle.withServer { server in
            // Before the first request: servers read tokens once a second.
            let link = try await server.client(with: .link)
            let webhooks = try await server.client(with: .webhooks)
            let cases: [([String: Any], Int, String?)] = [
                (["url": Self.url], 400, "app"), (["app": V1Body.app], 400, "url"),
                (["app": V1Body.app, "url": "ftp://a.example"], 400, "url"),
                (["app": V1Body.app, "url": "https://user:x@a.example"], 400, "url"),
                (["app": V1Body.app, "url": Self.url, "kinds": []], 400, "kinds"),
                (["app": V1Body.app, "url": Self.url, "kinds": ["opened", "opened"]], 400, "kinds"),
                (["app": V1Body.app, "url": Self.url, "kinds": ["other"]], 400, "kinds"),
                (["app": V1Body.app, "url": Self.url, "kinds": "opened"], 400, "kinds"),
                (["app": V1Body.app, "url": Self.url, "signature": "none"], 400, "signature"),
                (["app": V1Body.app, "url": Self.url, "after": -1], 400, "after"),
                (["app": V1Body.app, "url": Self.url, "environment": "prod"], 400, "environment"),
                (["app": "com.example.unknown", "url": Self.url], 422, "app"),
            ]
            for (body, status, field) in cases {
                let answer = try await server.owner.post(try Self.json(body), to: "/webhooks")
                #expect(answer.status == status, "\(body)")
                #expect(answer.json["field"] as? String == field, "\(body)")
            }
            #expect(try await server.owner.get("/webhooks").json["endpoints"] as? [String] == [])
            #expect(try await server.backend.get("/webhooks").status == 403)
            #expect(try await link.get("/webhooks").status == 403)
            #expect(try await webhooks.get("/products?app=\(V1Body.app)").status == 403)
        }
    }
}
