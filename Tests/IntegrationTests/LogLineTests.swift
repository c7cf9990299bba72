import AppStore
import Foundation
import Logging
import Subscriptions
import TestSupport
import Testing

@testable import HTTPServer
@testable import Server

@Suite("External values cannot forge or flood the log")
struct LogLineTests {

    /// The output of a logger with the handler for one event.
    private static func written(_ log: (inout Logger) -> Void) -> String {
        let recorder = LogRecorder()
        var logger = Logger(label: "test", factory: { _ in OneLineLogHandler(recorder.logger.handler) })
        log(&logger)
        return recorder.text
    }

    @Test("control characters in a value, a key or a message are escaped")
    func oneLine() {
        let forged = "x\n2026-11-22T14:00:00+0000 critical subledger: FORGED\r\u{2028}\u{1b}[2J\u{85}\u{202e}"

        let text = Self.written { logger in
            logger[metadataKey: "own\n"] = "\(forged)"
            logger.notice(
                "\(forged)",
                metadata: ["a\n": "\(forged)", "list": ["\(forged)", ["k\n": "\(forged)"]]])
        }

        for scalar in text.unicodeScalars { #expect(scalar.value >= 0x20 && scalar.value < 0x7f) }
        #expect(text.contains("x\\n2026-11-22"))
        #expect(text.contains("\\u{2028}\\u{1b}[2J\\u{85}\\u{202e}"))
    }

    @Test("text without control characters is unchanged")
    func unchanged() {
        #expect(OneLineLogHandler.escaped("com.example/päper 7 \\n") == "com.example/päper 7 \\n")
    }

    @Test("at most 10 unknown field names of 64 printable characters are logged")
    func unknownFields() async throws {
        let apps = [App(bundleId: V1Body.app, environments: [.xcode])]
        try await TestBundle.withServer(apps: apps) { server in
            var names = ["x\ncritical FORGED", String(repeating: "n", count: 10_000)]
            names += (0..<40).map { "unknown\($0)" }
            let answer = try await server.apple.post(try Self.local(extra: names))

            #expect(answer.status == 200)
            let line = try #require(
                server.logs.text.split(separator: "\n", omittingEmptySubsequences: false)
                    .first { $0.contains("notification stored") })
            #expect(line.hasPrefix("info "))
            #expect(line.contains("event.unknown_fields"))
            #expect(line.utf8.count < 2000)
            #expect(!server.logs.text.contains("\ncritical FORGED"))
        }
    }

    @Test("a stored notification is logged at debug level, and a duplicate at info level")
    func levels() async throws {
        let apps = [App(bundleId: V1Body.app, environments: [.xcode])]
        try await TestBundle.withServer(apps: apps) { server in
            let body = try Self.local()
            for _ in 0..<2 { #expect(try await server.apple.post(body).status == 200) }

            let lines = server.logs.text.split(separator: "\n").filter { $0.contains("event.position") }
            #expect(lines.count == 2)
            #expect(lines.first?.hasPrefix("debug notification stored ") == true)
            #expect(lines.last?.hasPrefix("info duplicate notification ") == true)
        }
    }

    @Test("notifications of local environments are limited in size and rate, those of production are not")
    func localStreams() throws {
        let streams = LocalStreams()
        let local = StreamKey(app: "a", environment: .xcode)
        let production = StreamKey(app: "a", environment: .production)
        let now = ContinuousClock.now
        func excess(_ stream: StreamKey, _ bytes: Int, _ at: ContinuousClock.Instant) -> LocalStreams.Excess? {
            do throws(LocalStreams.Excess) {
                try streams.admit(stream, bodyBytes: bytes, at: at)
                return nil
            } catch {
                return error
            }
        }

        #expect(excess(local, Limits.localBodyBytesMax, now) == nil)
        #expect(excess(local, Limits.localBodyBytesMax + 1, now) == .bodyTooLarge)
        #expect(excess(production, 5 << 20, now) == nil)
        for _ in 1..<Limits.localBurstEventsMax { #expect(excess(local, 1, now) == nil) }
        #expect(excess(local, 1, now) == .tooFast)
        #expect(excess(production, 1, now) == nil)
        #expect(excess(local, 1, now + .seconds(1)) == nil)
        streams.note(local, Limits.localEventsMax)
        streams.note(production, Limits.localEventsMax)
        #expect(excess(local, 1, now + .seconds(2)) == .full)
        #expect(excess(production, 1, now) == nil)
    }

    @Test("a burst from a local environment is answered 429 with the reason")
    func localBurst() async throws {
        let apps = [App(bundleId: V1Body.app, environments: [.xcode])]
        try await TestBundle.withServer(apps: apps) { server in
            var refusal: HTTPAnswer?
            for _ in 0..<1000 where refusal == nil {
                let answer = try await server.apple.post(try Self.local())
                if answer.status != 200 { refusal = answer }
            }
            let large = try await server.apple.post(try Self.local(extra: [String(repeating: "n", count: 40_000)]))

            #expect(refusal?.status == 429)
            #expect(refusal?.headers["retry-after"] == "5")
            #expect(
                refusal?.json["error"] as? String == "more than 10 notifications per second of a local environment")
            #expect(large.status == 413)
        }
    }

    /// A notification as Xcode sends it, with an untrusted signature.
    private static func local(extra names: [String] = []) throws -> [UInt8] {
        func part(_ object: [String: Any]) throws -> String {
            try JSONSerialization.data(withJSONObject: object).base64EncodedString()
                .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
                .replacingOccurrences(of: "=", with: "")
        }
        var payload: [String: Any] = [
            "notificationType": "TEST", "notificationUUID": UUID().uuidString.lowercased(), "version": "2.0",
            "signedDate": 1_573_200_840_000, "data": ["bundleId": V1Body.app, "environment": "Xcode"],
        ]
        for name in names { payload[name] = 1 }
        let signed = "\(try part(["alg": "ES256", "x5c": [String]()])).\(try part(payload)).AAAA"
        return Array(try JSONSerialization.data(withJSONObject: ["signedPayload": signed]))
    }
}
