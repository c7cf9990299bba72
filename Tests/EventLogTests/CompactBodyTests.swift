import EventLog
import StoreSimulator
import Subscriptions
import TestSupport
import Testing

@Suite("A body comes out of the log byte for byte, whatever it is")
struct CompactBodyTests {
    private static func rebuilt(_ body: CompactBody) throws -> [UInt8] {
        try CompactBody.rebuild(body.stored) { digest in body.headers.first { $0.digest == digest }?.text }
    }

    private static func simulatedBodies(_ format: Simulation.Format) throws -> [[UInt8]] {
        var settings = Simulation.Settings(
            app: SimulatedApp(bundleId: "com.example.app", environment: .sandbox, sharedSecret: V1Body.secret))
        settings.seed = TestSeed.value
        settings.subscriptions = 28
        settings.format = format
        return try #require(Simulation(settings)).deliveries.map { $0.body() }
    }

    @Test("signed notifications share one header and keep a sixth of their bytes")
    func signed() throws {
        let bodies = try Self.simulatedBodies(.v2)

        let stored = bodies.map { CompactBody($0) }

        #expect(bodies.count > 100)
        for (body, compact) in zip(bodies, stored) { #expect(try Self.rebuilt(compact) == body) }
        #expect(Set(stored.flatMap(\.headers)).count == 1)
        #expect(stored.allSatisfy { $0.headers.count == 1 })
        #expect(stored.reduce(0) { $0 + $1.stored.count } * 6 < bodies.reduce(0) { $0 + $1.count })
    }

    @Test("receipts are kept as the bytes that they stand for")
    func receipts() throws {
        for body in try Self.simulatedBodies(.v1) {
            let compact = CompactBody(body)

            #expect(try Self.rebuilt(compact) == body)
            #expect(compact.headers.isEmpty)
            #expect(compact.stored.count < body.count - 3_900)
        }
    }

    struct Odd: Sendable, CustomTestStringConvertible {
        let what: String
        let body: String
        /// Whether anything in it can be kept in fewer bytes.
        var isCompact = false

        var testDescription: String { what }
    }

    private static let digits = String(repeating: "QUJD", count: 25)
    private static let header = String(repeating: "eyJh", count: 80)
    private static let signature = String(repeating: "A", count: 86)

    static let oddBodies = [
        Odd(what: "nothing", body: ""),
        Odd(what: "one quote", body: "\""),
        Odd(what: "no quote before the end", body: "{\"\(digits)"),
        Odd(what: "base64", body: "{\"a\":\"\(digits)\"}", isCompact: true),
        Odd(what: "base64 with padding", body: "{\"a\":\"\(digits)QQ==\"}", isCompact: true),
        Odd(what: "base64 as a key", body: "{\"\(digits)\":1}", isCompact: true),
        Odd(what: "base64 without its padding", body: "{\"a\":\"\(digits)QQ\"}"),
        Odd(what: "base64 with bits that are not used", body: "{\"a\":\"\(digits)QR==\"}"),
        Odd(what: "base64 with too much padding", body: "{\"a\":\"\(digits)====\"}"),
        Odd(what: "base64 with escaped slashes", body: "{\"a\":\"\(digits)\\/\\/\"}"),
        Odd(what: "base64 with a line feed", body: "{\"a\":\"\(digits)\nQUJD\"}"),
        Odd(what: "base64url", body: "{\"a\":\"\(digits)-_-_\"}"),
        Odd(
            what: "base64 behind a quote too many", body: "{\"a\":\"\\\"\(digits)\",\"b\":\"\(digits)\"}",
            isCompact: true),
        Odd(what: "a JWS", body: "{\"a\":\"\(header).\(digits).\(signature)\"}", isCompact: true),
        Odd(what: "a JWS with nothing in it", body: "{\"a\":\"\(header)..\(signature)\"}", isCompact: true),
        Odd(what: "a JWS with padding", body: "{\"a\":\"\(header).\(digits)QQ==.\(signature)\"}"),
        Odd(what: "a JWS with a short signature", body: "{\"a\":\"\(header).\(digits).\(signature.dropLast(2))\"}"),
        Odd(what: "a JWS with four segments", body: "{\"a\":\"\(header).\(digits).\(digits).\(signature)\"}"),
        Odd(what: "a JWS with a short header", body: "{\"a\":\"eyJh.\(digits).\(signature)\"}"),
        Odd(what: "a first byte that marks a form", body: "\u{1}\u{2}{}", isCompact: true),
    ]

    @Test("odd texts", arguments: oddBodies)
    func oddTexts(_ odd: Odd) throws {
        let body = Array(odd.body.utf8)

        let compact = CompactBody(body)

        #expect(try Self.rebuilt(compact) == body)
        #expect((compact.stored != body) == odd.isCompact)
    }

    @Test("made-up bodies, nested and broken in every way")
    func random() throws {
        var compactCount = 0
        for number in 0..<3_000 {
            var bodies = BodyGenerator(TestSeed.generator(number))
            let body = bodies.body()

            let compact = CompactBody(body)

            #expect(try Self.rebuilt(compact) == body, "story \(number)")
            if compact.stored != body { compactCount += 1 }
        }
        #expect(compactCount > 1_000)
    }

    @Test("a form that was cut or changed in any byte never gives the body")
    func damaged() throws {
        let body = try #require(try Self.simulatedBodies(.v2).first)
        let compact = CompactBody(body)
        let header = try #require(compact.headers.first)

        for place in compact.stored.indices {
            var changed = compact.stored
            changed[place] ^= 1
            #expect((try? CompactBody.rebuild(changed) { $0 == header.digest ? header.text : nil }) != body)
            let cut = Array(compact.stored[..<place])
            #expect((try? CompactBody.rebuild(cut) { $0 == header.digest ? header.text : nil }) != body)
        }
        #expect(throws: DamagedBody.form) { try CompactBody.rebuild([1, 9]) { _ in nil } }
        #expect(throws: DamagedBody.form) { try CompactBody.rebuild([1, 0, 0, 0, 2, 65]) { _ in nil } }
        #expect(throws: DamagedBody.headerMissing) { try CompactBody.rebuild(compact.stored) { _ in nil } }
    }

    @Test("parts in parts have an end")
    func depth() throws {
        var form: [UInt8] = []
        for _ in 0..<10_000 {
            form = [1, UInt8(form.count >> 16), UInt8(form.count >> 8 & 0xFF), UInt8(form.count & 0xFF)] + form
        }

        #expect(throws: DamagedBody.form) { try CompactBody.rebuild([1] + form) { _ in nil } }
    }

    @Test("a body of 16 MiB and more is kept as it is")
    func large() throws {
        let body = Array("{\"a\":\"".utf8) + [UInt8](repeating: 65, count: 16 << 20) + Array("\"}".utf8)

        let compact = CompactBody(body)

        #expect(compact.stored == body)
        #expect(try Self.rebuilt(compact) == body)
    }
}
