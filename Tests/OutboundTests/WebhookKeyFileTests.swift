import Encoding
import Foundation
import Outbound
import StandardWebhooks
import Subscriptions
import Testing

@Suite("Keys of webhooks sign as the file says now")
struct WebhookKeyFileTests {
    @Test("a replaced secret signs beside the new one for a time; after the file is gone, nothing signs")
    func file() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-keys-\(UUID()).json").path
        defer { for name in [path, path + ".lock"] { try? FileManager.default.removeItem(atPath: name) } }
        let now = try #require(Instant(iso8601: "2026-11-28T00:00:00Z"))
        let later = now.advanced(by: Limits.rotationTime + .seconds(1))
        let endpoint = Endpoint(
            id: "end_0000000000000001", purpose: .changes,
            stream: StreamKey(app: "com.example.app", environment: .production), url: "https://example.com/",
            kinds: nil, signature: .v1, createdAt: now)
        let keys = WebhookKeyFile(path: path)
        func signing(at instant: Instant) throws -> [String] { try keys.signing(endpoint, at: instant).map(\.text) }

        #expect(try signing(at: now) == [])
        let first = try keys.change { $0.rotate(endpoint.id, at: now) }
        #expect(try signing(at: now) == [first])
        let second = try keys.change { $0.rotate(endpoint.id, at: now) }
        #expect(try signing(at: now) == [second, first])
        #expect(try signing(at: later) == [second])
        try FileManager.default.removeItem(atPath: path)
        #expect(try signing(at: now) == [])
    }

    @Test("a repeated request replaces a key once, as long as the one that it made signs")
    func repeated() throws {
        let now = try #require(Instant(iso8601: "2026-11-28T00:00:00Z"))
        var keys = WebhookKeys()
        let (one, other) = (RepeatableRequest(key: "one"), RepeatableRequest(key: "other"))

        let first = keys.rotate("end_1", at: now, request: one)
        let again = keys.rotate("end_1", at: now.advanced(by: .seconds(10 * 86_400)), request: one)
        let elsewhere = keys.rotate("end_2", at: now, request: one)
        let second = keys.rotate("end_1", at: now, request: other)
        let replaced = keys.rotate("end_1", at: now, request: one)
        let late = keys.rotate("end_1", at: now.advanced(by: Limits.rotationTime + .seconds(1)), request: one)
        let server = keys.rotateServer(at: now, request: one)
        let serverAgain = keys.rotateServer(at: now, request: one)
        let serverNext = keys.rotateServer(at: now)

        #expect(again == first && elsewhere != first && second != first && replaced == first)
        #expect(late != first && late != second)
        #expect(server != nil && serverAgain == server && serverNext != server)
    }
}
