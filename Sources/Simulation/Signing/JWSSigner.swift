import Crypto
import Foundation

/// Signs payloads in Apple's form: compact JWS with the certificate chain in the header.
package struct JWSSigner: Sendable {
    private let key: P256.Signing.PrivateKey
    /// The encoded header, including its dot.
    private let head: [UInt8]

    /// - Parameters:
    ///   - algorithm: The algorithm that the header claims. Apple's is always `ES256`, which is also used here.
    ///   - x5c: Certificates in standard base64, leaf first; nil for those of the chain.
    package init(_ certificates: TestCertificates, algorithm: String = "ES256", x5c: [String]? = nil) {
        self.init(key: certificates.leafKey, algorithm: algorithm, x5c: x5c ?? certificates.x5c)
    }

    /// Makes a signer whose key need not match the certificates.
    package init(key: P256.Signing.PrivateKey, algorithm: String = "ES256", x5c: [String]) {
        self.key = key
        let list = x5c.map { "\"\($0)\"" }.joined(separator: ",")
        head = base64URL(Array("{\"alg\":\"\(algorithm)\",\"x5c\":[\(list)]}".utf8)) + [UInt8(ascii: ".")]
    }

    /// Signs the payload.
    ///
    /// - Parameter signatures: Replays recorded signatures, or records new ones. ECDSA signatures differ each time, but
    ///   a repeated body must have the same bytes.
    /// - Returns: Three base64url segments without padding, separated by dots; ASCII.
    package func sign(_ payload: [UInt8], _ signatures: inout SignatureTape) -> [UInt8] {
        var text = head + base64URL(payload)
        let signature = signatures.next { [key] in
            do {
                return Array(try key.signature(for: text).rawRepresentation)
            } catch {
                preconditionFailure("cannot sign a payload: \(error)")
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

/// The signatures of one body in the order of signing, 64 bytes each. They reproduce the same body.
package struct SignatureTape: Sendable {
    package private(set) var signatures: [[UInt8]]
    private var position = 0

    /// - Parameter signatures: Signatures to replay.
    package init(_ signatures: [[UInt8]] = []) {
        self.signatures = signatures
    }

    fileprivate mutating func next(_ make: () -> [UInt8]) -> [UInt8] {
        if position == signatures.count { signatures.append(make()) }
        position += 1
        return signatures[position - 1]
    }
}

/// Encodes as base64url without padding.
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
