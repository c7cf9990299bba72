import Crypto
import Encoding
import Foundation
import SwiftASN1
import X509

/// A certificate chain in the shape of Apple's: root and intermediate on P-384, leaf on P-256, with Apple's marker
/// extensions.
///
/// Its keys are public, see ``TestKeys``: **anyone can sign under this root**. A server that trusts it accepts
/// notifications from anyone.
package struct TestCertificates: Sendable {
    /// Differences from Apple's chain, for tests of verifiers.
    package struct Shape: Sendable, Hashable {
        /// Determines the keys: chains with different labels share none.
        package var label = TestCertificates.standardLabel
        /// The first and last second of the leaf's validity. The default covers all simulated notifications.
        package var leafValidity = TestCertificates.validity("2024-01-01T00:00:00Z", "2027-12-31T23:59:59Z")
        package var leafHasMarker = true
        package var intermediateHasMarker = true
        package var intermediateIsCA = true
        /// The OCSP address in leaf and intermediate; nil omits it.
        package var ocspResponder: String?

        package init() {}
    }

    package static let standardLabel = "make-believe App Store"

    /// A chain in Apple's shape, with the same root in every process.
    package static let standard = TestCertificates(Shape())

    package let root: Certificate
    package let intermediate: Certificate
    package let leaf: Certificate
    package let rootKey: P384.Signing.PrivateKey
    package let intermediateKey: P384.Signing.PrivateKey
    package let leafKey: P256.Signing.PrivateKey
    package let rootDER: [UInt8]
    package let intermediateDER: [UInt8]
    package let leafDER: [UInt8]

    package init(_ shape: Shape) {
        rootKey = TestKeys.p384("\(shape.label) root")
        intermediateKey = TestKeys.p384("\(shape.label) intermediate")
        leafKey = TestKeys.p256("\(shape.label) leaf")
        do {
            root = try Self.root(shape, key: rootKey)
            intermediate = try Self.intermediate(shape, key: intermediateKey, issuerKey: rootKey)
            leaf = try Self.leaf(shape, key: leafKey, issuerKey: intermediateKey)
            rootDER = try Self.der(root)
            intermediateDER = try Self.der(intermediate)
            leafDER = try Self.der(leaf)
        } catch {
            preconditionFailure("cannot make a test certificate: \(error)")
        }
    }

    /// Leaf, intermediate and root in standard base64, as in the header of a signed text.
    package var x5c: [String] {
        [leafDER, intermediateDER, rootDER].map { Data($0).base64EncodedString() }
    }

    package var rootPEM: String {
        PEMDocument(type: "CERTIFICATE", derBytes: rootDER).pemString + "\n"
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}

// MARK: - The three certificates

extension TestCertificates {
    /// The marker extension of leaf certificates that sign for the App Store.
    package static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]
    /// The marker extension of the intermediate "Apple Worldwide Developer Relations".
    package static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]

    private static let authorityValidity = validity("2020-01-01T00:00:00Z", "2045-12-31T23:59:59Z")

    static func validity(_ first: String, _ last: String) -> ClosedRange<Instant> {
        guard let first = Instant(iso8601: first), let last = Instant(iso8601: last) else {
            preconditionFailure("a fixed date is not valid")
        }
        return first...last
    }

    private static func name(_ commonName: String) throws -> DistinguishedName {
        try DistinguishedName {
            CommonName(commonName)
            OrganizationName("Subledger tests, not Apple")
        }
    }

    private static let rootName = "Subledger Make-Believe Root CA"
    private static let intermediateName = "Subledger Make-Believe Intermediate CA"
    private static let leafName = "Subledger Make-Believe App Store Signing"

    private static func root(_ shape: Shape, key: P384.Signing.PrivateKey) throws -> Certificate {
        if shape.label == standardLabel { return try Certificate(pemEncoded: MakeBelieveRoot.pem) }
        return try certificate(
            serial: 1, subject: name(rootName), key: .init(key.publicKey), validity: authorityValidity,
            issuer: name(rootName), issuerKey: key
        ) {
            Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
            Critical(KeyUsage(keyCertSign: true, cRLSign: true))
            SubjectKeyIdentifier(hash: .init(key.publicKey))
        }
    }

    private static func intermediate(
        _ shape: Shape, key: P384.Signing.PrivateKey, issuerKey: P384.Signing.PrivateKey
    ) throws -> Certificate {
        try certificate(
            serial: 2, subject: name(intermediateName), key: .init(key.publicKey), validity: authorityValidity,
            issuer: name(rootName), issuerKey: issuerKey
        ) {
            if shape.intermediateIsCA {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                Critical(KeyUsage(keyCertSign: true, cRLSign: true))
            } else {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
            }
            SubjectKeyIdentifier(hash: .init(key.publicKey))
            AuthorityKeyIdentifier(
                keyIdentifier: SubjectKeyIdentifier(hash: .init(issuerKey.publicKey)).keyIdentifier)
            if let responder = shape.ocspResponder { revocationInformation(at: responder) }
            if shape.intermediateHasMarker { marker(intermediateMarker) }
        }
    }

    private static func leaf(
        _ shape: Shape, key: P256.Signing.PrivateKey, issuerKey: P384.Signing.PrivateKey
    ) throws -> Certificate {
        try certificate(
            serial: 3, subject: name(leafName), key: .init(key.publicKey), validity: shape.leafValidity,
            issuer: name(intermediateName), issuerKey: issuerKey
        ) {
            Critical(BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: true))
            SubjectKeyIdentifier(hash: .init(key.publicKey))
            AuthorityKeyIdentifier(
                keyIdentifier: SubjectKeyIdentifier(hash: .init(issuerKey.publicKey)).keyIdentifier)
            if let responder = shape.ocspResponder { revocationInformation(at: responder) }
            if shape.leafHasMarker { marker(leafMarker) }
        }
    }

    private static func certificate(
        serial: Int, subject: DistinguishedName, key: Certificate.PublicKey, validity: ClosedRange<Instant>,
        issuer: DistinguishedName, issuerKey: P384.Signing.PrivateKey,
        @ExtensionsBuilder extensions: () throws -> Result<Certificate.Extensions, any Error>
    ) throws -> Certificate {
        try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(serial), publicKey: key,
            notValidBefore: Date(validity.lowerBound), notValidAfter: Date(validity.upperBound), issuer: issuer,
            subject: subject, signatureAlgorithm: .ecdsaWithSHA384,
            extensions: try Certificate.Extensions(builder: extensions),
            issuerPrivateKey: Certificate.PrivateKey(issuerKey))
    }

    /// The value of Apple's marker extensions is an ASN.1 NULL.
    private static func marker(_ oid: ASN1ObjectIdentifier) -> Certificate.Extension {
        Certificate.Extension(oid: oid, critical: false, value: [0x05, 0x00])
    }

    private static func revocationInformation(at address: String) -> AuthorityInformationAccess {
        AuthorityInformationAccess([
            .init(method: .ocspServer, location: .uniformResourceIdentifier(address))
        ])
    }
}

extension Date {
    fileprivate init(_ instant: Instant) {
        self.init(timeIntervalSince1970: Double(instant.milliseconds) / 1000)
    }
}
