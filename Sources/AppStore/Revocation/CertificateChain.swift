import Foundation
import X509

/// Identifies a chain: the SHA-256 of the SHA-256 digests of its leaf and intermediate.
package struct ChainID: Hashable, Sendable {
    package let sha256: [UInt8]

    package init(sha256: [UInt8]) {
        self.sha256 = sha256
    }
}

/// The certificate chain of a signed notification, which ends at one of our root certificates.
package final class CertificateChain: Sendable {
    package let id: ChainID
    package let leaf: Certificate
    package let intermediate: Certificate
    package let root: Certificate
    /// The instant at which the certificates must be valid: the time of signing, not of receipt.
    package let validationTime: Date

    package init(
        id: ChainID, leaf: Certificate, intermediate: Certificate, root: Certificate, validationTime: Date
    ) {
        self.id = id
        self.leaf = leaf
        self.intermediate = intermediate
        self.root = root
        self.validationTime = validationTime
    }

    /// The certificates whose revocation is checked.
    package enum Part: String, Sendable, CaseIterable {
        case leaf
        case intermediate
    }

    func certificate(_ part: Part) -> (certificate: Certificate, issuer: Certificate) {
        switch part {
        case .leaf: (leaf, intermediate)
        case .intermediate: (intermediate, root)
        }
    }
}
