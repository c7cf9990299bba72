import Encoding
import Subscriptions
import TestSupport

/// Makes evidence of every form, with nested JWS and some at the wrong offset.
struct EvidenceGenerator {
    private var random: SeededGenerator

    init(_ random: SeededGenerator) {
        self.random = random
    }

    mutating func evidence() -> Evidence {
        Evidence((0..<Int.random(in: 0...4, using: &random)).map { _ in piece() })
    }

    private mutating func piece() -> Evidence.Piece {
        switch Int.random(in: 0..<3, using: &random) {
        case 0: .bytes(bytes(0...200)[...])
        case 1: .base64(Self.text(bytes(0...200), random.chance(80) ? .standard : .url))
        default: .jws(jws(depth: 0))
        }
    }

    private mutating func jws(depth: Int) -> JWSText {
        var payload = bytes(0...60)
        var inner: [(start: Int, jws: JWSText)] = []
        for _ in 0..<Int.random(in: 0...2, using: &random) where depth < 6 {
            inner.append((payload.count, jws(depth: depth + 1)))
            payload += inner.last?.jws.pieces.flatMap { $0 } ?? []
            payload += bytes(0...20)
        }
        let whole = JWSText(
            header: bytes(200...400)[...], payload: Self.text(payload, .url),
            signature: Self.text(bytes(random.chance(90) ? 64...64 : 0...70), .url))
        var found: [JWSText] = []
        for (start, jws) in inner {
            // Some get an offset one byte too low.
            let start = random.chance(90) ? start : max(0, start - 1)
            if let jws = jws.again(in: whole.payload.bytes, at: start) { found.append(jws) }
        }
        return whole.containing(found)
    }

    private mutating func bytes(_ counts: ClosedRange<Int>) -> [UInt8] {
        (0..<Int.random(in: counts, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    static func text(_ bytes: [UInt8], _ alphabet: Base64.Alphabet) -> Base64Text {
        var text: [UInt8] = []
        Base64.append(bytes[...], alphabet, to: &text)
        guard let result = Base64Text(text[...], alphabet) else { preconditionFailure("base64 cannot be decoded") }
        return result
    }
}

extension JWSText {
    /// The same JWS, decoded from text in the bytes. Nil if there is no base64 at that offset.
    func again(in bytes: [UInt8], at start: Int) -> JWSText? {
        let headerEnd = start + header.count
        let payloadEnd = headerEnd + 1 + payload.text.count
        guard let payloadText = Base64Text(bytes[(headerEnd + 1)..<payloadEnd], .url),
            let signatureText = Base64Text(bytes[(payloadEnd + 1)..<(start + textCount)], .url)
        else { return nil }
        return JWSText(header: bytes[start..<headerEnd], payload: payloadText, signature: signatureText)
            .containing(inner.map(\.jws))
    }
}
