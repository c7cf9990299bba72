import Foundation
import X509

/// Tells one chain from another: the SHA-256 of the SHA-256 digests of its leaf and intermediate.
package struct ChainID: Hashable, Sendable {
    package let sha256: [UInt8]

    package init(sha256: [UInt8]) {
        self.sha256 = sha256
    }
}

/// The certificates that a signed notification came with, its root being one of ours.
package final class CertificateChain: Sendable {
    package let id: ChainID
    package let leaf: Certificate
    package let intermediate: Certificate
    package let root: Certificate
    /// When the certificates have to be within their validity: the time of what they signed, not of its receipt.
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
}
