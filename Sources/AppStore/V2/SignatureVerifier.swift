import Crypto
import Glibc
import Subscriptions
import Synchronization

/// Proves that a JWS was signed under a trusted root. Remembers the chains that it has checked, so that another JWS of
/// the same chain costs one signature.
package final class SignatureVerifier: Sendable {
    private let roots: RootCertificates
    /// By the header's text, in the order of their arrival.
    private let known = Mutex<[(header: [UInt8], chain: VerifiedChain)]>([])

    /// Apple has one chain in use at a time, and another while it changes over.
    private static let knownChainsMax = 64

    package init(roots: RootCertificates) {
        self.roots = roots
    }

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
        let chain = try await chain(jws.header, at: jws.signedDate ?? fallback)
        guard chain.key.isValidSignature(signature, for: jws.signedText) else { throw .signature }
        return chain
    }

    private func chain(
        _ header: ArraySlice<UInt8>, at instant: Instant
    ) async throws(VerificationFailure) -> VerifiedChain {
        if let chain = known.withLock({ known in known.last { isEqual($0.header, header) }?.chain }) {
            if instant < chain.validity.lowerBound { throw .notYetValid }
            if instant > chain.validity.upperBound { throw .expired }
            return chain
        }
        let chain = try await VerifiedChain(JWSHeader(header), roots: roots, at: instant)
        known.withLock { known in
            guard !known.contains(where: { isEqual($0.header, header) }) else { return }
            if known.count == Self.knownChainsMax { known.removeFirst() }
            known.append((Array(header), chain))
        }
        return chain
    }
}

private func isEqual(_ left: [UInt8], _ right: ArraySlice<UInt8>) -> Bool {
    guard left.count == right.count else { return false }
    return left.withUnsafeBytes { left in
        right.withUnsafeBytes { right in
            guard let start = left.baseAddress, let other = right.baseAddress else { return true }
            return memcmp(start, other, left.count) == 0
        }
    }
}
