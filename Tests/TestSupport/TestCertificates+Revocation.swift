import Crypto
import Simulation
import SwiftASN1
import X509

extension TestCertificates {
    private struct Issuer: RevocationSigner {
        // ecdsa-with-SHA384
        let signatureAlgorithm: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 3]
        let certificate: Certificate
        let key: P384.Signing.PrivateKey

        func signature(for bytes: [UInt8]) throws -> [UInt8] {
            Array(try key.signature(for: bytes).derRepresentation)
        }
    }

    package enum Part: Sendable, CaseIterable {
        case leaf
        case intermediate
    }

    /// Issues the certificate, and signs OCSP responses about it.
    package func issuer(of part: Part) -> any RevocationSigner {
        switch part {
        case .leaf: Issuer(certificate: intermediate, key: intermediateKey)
        case .intermediate: Issuer(certificate: root, key: rootKey)
        }
    }

    /// The certificate that an OCSP request is about.
    package func part(in request: [UInt8]) throws -> Part {
        // The serial number is the last member of a CertID.
        let serial = try RevocationAnswer.Request(request).certID.last
        return serial == leaf.serialNumber.bytes.last ? .leaf : .intermediate
    }
}
