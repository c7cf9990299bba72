import AppStore
import Crypto
import CryptoExtras
import Encoding
import Foundation
import SwiftASN1
import X509

/// Makes app receipts in the form that Apple signs: PKCS #7 with the attributes of the receipt, and the certificates of the
/// signer. Its keys are made when the tests start and lead to a root of their own.
package struct SignedReceipt: Sendable {
    /// What deviates from a receipt that Apple would sign.
    package struct Shape: Sendable {
        package var isSHA1 = false
        /// Whether lengths are indefinite and the content is in pieces, as in receipts of macOS.
        package var isStreamed = false
        package var leafMaySign = true
        package var issuerIsAppleRelations = true
        /// A byte of the content is changed after it was signed.
        package var isChanged = false

        package init() {}
    }

    package static let roots: RootCertificates = {
        guard let roots = try? RootCertificates(file: Keys.shared.get().der(of: \.root)) else {
            preconditionFailure("the keys of receipts cannot be made")
        }
        return roots
    }()

    /// The root as a file.
    package static func rootPEM() throws -> String {
        let text = Base64.text(try Keys.shared.get().der(of: \.root))
        return "-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n"
    }

    /// The bytes of a receipt of an app.
    ///
    /// - Parameter opaque: What only Apple can read in it; nil for something that depends on the number.
    package static func make(
        app: String, number: Int = 1, opaque: [UInt8]? = nil, _ shape: Shape = Shape()
    ) throws -> [UInt8] {
        let keys = try Keys.shared.get()
        let leaf = shape.leafMaySign ? keys.leaf : keys.plainLeaf
        let issuer = shape.issuerIsAppleRelations ? keys.issuer : keys.plainIssuer
        var content = der(
            0x31,
            attribute(2, der(0x0C, Array(app.utf8))) + attribute(3, der(0x0C, Array("\(number)".utf8)))
                + attribute(4, opaque ?? Array(repeating: UInt8(truncatingIfNeeded: number), count: 200)))
        let signature =
            shape.isSHA1
            ? try keys.leafKey.signature(for: Insecure.SHA1.hash(data: content), padding: .insecurePKCS1v1_5)
            : try keys.leafKey.signature(for: SHA256.hash(data: content), padding: .insecurePKCS1v1_5)
        if shape.isChanged { content[content.count - 1] ^= 1 }
        let digest = der(
            0x30, (shape.isSHA1 ? oid([1, 3, 14, 3, 2, 26]) : oid([2, 16, 840, 1, 101, 3, 4, 2, 1])) + [5, 0])
        let octets =
            shape.isStreamed
            ? [0x24, 0x80] + der(0x04, Array(content.prefix(50))) + der(0x04, Array(content.dropFirst(50))) + [0, 0]
            : der(0x04, content)
        let certificates = try [leaf, issuer, keys.root].flatMap { try Keys.der(of: $0) }
        let signer = der(
            0x30,
            [2, 1, 1] + der(0x30, der(0x30, []) + [2, 1, 2]) + digest
                + der(0x30, oid([1, 2, 840, 113549, 1, 1, 1]) + [5, 0])
                + der(0x04, Array(signature.rawRepresentation)))
        func outer(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            shape.isStreamed ? [tag, 0x80] + content + [0, 0] : der(tag, content)
        }
        let signed = outer(
            0x30,
            [2, 1, 1] + der(0x31, digest) + outer(0x30, oid([1, 2, 840, 113549, 1, 7, 1]) + outer(0xA0, octets))
                + der(0xA0, certificates) + der(0x31, signer))
        return outer(0x30, oid([1, 2, 840, 113549, 1, 7, 2]) + outer(0xA0, signed))
    }

    private static func attribute(_ type: UInt8, _ value: [UInt8]) -> [UInt8] {
        der(0x30, [2, 1, type, 2, 1, 1] + der(0x04, value))
    }

    private static func oid(_ identifier: ASN1ObjectIdentifier) -> [UInt8] {
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(identifier)) != nil else { return [] }
        return serializer.serializedBytes
    }

    /// A value in DER.
    private static func der(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var length: [UInt8] = []
        var rest = content.count
        repeat {
            length.insert(UInt8(rest & 0xFF), at: 0)
            rest >>= 8
        } while rest > 0
        return [tag] + (content.count < 128 ? length : [0x80 | UInt8(length.count)] + length) + content
    }

    private struct Keys {
        let leafKey: _RSA.Signing.PrivateKey
        let root: Certificate
        let issuer: Certificate
        let plainIssuer: Certificate
        let leaf: Certificate
        let plainLeaf: Certificate

        static let shared = Result { try Keys() }

        private init() throws {
            leafKey = try _RSA.Signing.PrivateKey(keySize: .bits2048)
            let (rootKey, issuerKey) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
            let rootName = try DistinguishedName { CommonName("Make-believe root of receipts") }
            let issuerName = try DistinguishedName { CommonName("Make-believe developer relations") }
            let leafName = try DistinguishedName { CommonName("Make-believe receipt signing") }
            func certificate(
                _ serial: Int, _ subject: DistinguishedName, _ key: Certificate.PublicKey, _ issuer: DistinguishedName,
                _ issuerKey: P256.Signing.PrivateKey, _ marker: ASN1ObjectIdentifier?
            ) throws -> Certificate {
                let markers = marker.map { [Certificate.Extension(oid: $0, critical: false, value: [5, 0])] } ?? []
                return try Certificate(
                    version: .v3, serialNumber: Certificate.SerialNumber(serial), publicKey: key,
                    notValidBefore: Date(timeIntervalSince1970: 1_400_000_000),
                    notValidAfter: Date(timeIntervalSince1970: 1_500_000_000), issuer: issuer, subject: subject,
                    signatureAlgorithm: .ecdsaWithSHA256, extensions: try Certificate.Extensions(markers),
                    issuerPrivateKey: Certificate.PrivateKey(issuerKey))
            }
            root = try certificate(1, rootName, .init(rootKey.publicKey), rootName, rootKey, nil)
            func issued(_ marker: ASN1ObjectIdentifier?) throws -> Certificate {
                try certificate(2, issuerName, .init(issuerKey.publicKey), rootName, rootKey, marker)
            }
            issuer = try issued([1, 2, 840, 113635, 100, 6, 2, 1])
            plainIssuer = try issued(nil)
            let leafPublic = Certificate.PublicKey(leafKey.publicKey)
            leaf = try certificate(3, leafName, leafPublic, issuerName, issuerKey, [1, 2, 840, 113635, 100, 6, 11, 1])
            plainLeaf = try certificate(4, leafName, leafPublic, issuerName, issuerKey, nil)
        }

        func der(of part: KeyPath<Keys, Certificate>) throws -> [UInt8] { try Self.der(of: self[keyPath: part]) }

        static func der(of certificate: Certificate) throws -> [UInt8] {
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return serializer.serializedBytes
        }
    }
}
