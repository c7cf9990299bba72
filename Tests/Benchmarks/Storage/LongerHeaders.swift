import AppStore
import Foundation
import Simulation
import Subscriptions

/// Replaces the headers of a signed body with headers as long as Apple's.
enum LongerHeaders {
    /// The DER sizes of Apple's chain in 2025, leaf first.
    private static let certificateBytes = [1075, 762, 583]

    private static let header: String = {
        var random = SplitMix64(seed: 1, 1)
        let certificates = certificateBytes.map { count in
            let bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            return "\"\(Data(bytes).base64EncodedString())\""
        }
        return text(Array("{\"alg\":\"ES256\",\"x5c\":[\(certificates.joined(separator: ","))]}".utf8))
    }()

    static func evidence(_ body: [UInt8]) throws -> Evidence {
        guard case .v2(let notification) = try AppleNotification(decoding: longer(body)) else { throw Unusable() }
        return notification.evidence
    }

    private static func longer(_ body: [UInt8]) -> [UInt8] {
        let text = String(decoding: body, as: UTF8.self)
        let jws = text.dropFirst("{\"signedPayload\":\"".count).dropLast("\"}".count)
        return Array("{\"signedPayload\":\"\(longer(jws, depth: 0))\"}".utf8)
    }

    private static func longer(_ jws: Substring, depth: Int) -> String {
        let segments = jws.split(separator: ".")
        guard segments.count == 3, let payload = bytes(segments[1]) else { return String(jws) }
        var inside = String(decoding: payload, as: UTF8.self)
        if depth == 0 {
            let texts = inside.split(separator: "\"").filter { $0.hasPrefix("eyJ") }
            for text in texts { inside = inside.replacingOccurrences(of: text, with: longer(text, depth: 1)) }
        }
        return "\(header).\(text(Array(inside.utf8))).\(segments[2])"
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: base64URL(bytes), as: UTF8.self) }

    private static func bytes(_ segment: Substring) -> Data? {
        var text = segment.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while !text.count.isMultiple(of: 4) { text += "=" }
        return Data(base64Encoded: text)
    }
}
