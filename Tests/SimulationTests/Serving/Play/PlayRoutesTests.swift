import Encoding
import Foundation
import Logging
import Simulation
import Synchronization
import TestSupport
import Testing

@Suite("The simulated Google Play over HTTP")
struct PlayRoutesTests {
    private static let api = "/google/androidpublisher/v3/applications/\(PlayBundle.packageName)"

    private func accessToken(_ client: HTTPClient) async throws -> String {
        let second = Int64(Date().timeIntervalSince1970)
        let answer = try await client.send(
            "POST", "/google/token", headers: ["Content-Type": AssertionShape.formType],
            body: AssertionShape().form(second: second))
        #expect(answer.status == 200)
        return try #require(answer.json["access_token"] as? String)
    }

    private func bundle(_ change: (inout SimulatedPlay.Settings) -> Void = { _ in }) throws -> PlayBundle {
        try PlayBundle(isAcknowledgedByApp: false) {
            $0.tokenClock = { Int64(Date().timeIntervalSince1970) }
            change(&$0)
        }
    }

    @Test("tokens, keys, purchases and acknowledgements are served below one address")
    func routes() async throws {
        let bundle = try bundle()
        bundle.play.now = bundle.life.tokens[0].history[0].at
        let token = bundle.token
        try await bundle.play.served { client in
            let keys = try await client.get("/google/oauth2/v3/certs")
            let access = try await accessToken(client)
            let headers = ["Authorization": "Bearer \(access)"]
            let v2 = try await client.send(
                "GET", "\(Self.api)/purchases/subscriptionsv2/tokens/\(token)", headers: headers)
            let acknowledged = try await client.send(
                "POST", "\(Self.api)/purchases/subscriptions//tokens/\(token):acknowledge", headers: headers,
                body: Array("{}".utf8))
            let refused = try await client.get("\(Self.api)/orders/GPA.1")
            let requests = try await client.get("/google/requests")

            #expect((keys.json["keys"] as? [[String: String]])?.map { $0["kid"] }.count == 2)
            #expect(keys.headers["cache-control"]?.contains("max-age=20000") == true)
            #expect(v2.status == 200 && v2.json["subscriptionState"] as? String == "SUBSCRIPTION_STATE_ACTIVE")
            #expect(acknowledged.status == 204 && acknowledged.body.isEmpty)
            #expect(refused.status == 401)
            #expect((requests.json["apiRequests"] as? [[String: Any]])?.count == 3)
            #expect((requests.json["acknowledgements"] as? [[String: Any]])?.count == 1)
            #expect((requests.json["busiestMinutes"] as? [String: Int])?["subscriptions"] == 2)
        }
    }

    @Test("keys are exchanged one by one, and can be out of reach")
    func keys() async throws {
        let bundle = try bundle()
        try await bundle.play.served { client in
            func ids() async throws -> [String] {
                let keys = try await client.get("/google/oauth2/v3/certs").json["keys"] as? [[String: String]]
                return keys?.compactMap { $0["kid"] } ?? []
            }
            let before = try await ids()
            _ = try await client.send("POST", "/google/keys/rotate")
            let after = try await ids()
            bundle.play.areKeysAway = true
            let away = try await client.get("/google/oauth2/v3/certs")

            #expect(before.count == 2 && after.count == 2 && before[1] == after[0] && before[0] != after[1])
            #expect(away.status == 503 && bundle.play.keyRequests == 3)
        }
    }

    @Test("the clock pushes what is due to a server, with the headers of a push")
    func pushes() async throws {
        let received = Mutex<[PlaySending.Request]>([])
        let bundle = try bundle { settings in
            settings.sending = PlaySending(audience: "https://ledger.example.com") { request in
                received.withLock { $0.append(request) }
                return 204
            }
        }
        bundle.play.now = Simulation.start
        let first = bundle.life.messages[0]
        try await bundle.play.served { client in
            let set = try await client.put(
                #"{"now":"\#(first.publishTime.advanced(by: .seconds(1)))"}"#, to: "/clock")
            let messages = try await client.get("/google/messages")

            #expect(set.status == 200 && received.withLock { $0.count } == 1)
            let deliveries = messages.json["deliveries"] as? [[String: Any]]
            #expect(deliveries?.first?["messageId"] as? String == first.messageId)
            #expect(deliveries?.first?["status"] as? Int == 204)
        }
    }

    @Test("a deleted account is gone; a closed connection has no answer")
    func faults() async throws {
        let bundle = try bundle()
        bundle.play.now = bundle.life.tokens[0].history[0].at
        let token = bundle.token
        try await bundle.play.served { client in
            let headers = ["Authorization": "Bearer \(try await accessToken(client))"]
            let path = "\(Self.api)/purchases/subscriptionsv2/tokens/\(token)"
            _ = try await client.send("DELETE", "/google/purchases/\(token)")
            let gone = try await client.send("GET", path, headers: headers)
            // A client may try again on a new connection.
            bundle.play.inject(.dropped, requests: 10)

            #expect(gone.status == 410)
            await #expect(throws: (any Error).self) { try await client.send("GET", path, headers: headers) }
            #expect(bundle.play.counts.map(\.question.fault) == [nil, "dropped"])
        }
    }
}
