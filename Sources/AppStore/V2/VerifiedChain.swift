import Crypto
import Encoding
import Foundation
import SwiftASN1
@_spi(FixedExpiryValidationTime) import X509

/// A decoded leaf certificate and its key. Not verified, so it must not be trusted.
struct ClaimedLeaf {
    let certificate: Certificate
    let key: P256.Signing.PublicKey

    init(_ header: JWSHeader) throws(VerificationFailure) {
        guard let certificate = try? Certificate(derEncoded: header.certificates[0]) else { throw .certificate }
        guard let key = P256.Signing.PublicKey(certificate.publicKey) else { throw .key }
        self.certificate = certificate
        self.key = key
    }
}

/// A certificate chain that was verified to lead from a signing key to a trusted root.
///
/// A class, because chains are passed along with every notification and copying three certificates is expensive.
package final class VerifiedChain: Sendable {
    package let certificates: CertificateChain
    /// The leaf's key.
    let key: P256.Signing.PublicKey
    /// From the first to the last instant at which all three certificates are valid.
    let validity: ClosedRange<Instant>
    /// True if only leaf and intermediate were sent.
    package let isShort: Bool

    private static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]
    private static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 1]

    /// Builds the path to a trusted root and verifies it, as of an instant.
    init(
        _ claimed: ClaimedLeaf, _ header: JWSHeader, roots: RootCertificates, at instant: Instant
    ) async throws(VerificationFailure) {
        let leaf = claimed.certificate
        guard let intermediate = try? Certificate(derEncoded: header.certificates[1]) else { throw .certificate }
        let path = await Self.path(from: leaf, over: intermediate, to: roots, at: instant)
        guard let path else {
            for certificate in [leaf, intermediate] {
                let validity = Self.validity(of: [certificate])
                if instant < validity.lowerBound { throw .notYetValid }
                if instant > validity.upperBound { throw .expired }
            }
            throw .untrusted
        }
        guard path.intermediate.extensions[oid: Self.intermediateMarker] != nil else { throw .intermediateMarker }
        guard path.leaf.extensions[oid: Self.leafMarker] != nil else { throw .leafMarker }
        key = claimed.key
        validity = Self.validity(of: [path.leaf, path.intermediate, path.root])
        isShort = header.isShort
        certificates = CertificateChain(
            id: header.chainId, leaf: path.leaf, intermediate: path.intermediate, root: path.root,
            validationTime: Date(instant))
    }

    /// Returns the valid path; nil unless it is exactly leaf, intermediate and a trusted root.
    private static func path(
        from leaf: Certificate, over intermediate: Certificate, to roots: RootCertificates, at instant: Instant
    ) async -> (leaf: Certificate, intermediate: Certificate, root: Certificate)? {
        var verifier = Verifier(rootCertificates: CertificateStore(roots.certificates)) {
            RFC5280Policy(fixedExpiryValidationTime: Date(instant))
        }
        let result = await verifier.validate(leaf: leaf, intermediates: CertificateStore([intermediate]))
        guard case .validCertificate(let chain) = result, chain.count == 3, chain[0] == leaf,
            chain[1] == intermediate
        else { return nil }
        return (chain[0], chain[1], chain[2])
    }

    private static func validity(of certificates: [Certificate]) -> ClosedRange<Instant> {
        let start = certificates.map { Instant(flooring: $0.notValidBefore) }.max() ?? .earliest
        let end = certificates.map { Instant(flooring: $0.notValidAfter) }.min() ?? .latest
        return start...max(start, end)
    }
}

extension Date {
    fileprivate init(_ instant: Instant) {
        self.init(timeIntervalSince1970: Double(instant.milliseconds) / 1000)
    }
}

extension Instant {
    /// The date truncated to milliseconds and clamped to 1970...9999.
    fileprivate init(flooring date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded(.down)
        self = Instant.earliest.advanced(byMilliseconds: Int64(max(0, min(milliseconds, 1e15))))
    }
}
