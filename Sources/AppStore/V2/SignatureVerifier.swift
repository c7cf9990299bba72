import Crypto
import Encoding
import Synchronization

/// Verifies that a JWS was signed with a certificate whose chain leads to a trusted root. Caches verified chains, so
/// that another JWS with the same chain costs only the verification of one signature.
package final class SignatureVerifier: Sendable {
    private let roots: RootCertificates
    private let known: Mutex<KnownChains>

    /// Apple uses one chain at a time, and two during a change of certificates.
    package static let knownChainsMax = 64

    package init(roots: RootCertificates, knownChainsMax: Int = SignatureVerifier.knownChainsMax) {
        self.roots = roots
        known = Mutex(KnownChains(max: knownChainsMax))
    }

    /// The cached chains, least recently used first.
    package var knownChains: [ChainID] { known.withLock { $0.entries.map(\.chain.certificates.id) } }

    /// A cached chain with its root; nil if no signature was verified with it, or it was evicted.
    package func knownChain(_ id: ChainID) -> CertificateChain? {
        known.withLock { $0.entries.last { $0.chain.certificates.id == id }?.chain.certificates }
    }

    /// Verifies every signed part of a notification separately: a valid signature of the notification proves nothing
    /// about the parts inside it.
    ///
    /// - Parameter fallback: The time at which the certificates must be valid, for parts without a time of signing.
    /// - Returns: The chains of the signatures, that of the notification first.
    package func verify(
        _ notification: V2Notification, fallback: Instant
    ) async throws(Refusal) -> [VerifiedChain] {
        var chains: [VerifiedChain] = []
        let fallback = notification.signedDate ?? fallback
        for (part, jws) in notification.parts {
            chains.append(try await verify(SignedObject(jws, as: part), fallback: fallback))
        }
        return chains
    }

    /// Verifies a signed object that is not part of a notification. See ``verify(_:fallback:)``.
    package func verify(_ object: SignedObject, fallback: Instant) async throws(Refusal) -> VerifiedChain {
        do throws(VerificationFailure) {
            return try await verify(object.jws, fallback: fallback)
        } catch {
            throw .unverified(error, object.part)
        }
    }

    private func verify(_ jws: JWS, fallback: Instant) async throws(VerificationFailure) -> VerifiedChain {
        guard jws.signature.count == 64,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: jws.signature)
        else {
            // Errors of the header come before errors of the signature, so throw them first.
            _ = try JWSHeader(jws.header)
            throw .signatureForm
        }
        let chain = try await chain(jws, signature, at: jws.signedDate ?? fallback)
        known.withLock { $0.use(chain, header: jws.header) }
        return chain
    }

    /// Verifies the signature and returns its chain.
    private func chain(
        _ jws: JWS, _ signature: P256.Signing.ECDSASignature, at instant: Instant
    ) async throws(VerificationFailure) -> VerifiedChain {
        if let chain = known.withLock({ $0.chain(header: jws.header) }) {
            return try check(jws, signature, with: chain, at: instant)
        }
        let header = try JWSHeader(jws.header)
        let id = header.chainId
        if let chain = known.withLock({ $0.chain(id, isShort: header.isShort) }) {
            return try check(jws, signature, with: chain, at: instant)
        }
        // Verifying a signature is much cheaper than validating a path, so forged texts are rejected before that.
        let leaf = try ClaimedLeaf(header)
        guard leaf.key.isValidSignature(signature, for: jws.signedText) else { throw .signature }
        return try await VerifiedChain(leaf, header, roots: roots, at: instant)
    }

    private func check(
        _ jws: JWS, _ signature: P256.Signing.ECDSASignature, with chain: VerifiedChain, at instant: Instant
    ) throws(VerificationFailure) -> VerifiedChain {
        if instant < chain.validity.lowerBound { throw .notYetValid }
        if instant > chain.validity.upperBound { throw .expired }
        guard chain.key.isValidSignature(signature, for: jws.signedText) else { throw .signature }
        return chain
    }
}
