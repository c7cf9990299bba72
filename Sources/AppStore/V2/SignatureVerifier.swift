import Crypto
import Encoding
import Synchronization

/// Proves that a JWS was signed under a trusted root. Remembers the chains that it has checked, so that another JWS of
/// the same chain costs one signature.
package final class SignatureVerifier: Sendable {
    private let roots: RootCertificates
    private let known: Mutex<KnownChains>

    /// Apple has one chain in use at a time, and another while it changes over.
    package static let knownChainsMax = 64

    package init(roots: RootCertificates, knownChainsMax: Int = SignatureVerifier.knownChainsMax) {
        self.roots = roots
        known = Mutex(KnownChains(max: knownChainsMax))
    }

    /// The chains that are remembered, the least recently used one first.
    package var knownChains: [ChainID] { known.withLock { $0.entries.map(\.chain.certificates.id) } }

    /// Verifies everything that is signed in a notification, each on its own: an envelope of Apple's proves nothing of
    /// what somebody put inside.
    ///
    /// - Parameter fallback: The reference time of what says of itself no time of signing.
    /// - Returns: The chains behind the signatures, that of the notification first.
    package func verify(
        _ notification: V2Notification, fallback: Instant
    ) async throws(Refusal) -> [VerifiedChain] {
        var chains: [VerifiedChain] = []
        for (part, jws) in notification.parts {
            chains.append(try await verify(SignedObject(jws, as: part), fallback: fallback))
        }
        return chains
    }

    /// As `verify(_:fallback:)` of a notification, for something that was signed by itself.
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
            // What is wrong first should be told first.
            _ = try JWSHeader(jws.header)
            throw .signatureForm
        }
        let chain = try await chain(jws, signature, at: jws.signedDate ?? fallback)
        known.withLock { $0.use(chain, header: jws.header) }
        return chain
    }

    /// The chain with which the signature was verified.
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
        // One signature costs a small part of what a path costs, so a forged text is refused before the path is built.
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
