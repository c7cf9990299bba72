import Foundation
import TestSupport
import Testing

@Suite("Webhooks survive kills of the server that delivers")
struct OutboundKillTests {
    /// The number of kills; SUBLEDGER_TEST_KILLS sets a larger one.
    private static let kills = ProcessInfo.processInfo.environment["SUBLEDGER_TEST_KILLS"].flatMap { Int($0) } ?? 4

    @Test("every change arrives, in order for each subscription and with one id, though servers are killed")
    func killed() async throws {
        var random = TestSeed.generator()
        let database = try await SharedDatabase.make()
        let keys = TestFolder.path("webhook-keys.json")
        let more = ["SUBLEDGER_ALLOW_PRIVATE_ENDPOINTS": "true", "SUBLEDGER_WEBHOOK_KEYS": keys]
        let projector = try database.server("projector,reader", more: more)
        let admin = HTTPClient(port: try await projector.privatePort(), token: try await database.token(.admin))
        try await database.script(
            """
            insert into subledger.stream (stream_id, app, environment)
            values (1, 'com.example.magazine', 'production')
            """)
        try await ScriptedReceiver.with { receiver in
            let url = "http://127.0.0.1:\(receiver.port)/"
            let wish = try JSONSerialization.data(withJSONObject: ["app": "com.example.magazine", "url": url])
            let added = try await admin.post(Array(wish), to: "/webhooks")
            #expect(added.status == 201, "\(added.body)")
            receiver.before { _ in try? await Task.sleep(for: .milliseconds(2)) }

            var published = 0
            var senders = [try database.server("poller", more: more), try database.server("poller", more: more)]
            for kill in 0..<Self.kills {
                published += 200
                try await database.script(
                    """
                    begin;
                    insert into subledger.change_head (stream_id, number, published_until)
                    values (1, 0, '2026-01-01') on conflict do nothing;
                    insert into subledger.change (
                      stream_id, number, published_at, kind, original_transaction_id, at, cause, product_id
                    )
                    select 1, change_head.number + place, now(), 'extended', 's' || place % 23, now(), 'clock', 'p'
                    from subledger.change_head
                    cross join generate_series(1, 200) as place;
                    update subledger.change_head set number = number + 200;
                    commit;
                    notify subledger_change, '1'
                    """)
                let target = published - Int(random.next() % 190)
                _ = try await eventually("\(target) changes have arrived") {
                    Set(receiver.numbers).count >= target ? true : nil
                }
                // The one that leads is the other one after each kill.
                let victim = senders.remove(at: kill % 2 == 0 ? 0 : senders.count - 1)
                victim.signal(SIGKILL)
                try await victim.hasEnded()
                senders.append(try database.server("poller", more: more))
            }
            _ = try await eventually("all changes have arrived") {
                Set(receiver.numbers).count == published ? true : nil
            }

            var last: [String: Int] = [:]
            var ids: [Int: String] = [:]
            for message in receiver.messages {
                #expect(ids[message.number] ?? message.id == message.id)
                // A repetition is no new message.
                guard ids[message.number] == nil else { continue }
                ids[message.number] = message.id
                #expect(last[message.line] ?? 0 < message.number, "\(message.line)")
                last[message.line] = message.number
            }
            #expect(ids.count == published)
            for server in senders {
                server.signal(SIGTERM)
                try await server.hasEnded()
            }
        }
        projector.signal(SIGTERM)
        try await projector.hasEnded()
        try await database.drop()
    }
}
