import Encoding
import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Expirations are published in time")
struct ExpirationTests {
    @Test("an expiration is published within a second, with the instant of the expiration")
    func clock() async throws {
        let wallClock: @Sendable () -> Instant = {
            Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest
        }
        try await TestBundle.withServer(now: wallClock) { server in
            let expiry = wallClock().milliseconds + 2500
            for (subscription, end) in [("10", expiry), ("20", expiry + 400)] {
                let body = V1Body(
                    type: "INITIAL_BUY",
                    rows: [
                        V1Body.Row(
                            subscription, subscription: subscription, purchase: expiry - ChangeRoutesTests.hour,
                            expires: end)
                    ],
                    subscription: subscription,
                    autoRenew: true)
                _ = try await server.apple.post(try body.bytes)
            }
            try await server.isFolded()
            let opened = try await ChangeRoutesTests.page(server, ChangeRoutesTests.here)
            #expect(opened.changes.map { $0["kind"] as? String } == ["opened", "opened"])

            var cursor = opened.cursor
            for (subscription, end) in [("10", expiry), ("20", expiry + 400)] {
                let told = try await ChangeRoutesTests.page(server, "after=\(cursor)&wait=30&limit=1")
                let closed = try #require(told.changes.first)
                #expect(closed["kind"] as? String == "closed")
                #expect(closed["cause"] as? String == "clock")
                #expect(closed["originalTransactionId"] as? String == subscription)
                let at = try #require((closed["at"] as? String).flatMap { Instant(iso8601: $0) })
                let publishedAt = try #require((closed["publishedAt"] as? String).flatMap { Instant(iso8601: $0) })
                #expect(at.milliseconds == end)
                #expect(publishedAt.milliseconds - end < 1000)
                let customer = try #require(closed["customer"] as? [String: Any])
                let entitlements = try #require(customer["entitlements"] as? [[String: Any]])
                #expect(entitlements.map { $0["active"] as? Bool } == [false])
                cursor = told.cursor
            }
        }
    }

    @Test("an expiration is published although an event cannot be folded")
    func clockOfStoppedStream() async throws {
        let wallClock: @Sendable () -> Instant = {
            Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest
        }
        try await TestBundle.withServer(now: wallClock) { server in
            let expiry = wallClock().milliseconds + 3000
            let body = V1Body(
                type: "INITIAL_BUY",
                rows: [
                    V1Body.Row(
                        "10", subscription: "10", purchase: expiry - ChangeRoutesTests.hour, expires: expiry)
                ],
                subscription: "10",
                autoRenew: true)
            _ = try await server.apple.post(try body.bytes)
            try await server.isFolded()
            let cursor = try await ChangeRoutesTests.page(server, ChangeRoutesTests.here).cursor
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                """
                insert into subledger.event (
                  stream_id, position, received_at, source, kind, dedupe_key, facts, body_sha256, chain
                )
                values (1, 2, now(), 'apple-v1', 'other', sha256('2'), '{"transactions":1}', sha256('{}'),
                  sha256(''));
                update subledger.stream_head
                set position = 2;
                notify subledger_event, '1'
                """, deadline: .now + .seconds(20))
            await owner.close()

            let told = try await ChangeRoutesTests.page(server, "after=\(cursor)&wait=30")
            #expect(told.changes.map { $0["kind"] as? String } == ["closed"])
            #expect(wallClock().milliseconds - expiry < 3000)
            #expect(server.logs.text.contains("projector stopped"))
        }
    }
}
