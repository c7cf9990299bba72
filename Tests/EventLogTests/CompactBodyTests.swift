import AppStore
import Encoding
import EventLog
import Foundation
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The log returns every body byte for byte")
struct CompactBodyTests {
    private static func rebuilt(_ body: CompactBody) throws -> [UInt8] {
        try CompactBody.rebuild(body.stored) { digest in body.headers.first { $0.digest == digest }?.text }
    }

    private static let app = App(bundleId: "com.example.app", sharedSecrets: [V1Body.secret])

    private static func simulatedBodies(_ format: Simulation.Format) throws -> [[UInt8]] {
        var settings = Simulation.Settings(
            app: SimulatedApp(bundleId: app.bundleId, environment: .sandbox, sharedSecret: V1Body.secret))
        settings.seed = TestSeed.value
        settings.subscriptions = 28
        settings.format = format
        return try #require(Simulation(settings)).deliveries.map { $0.body() }
    }

    /// The evidence that the receiver takes from a body.
    private static func evidence(of body: [UInt8]) throws -> Evidence {
        switch try AppleNotification(decoding: body) {
        case .v1(let notification): try Apps([app]).verify(notification, receivedAt: .latest).evidence
        case .v2(let notification): notification.evidence
        }
    }

    @Test("signed notifications share one header and take less than a sixth of their size")
    func signed() throws {
        let bodies = try Self.simulatedBodies(.v2)

        let stored = try bodies.map { CompactBody(try Self.evidence(of: $0)) }

        #expect(bodies.count > 100)
        for (body, compact) in zip(bodies, stored) { #expect(try Self.rebuilt(compact) == body) }
        #expect(Set(stored.flatMap(\.headers)).count == 1)
        #expect(stored.allSatisfy { $0.headers.count == 1 })
        #expect(stored.reduce(0) { $0 + $1.stored.count } * 6 < bodies.reduce(0) { $0 + $1.count })
    }

    @Test("receipts are stored as decoded bytes")
    func receipts() throws {
        for body in try Self.simulatedBodies(.v1) {
            let kept = String(decoding: body, as: UTF8.self).replacingOccurrences(of: V1Body.secret, with: "")

            let compact = CompactBody(try Self.evidence(of: body))

            #expect(try Self.rebuilt(compact) == Array(kept.utf8))
            #expect(compact.headers.isEmpty)
            #expect(compact.stored.count < body.count - 3_900)
        }
    }

    struct Odd: Sendable, CustomTestStringConvertible {
        let what: String
        let pieces: [Evidence.Piece]
        /// Whether any part is stored in fewer bytes, or in another form.
        var isCompact = false

        var testDescription: String { what }

        init(_ what: String, _ pieces: [Evidence.Piece], isCompact: Bool = false) {
            self.what = what
            self.pieces = pieces
            self.isCompact = isCompact
        }
    }

    private static func bytes(_ text: String) -> Evidence.Piece { .bytes(Array(text.utf8)[...]) }

    private static func base64(_ count: Int, _ alphabet: Base64.Alphabet = .standard) -> Evidence.Piece {
        .base64(EvidenceGenerator.text([UInt8](repeating: 0xFB, count: count), alphabet))
    }

    private static func jws(header: Int = 300, payload: [UInt8] = [123, 125], signature: Int = 64) -> JWSText {
        JWSText(
            header: [UInt8](repeating: 101, count: header)[...], payload: EvidenceGenerator.text(payload, .url),
            signature: EvidenceGenerator.text([UInt8](repeating: 7, count: signature), .url))
    }

    private static func jws(around inner: JWSText) -> JWSText {
        let outer = jws(payload: [34] + inner.pieces.flatMap { $0 } + [34])
        return outer.containing([inner.again(in: outer.payload.bytes, at: 1)].compactMap(\.self))
    }

    static let oddPieces = [
        Odd("nothing", []),
        Odd("bytes", [bytes("{\""), bytes(""), bytes("\"}")]),
        Odd("base64", [bytes("{\"a\":\""), base64(75), bytes("\"}")], isCompact: true),
        Odd("base64 with padding", [bytes("{\"a\":\""), base64(76), bytes("\"}")], isCompact: true),
        Odd("short base64", [bytes("{\"a\":\""), base64(9), bytes("\"}")]),
        Odd("base64url", [bytes("{\"a\":\""), base64(76, .url), bytes("\"}")]),
        Odd("a JWS", [.jws(jws())], isCompact: true),
        Odd("a JWS with nothing in it", [.jws(jws(payload: []))], isCompact: true),
        Odd("a JWS with a short signature", [.jws(jws(signature: 63))]),
        Odd("a JWS with a short header", [.jws(jws(header: 200))]),
        Odd("a JWS around a JWS", [.jws(jws(around: jws()))], isCompact: true),
        Odd("a JWS around one with a short signature", [.jws(jws(around: jws(signature: 1)))], isCompact: true),
        Odd(
            "a JWS around six", [.jws((0..<6).reduce(jws()) { inner, _ in jws(around: inner) })], isCompact: true),
        Odd("a first byte that marks a form", [bytes(""), bytes("\u{1}\u{2}{}")], isCompact: true),
    ]

    @Test("unusual evidence is rebuilt byte for byte", arguments: oddPieces)
    func oddEvidence(_ odd: Odd) throws {
        let evidence = Evidence(odd.pieces)

        let compact = CompactBody(evidence)

        #expect(try Self.rebuilt(compact) == evidence.bytes)
        #expect((compact.stored != evidence.bytes) == odd.isCompact)
    }

    @Test("a JWS inside another one is stored in its own form, not as base64 of base64")
    func inner() {
        let inner = Self.jws(payload: [UInt8](repeating: 32, count: 600))

        let compact = CompactBody(Evidence([.jws(Self.jws(around: inner))]))

        #expect(compact.stored.count < 1 + 2 * (1 + 32 + 3 + 64) + 600 + 30)
        #expect(compact.headers.count == 1)
    }

    @Test("random evidence, nested and misplaced, is rebuilt byte for byte")
    func random() throws {
        var compactCount = 0
        for number in 0..<3_000 {
            var generator = EvidenceGenerator(TestSeed.generator(number))
            let evidence = generator.evidence()

            let compact = CompactBody(evidence)

            #expect(try Self.rebuilt(compact) == evidence.bytes, "story \(number)")
            #expect(CompactBody.headers(of: [compact.stored]) == Set(compact.headers.map(\.digest)))
            if compact.stored != evidence.bytes { compactCount += 1 }
        }
        #expect(compactCount > 1_000)
    }

    @Test("a form of an older release, with base64 inside base64, is rebuilt")
    func older() throws {
        let inside: [UInt8] = [0, 0, 0, 1, 34, 1, 0, 0, 7, 0, 0, 0, 3, 65, 66, 67, 0, 0, 0, 1, 34]
        let form: [UInt8] = [1, 1, 0, 0, UInt8(inside.count)] + inside

        let body = try CompactBody.rebuild(form) { _ in nil }

        // "QUJD" with its quotes, in base64.
        #expect(body == Array("IlFVSkQi".utf8))
    }

    @Test("a stored form that was cut or changed in any byte never gives the body")
    func damaged() throws {
        let body = try #require(try Self.simulatedBodies(.v2).first)
        let compact = CompactBody(try Self.evidence(of: body))
        let header = try #require(compact.headers.first)

        for place in compact.stored.indices {
            var changed = compact.stored
            changed[place] ^= 1
            #expect((try? CompactBody.rebuild(changed) { $0 == header.digest ? header.text : nil }) != body)
            let cut = Array(compact.stored[..<place])
            #expect((try? CompactBody.rebuild(cut) { $0 == header.digest ? header.text : nil }) != body)
            for stored in [changed, cut] {
                var wanted: Set<[UInt8]> = []
                _ = try? CompactBody.rebuild(stored) { digest in
                    wanted.insert(digest)
                    return header.text
                }
                #expect(CompactBody.headers(of: [stored]) == wanted)
            }
        }
        #expect(throws: DamagedBody.form) { try CompactBody.rebuild([1, 9]) { _ in nil } }
        #expect(throws: DamagedBody.form) { try CompactBody.rebuild([1, 0, 0, 0, 2, 65]) { _ in nil } }
        #expect(throws: DamagedBody.headerMissing) { try CompactBody.rebuild(compact.stored) { _ in nil } }
    }

    @Test("the nesting of parts is limited")
    func depth() throws {
        var form: [UInt8] = []
        for _ in 0..<10_000 {
            form = [1, UInt8(form.count >> 16), UInt8(form.count >> 8 & 0xFF), UInt8(form.count & 0xFF)] + form
        }

        #expect(throws: DamagedBody.form) { try CompactBody.rebuild([1] + form) { _ in nil } }
    }

    @Test("a body of 16 MiB is stored unchanged")
    func large() throws {
        let text = EvidenceGenerator.text([UInt8](repeating: 0, count: 12 << 20), .standard)
        let body = Array("\"".utf8) + text.text + Array("\"".utf8)

        let compact = CompactBody(Evidence([Self.bytes("\""), .base64(text), Self.bytes("\"")]))

        #expect(compact.stored == body)
        #expect(try Self.rebuilt(compact) == body)
    }
}
