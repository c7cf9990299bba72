import AppStore
import Foundation
import Subscriptions

/// An input that stands for a part of a signed notification; its first letter selects the part. Random bytes alone
/// would not pass two layers of base64.
struct SignedInput {
    let body: [UInt8]

    /// Nil for an input that is used as the body.
    init?(_ input: [UInt8]) {
        guard let letter = input.first else { return nil }
        let content = Array(input.dropFirst())
        let usualHeader = Self.header(leaf: Data([0x30, 0]))
        let jws: [UInt8]
        switch Character(Unicode.Scalar(letter)) {
        case "n": jws = Self.jws(usualHeader, content)
        case "t": jws = Self.jws(usualHeader, Self.payload("signedTransactionInfo", Self.jws(usualHeader, content)))
        case "r": jws = Self.jws(usualHeader, Self.payload("signedRenewalInfo", Self.jws(usualHeader, content)))
        case "h": jws = Self.jws(content, Array("{}".utf8))
        case "c": jws = Self.jws(Self.header(leaf: Data(content)), Array("{}".utf8))
        case "j":
            jws = content.filter { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        default: return nil
        }
        body = Array("{\"signedPayload\":\"".utf8) + jws + Array("\"}".utf8)
    }

    private static func header(leaf: Data) -> [UInt8] {
        // Twice the same, so that the second place contains a certificate whenever the first does.
        let text = leaf.base64EncodedString()
        return Array("{\"alg\":\"ES256\",\"x5c\":[\"\(text)\",\"\(text)\"]}".utf8)
    }

    private static func payload(_ key: String, _ inner: [UInt8]) -> [UInt8] {
        Array(
            """
            {"notificationType":"DID_RENEW","notificationUUID":"00000000-0000-4000-8000-000000000000",\
            "signedDate":1637366400000,"data":{"environment":"Sandbox","bundleId":"com.example.magazine","\(key)":"
            """.utf8) + inner + Array("\"}}".utf8)
    }

    private static func jws(_ header: [UInt8], _ payload: [UInt8]) -> [UInt8] {
        let dot = [UInt8(ascii: ".")]
        return base64URL(header) + dot + base64URL(payload) + dot + base64URL([UInt8](repeating: 1, count: 64))
    }

    private static func base64URL(_ bytes: [UInt8]) -> [UInt8] {
        Data(bytes).base64EncodedData().compactMap { digit in
            switch digit {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): nil
            default: digit
            }
        }
    }
}

let verifier = SignatureVerifier(roots: .apple)

/// Generated input has no valid signature, so none may be accepted.
func checkRefusal(of body: [UInt8], as event: Event?) async throws(BrokenPromise) {
    let app = App(bundleId: event?.app ?? "com.example.magazine", sharedSecrets: [])
    let notifications = NotificationVerifier(apps: Apps([app]), signatures: verifier)
    do throws(Refusal) {
        _ = try await notifications.verify(body, receivedAt: receivedAt)
    } catch {
        return try promise(!error.description.isEmpty, "a refusal has a description")
    }
    throw BrokenPromise(description: "a body without a valid signature is rejected")
}
