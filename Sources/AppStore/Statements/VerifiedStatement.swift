import Encoding
import Subscriptions

/// Signed data of a device whose origin was verified. Created only by ``NotificationVerifier``.
package struct VerifiedStatement: ProvenEvent {
    package let stream: StreamKey
    package let event: Event
    package let evidence: Evidence
    package let bodyDigest: [UInt8]
    package let chain: SigningChain?
    package let hasShortChain: Bool

    fileprivate init(_ statement: SignedStatement, app: String, chain: SigningChain?, hasShortChain: Bool) {
        event = statement.event()
        stream = StreamKey(app: app, environment: event.environment)
        evidence = statement.evidence
        bodyDigest = evidence.digest
        self.chain = chain
        self.hasShortChain = hasShortChain
    }
}

extension NotificationVerifier {
    /// Verifies signed data of a device like a notification: the same roots, revocation checks, apps and environments.
    ///
    /// - Parameters:
    ///   - app: The bundle id that the data must name.
    ///   - receivedAt: Our clock.
    package func verify(
        _ statement: SignedStatement, of app: String, receivedAt: Instant
    ) async throws(StatementRefusal) -> VerifiedStatement {
        // Local data is not signed by Apple. It is accepted if the app is configured for that environment.
        let isLocal = statement.environment?.isLocal == true
        let chains = isLocal ? [] : try await signatures.verify(statement, fallback: receivedAt)
        guard let configured = apps.app(app) else { throw statement.refusal(.appUnknown) }
        try AppExpectation(configured).check(statement)
        var signingChain: SigningChain?
        for (part, chain) in zip(statement.parts, chains) {
            do throws(Refusal) {
                let revocation = try await revocation(of: chain.certificates, part.part.ofNotification)
                signingChain = signingChain ?? SigningChain(id: chain.certificates.id.sha256, revocation: revocation)
            } catch {
                throw statement.refusal(of: part.part, error)
            }
        }
        return VerifiedStatement(
            statement, app: app, chain: signingChain, hasShortChain: chains.contains(where: \.isShort))
    }
}

extension SignatureVerifier {
    /// Verifies every signed part separately, as it does for notifications.
    ///
    /// - Returns: The chains of the signatures, in the order of the parts.
    package func verify(
        _ statement: SignedStatement, fallback: Instant
    ) async throws(StatementRefusal) -> [VerifiedChain] {
        var chains: [VerifiedChain] = []
        for (part, jws) in statement.parts {
            do throws(Refusal) {
                chains.append(try await verify(SignedObject(jws, as: part.ofNotification), fallback: fallback))
            } catch {
                throw statement.refusal(of: part, error)
            }
        }
        return chains
    }
}

extension AppExpectation {
    /// Checks the app and the environment of each part.
    ///
    /// The App Store Server API answers about the app whose key asks, also about old purchases that name no app.
    package func check(_ statement: SignedStatement) throws(StatementRefusal) {
        for (part, jws) in statement.parts {
            var claim = AppClaim(jws.payload.root)
            if statement.source == .appleAPI, part == .transaction { claim.bundleId = claim.bundleId ?? bundleId }
            do throws(Refusal) {
                try check(claim, part.ofNotification)
            } catch {
                throw statement.refusal(of: part, error)
            }
        }
    }
}

extension SignedStatement.Part {
    /// The part of a notification that has the same content.
    fileprivate var ofNotification: V2Notification.Part {
        switch self {
        case .transaction: .transaction
        case .renewal: .renewal
        case .appTransaction: .appTransaction
        }
    }
}
