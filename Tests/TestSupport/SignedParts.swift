import Crypto
import Foundation

/// The signed texts of a notification, split without the code under test.
package struct SignedParts: Sendable {
    package private(set) var all: [(signedText: [UInt8], signature: P256.Signing.ECDSASignature)] = []
    /// The JSON texts: the body and the payloads.
    package private(set) var texts: [[UInt8]]

    /// - Throws: If the body is not a signed notification.
    package init(_ body: [UInt8]) throws {
        texts = [body]
        guard let outer = try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any],
            let text = outer["signedPayload"] as? String
        else { throw NotSigned() }
        let payload = try add(text)
        let data = payload["data"] as? [String: Any] ?? [:]
        for key in ["signedTransactionInfo", "signedRenewalInfo"] {
            if let inner = data[key] as? String { _ = try add(inner) }
        }
    }

    private struct NotSigned: Error {}

    private mutating func add(_ text: String) throws -> [String: Any] {
        let segments = text.split(separator: ".").map(String.init)
        guard segments.count == 3, let payload = Self.decoded(segments[1]), let signature = Self.decoded(segments[2])
        else { throw NotSigned() }
        all.append(
            (
                Array("\(segments[0]).\(segments[1])".utf8),
                try P256.Signing.ECDSASignature(rawRepresentation: signature)
            ))
        texts.append(Array(payload))
        return try JSONSerialization.jsonObject(with: payload) as? [String: Any] ?? [:]
    }

    private static func decoded(_ segment: String) -> Data? {
        var text = segment.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while !text.count.isMultiple(of: 4) { text += "=" }
        return Data(base64Encoded: text)
    }
}
