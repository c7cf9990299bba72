import AppStore
import Crypto
import Foundation
import Subscriptions
import SwiftASN1
import TestSupport
import Testing
import X509

/// A chain of three certificates with the keys of its issuers, made for each test. No other test trusts it.
struct RevocationChain {
    static let leafResponder = "http://leaf.test/ocsp"
    static let intermediateResponder = "http://intermediate.test/ocsp"
    /// Within the validity of all certificates, and not the current time.
    static let validationTime = date("2021-06-01")

    let root: Issuer
    let intermediate: Issuer
    let leaf: Certificate

    struct Issuer: RevocationSigner {
        let signatureAlgorithm: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 2]
        let key: P256.Signing.PrivateKey
        let certificate: Certificate

        func signature(for bytes: [UInt8]) throws -> [UInt8] {
            Array(try key.signature(for: bytes).derRepresentation)
        }

        /// A certificate for OCSP responders if it has the usage.
        func responder(hasUsage: Bool) throws -> Issuer {
            let key = P256.Signing.PrivateKey()
            return Issuer(
                key: key,
                certificate: try makeCertificate(
                    "Test Responder", of: key, by: self, until: "2040-01-01",
                    extensions: try Certificate.Extensions {
                        try ExtendedKeyUsage(hasUsage ? [.ocspSigning] : [.serverAuth])
                    }))
        }
    }

    init(
        leafResponder: String? = leafResponder, intermediateResponder: String? = intermediateResponder,
        rootResponder: String? = nil, leafUntil: String = "2040-01-01"
    ) throws {
        root = try Self.issuer("Test Root", by: nil, responder: rootResponder)
        intermediate = try Self.issuer("Test Intermediate", by: root, responder: intermediateResponder)
        leaf = try makeCertificate(
            "Test Leaf", of: P256.Signing.PrivateKey(), by: intermediate, until: leafUntil,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                if let leafResponder { access(leafResponder) }
            })
    }

    private static func issuer(_ name: String, by issuer: Issuer?, responder: String?) throws -> Issuer {
        let key = P256.Signing.PrivateKey()
        return Issuer(
            key: key,
            certificate: try makeCertificate(
                name, of: key, by: issuer, until: "2040-01-01",
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                    if let responder { access(responder) }
                }))
    }

    /// - Parameter number: Chains with different numbers have different ids.
    func chain(_ number: UInt8 = 1, validationTime: Date = validationTime) -> CertificateChain {
        CertificateChain(
            id: ChainID(sha256: [UInt8](repeating: number, count: 32)), leaf: leaf,
            intermediate: intermediate.certificate, root: root.certificate, validationTime: validationTime)
    }
}

func date(_ text: String) -> Date {
    Date(timeIntervalSince1970: Double(day(text).milliseconds) / 1000)
}

private func access(_ address: String) -> AuthorityInformationAccess {
    AuthorityInformationAccess([.init(method: .ocspServer, location: .uniformResourceIdentifier(address))])
}

/// - Parameter issuer: Nil for a self-signed certificate.
private func makeCertificate(
    _ name: String, of key: P256.Signing.PrivateKey, by issuer: RevocationChain.Issuer?, until: String,
    extensions: Certificate.Extensions
) throws -> Certificate {
    let subject = try DistinguishedName { CommonName(name) }
    return try Certificate(
        version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey), notValidBefore: date("2020-01-01"),
        notValidAfter: date(until), issuer: issuer?.certificate.subject ?? subject, subject: subject,
        signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions,
        issuerPrivateKey: .init(issuer?.key ?? key))
}
