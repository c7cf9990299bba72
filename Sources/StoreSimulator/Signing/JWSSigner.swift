import Crypto
import Foundation

/// Turns payloads into signed texts as Apple's are: compact JWS with the chain of certificates in the header.
package struct JWSSigner: Sendable {
    private let key: P256.Signing.PrivateKey
    /// The first segment, ready with its dot.
    private let head: [UInt8]

    /// - Parameters:
    ///   - algorithm: What the header claims; Apple's is always `ES256`, which is also what is done.
    ///   - x5c: Certificates in standard base64, leaf first; those of the chain when nil.
    package init(_ certificates: TestCertificates, algorithm: String = "ES256", x5c: [String]? = nil) {
        self.init(key: certificates.leafKey, algorithm: algorithm, x5c: x5c ?? certificates.x5c)
    }

    /// A signer whose key need not be that of the certificates.
    package init(key: P256.Signing.PrivateKey, algorithm: String = "ES256", x5c: [String]) {
        self.key = key
        let list = x5c.map { "\"\($0)\"" }.joined(separator: ",")
        head = base64URL(Array("{\"alg\":\"\(algorithm)\",\"x5c\":[\(list)]}".utf8)) + [UInt8(ascii: ".")]
    }

    /// Signs the payload.
    ///
    /// - Parameter signatures: Where signatures are taken from or noted. ECDSA gives another one each time, and what
    ///   is sent twice must be the same bytes.
    /// - Returns: Three base64url segments without padding, with dots between them; ASCII.
    package func sign(_ payload: [UInt8], _ signatures: inout SignatureTape) -> [UInt8] {
        var text = head + base64URL(payload)
        let signature = signatures.next { [key] in
            do {
                return Array(try key.signature(for: text).rawRepresentation)
            } catch {
                preconditionFailure("a payload cannot be signed: \(error)")
            }
        }
        text.append(UInt8(ascii: "."))
        text += base64URL(signature)
        return text
    }

    package func sign(_ payload: [UInt8]) -> [UInt8] {
        var tape = SignatureTape()
        return sign(payload, &tape)
    }
}

/// The signatures of one body in the order in which they were made, 64 bytes each: with them the same body can be
/// made once more.
package struct SignatureTape: Sendable {
    package private(set) var signatures: [[UInt8]]
    private var position = 0

    /// - Parameter signatures: Those of the body's first making, to be used again.
    package init(_ signatures: [[UInt8]] = []) {
        self.signatures = signatures
    }

    fileprivate mutating func next(_ make: () -> [UInt8]) -> [UInt8] {
        if position == signatures.count { signatures.append(make()) }
        position += 1
        return signatures[position - 1]
    }
}

/// Base64 in the alphabet for URLs, without padding.
package func base64URL(_ bytes: [UInt8]) -> [UInt8] {
    var text = Array(Data(bytes).base64EncodedData())
    while text.last == UInt8(ascii: "=") { text.removeLast() }
    for index in text.indices {
        switch text[index] {
        case UInt8(ascii: "+"): text[index] = UInt8(ascii: "-")
        case UInt8(ascii: "/"): text[index] = UInt8(ascii: "_")
        default: break
        }
    }
    return text
}
