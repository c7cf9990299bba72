import AppStore
import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("From a notification to its subscription")
struct FirstLightTests {
    private static let subscription = "/subscriptions/1000000588791509?environment=sandbox"

    @Test("the sample notification becomes event 1 and a readable subscription")
    func wholeWay() async throws {
        try await TestBundle.withServer { server in
            let answer = try await server.apple.post(try TestBundle.sample(""))

            #expect(answer.status == 200)
            #expect(answer.body == "{\"position\":1,\"duplicate\":false}\n")
            let subscription = try await server.subscription(Self.subscription).json
            #expect(subscription["app"] as? String == "com.example.magazine")
            #expect(subscription["autoRenew"] as? String == "off")
            #expect(subscription["status"] as? String == "active-will-end")
            #expect(subscription["active"] as? Bool == true)
            #expect(subscription["position"] as? Int == 1)
            let periods = try #require(subscription["periods"] as? [[String: Any]])
            #expect(periods.count == 1)
            #expect(periods.first?["start"] as? String == "2019-11-08T08:11:46.000Z")
            #expect(periods.first?["end"] as? String == "2019-11-08T08:14:46.000Z")
            let change = try #require(subscription["nextChange"] as? [String: Any])
            #expect(change["at"] as? String == "2019-11-08T08:14:46.000Z")
            #expect(change["status"] as? String == "expired")
        }
    }

    @Test("a subscription has its last check and its next one")
    func checks() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try TestBundle.sample(""))
            let before = try #require(try await server.subscription(Self.subscription).json["check"] as? [String: Any])
            _ = try await server.sql(
                """
                insert into subledger.store_check (
                  stream_id, original_transaction_id, asked_at, due_at, reason, result, status, next_at
                )
                select stream_id, original_transaction_id, due_at, due_at, reason, 'refused', 21003, null
                from subledger.check_schedule
                returning original_transaction_id
                """)
            _ = try await server.sql(
                "update subledger.check_schedule set next_at = null returning original_transaction_id")
            let after = try #require(try await server.backend.get(Self.subscription).json["check"] as? [String: Any])

            // Renewal is off. The period of three minutes ends at 08:14:46, and is checked two minutes later.
            let next = try #require(before["next"] as? [String: Any])
            #expect(next["at"] as? String == "2019-11-08T08:16:46.000Z")
            #expect(next["reason"] as? String == "end")
            #expect(before["last"] == nil)
            let last = try #require(after["last"] as? [String: Any])
            #expect(last["at"] as? String == "2019-11-08T08:16:46.000Z")
            #expect(last["result"] as? String == "refused")
            #expect(last["status"] as? Int == 21003)
            #expect(after["next"] == nil)
        }
    }

    @Test("access ends exactly at the instant of expiry")
    func halfOpen() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try TestBundle.sample(""))
            _ = try await server.subscription(Self.subscription)

            let before = try await server.backend.get(Self.subscription + "&at=2019-11-08T08:14:45.999Z").json
            let at = try await server.backend.get(Self.subscription + "&at=2019-11-08T08:14:46Z").json

            #expect(before["active"] as? Bool == true)
            #expect(at["active"] as? Bool == false)
            #expect(at["status"] as? String == "expired")
        }
    }

    @Test("a repeated body returns the first position; one with expired keys is stored with the same fingerprint")
    func duplicates() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try TestBundle.sample(""))
            let again = try await server.apple.post(try TestBundle.sample(""))
            let rows = try await server.sql("select count(*)::text from subledger.event")
            let twin = try await server.apple.post(try TestBundle.sample(".expired-keys"))

            #expect(again.body == "{\"position\":1,\"duplicate\":true}\n")
            #expect(rows == ["1"])
            #expect(twin.body == "{\"position\":2,\"duplicate\":false}\n")
            #expect(
                try await server.sql("select count(*)::text from analyst.events group by fingerprint") == ["2"])
        }
    }

    @Test("the stored body equals the received body without the value of its password")
    func storedBody() async throws {
        try await TestBundle.withServer { server in
            let sent = try TestBundle.sample("")
            _ = try await server.apple.post(sent)

            let stored = try await server.sql(
                "select convert_from(subledger.event_body(stream_id, position), 'UTF8') from subledger.event")

            let expected = String(decoding: sent, as: UTF8.self).replacingOccurrences(of: V1Body.secret, with: "")
            #expect(stored == [expected])
        }
    }

    @Test("an unknown type with the right secret is stored, and its facts are folded")
    func unknownType() async throws {
        try await TestBundle.withServer { server in
            let answer = try await server.apple.post(try V1Body(type: "DID_SOMETHING_NEW").bytes)

            #expect(answer.status == 200)
            let page = try await server.backend.get("/events?app=com.example.magazine").json
            let events = try #require(page["events"] as? [[String: Any]])
            #expect(events.first?["type"] as? String == "DID_SOMETHING_NEW")
            #expect(events.first?["kind"] as? String == "other")
            let subscription = try await server.subscription("/subscriptions/1000000000000001")
            #expect((subscription.json["periods"] as? [Any])?.count == 1)
        }
    }

    @Test("equal ids in production and sandbox are separate subscriptions")
    func environmentsApart() async throws {
        try await TestBundle.withServer { server in
            var sandbox = V1Body()
            sandbox["environment"] = "Sandbox"
            _ = try await server.apple.post(try V1Body().bytes)
            let second = try await server.apple.post(try sandbox.bytes)

            #expect(second.json["position"] as? Int == 1)
            let one = try await server.subscription("/subscriptions/1000000000000001").json
            let other = try await server.subscription("/subscriptions/1000000000000001?environment=sandbox").json
            #expect(one["environment"] as? String == "production")
            #expect(other["environment"] as? String == "sandbox")
        }
    }

    @Test("an id in two apps is answered 409 without ?app=")
    func severalApps() async throws {
        let apps = [
            App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret]),
            App(bundleId: "com.example.other", sharedSecrets: ["fedcba9876543210fedcba9876543210"]),
        ]
        try await TestBundle.withServer(apps: apps) { server in
            var other = V1Body()
            other["bid"] = "com.example.other"
            other["password"] = "fedcba9876543210fedcba9876543210"
            _ = try await server.apple.post(try V1Body().bytes)
            _ = try await server.apple.post(try other.bytes)
            let path = "/subscriptions/1000000000000001"
            _ = try await server.subscription(path + "?app=\(V1Body.app)")
            let named = try await server.subscription(path + "?app=com.example.other").json

            let unnamed = try await server.backend.get(path)

            #expect(named["app"] as? String == "com.example.other")
            #expect(unnamed.status == 409)
            #expect(unnamed.body.contains("com.example.magazine, com.example.other"))
        }
    }
}
