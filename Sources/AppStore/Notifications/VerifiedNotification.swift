import Crypto
import Encoding
import Subscriptions

/// A notification whose origin was verified. Created only by ``NotificationVerifier`` and ``Apps``.
package struct VerifiedNotification: ProvenEvent {
    package let stream: StreamKey
    package let event: Event
    package let evidence: Evidence
    package let bodyDigest: [UInt8]
    package let chain: SigningChain?
    package let hasShortChain: Bool

    fileprivate init(
        app: String, event: Event, evidence: Evidence, bodyDigest: [UInt8], chain: SigningChain?, hasShortChain: Bool
    ) {
        self.stream = StreamKey(app: app, environment: event.environment)
        self.event = event
        self.evidence = evidence
        self.bodyDigest = bodyDigest
        self.chain = chain
        self.hasShortChain = hasShortChain
    }
}

/// A signed notification of an app that is not configured. Created only by ``NotificationVerifier``.
package struct UnconfiguredNotification: QuarantinedEvent {
    package let app: String
    package let environment: Environment
    package let evidence: Evidence
    package let bodyDigest: [UInt8]

    fileprivate init(app: String, environment: Environment, evidence: Evidence) {
        self.app = app
        self.environment = environment
        self.evidence = evidence
        bodyDigest = evidence.digest
    }
}

extension Evidence {
    /// SHA-256 of the bytes.
    var digest: [UInt8] {
        var hasher = SHA256()
        for slice in slices { hasher.update(data: slice) }
        return Array(hasher.finalize())
    }
}

/// Verifies that a body is a notification from Apple about a configured app.
package struct NotificationVerifier: Sendable {
    let apps: Apps
    let signatures: SignatureVerifier
    private let revocation: RevocationChecker?

    /// - Parameter revocation: Nil to disable revocation checks.
    package init(apps: Apps, signatures: SignatureVerifier, revocation: RevocationChecker? = nil) {
        self.apps = apps
        self.signatures = signatures
        self.revocation = revocation
    }

    /// What a body from Apple is.
    package enum Examined: Sendable {
        case verified(VerifiedNotification)
        /// Signed by Apple, about an app that is not configured.
        case unconfigured(UnconfiguredNotification)
    }

    /// Verifies a notification of a configured app.
    ///
    /// - Parameter receivedAt: Our clock.
    package func verify(_ body: [UInt8], receivedAt: Instant) async throws(Refusal) -> VerifiedNotification {
        switch try await examine(body, receivedAt: receivedAt) {
        case .verified(let notification): return notification
        case .unconfigured: throw .appUnknown
        }
    }

    /// Verifies a notification of any app. Only signed notifications can be of an app that is not configured.
    ///
    /// - Parameter receivedAt: Our clock.
    package func examine(_ body: [UInt8], receivedAt: Instant) async throws(Refusal) -> Examined {
        switch try decode(body) {
        case .v1(let notification): return .verified(try apps.verify(notification, receivedAt: receivedAt))
        case .v2(let notification): return try await examine(notification, receivedAt: receivedAt)
        }
    }

    /// Verifies a notification that Apple's notification history has, like one that was posted.
    ///
    /// - Parameter receivedAt: Our clock.
    package func verify(fetched body: [UInt8], receivedAt: Instant) async throws(Refusal) -> VerifiedNotification {
        guard case .v2(let notification) = try decode(body) else { throw .undecodable(.notANotification) }
        switch try await examine(notification, receivedAt: receivedAt, source: .appleHistory) {
        case .verified(let notification): return notification
        case .unconfigured: throw .appUnknown
        }
    }

    private func decode(_ body: [UInt8]) throws(Refusal) -> AppleNotification {
        do throws(UndecodableBody) {
            return try AppleNotification(decoding: body)
        } catch {
            throw .undecodable(error)
        }
    }

    private func examine(
        _ notification: V2Notification, receivedAt: Instant, source: EventSource = .appleV2
    ) async throws(Refusal) -> Examined {
        // Local data is not signed by Apple. It is accepted if the app is configured for that environment.
        let isLocal = notification.claim.environment?.isLocal == true
        let chains = isLocal ? [] : try await signatures.verify(notification, fallback: receivedAt)
        guard let bundleId = notification.claim.bundleId else { throw .appMissing }
        guard let app = apps.app(bundleId) else {
            guard !isLocal else { throw .appUnknown }
            _ = try await signingChain(of: notification, chains)
            return .unconfigured(
                UnconfiguredNotification(
                    app: bundleId, environment: notification.claim.environment ?? .unknown,
                    evidence: notification.evidence))
        }
        try AppExpectation(app).check(notification)
        let signingChain = try await signingChain(of: notification, chains)
        let evidence = notification.evidence
        return .verified(
            VerifiedNotification(
                app: bundleId, event: notification.event(source: source), evidence: evidence,
                bodyDigest: evidence.digest,
                chain: signingChain, hasShortChain: chains.contains(where: \.isShort)))
    }

    /// The chain of the notification's own signature. Checks the chains of all signatures for revocation.
    private func signingChain(
        of notification: V2Notification, _ chains: [VerifiedChain]
    ) async throws(Refusal) -> SigningChain? {
        var signingChain: SigningChain?
        for (part, chain) in zip(notification.parts, chains) {
            let revocation = try await revocation(of: chain.certificates, part.part)
            signingChain = signingChain ?? SigningChain(id: chain.certificates.id.sha256, revocation: revocation)
        }
        return signingChain
    }

    func revocation(
        of chain: CertificateChain, _ part: V2Notification.Part
    ) async throws(Refusal) -> SigningChain.Revocation {
        guard let revocation, revocation.mode != .off else { return .off }
        let verdict =
            revocation.mode == .required ? await revocation.verdict(of: chain) : revocation.knownVerdict(of: chain)
        switch verdict {
        case .good: return .good
        case .revoked: throw .unverified(.revoked, part)
        case .unknown where revocation.mode == .required: throw .unverified(.revocationUnknown, part)
        case .unknown: return .unknown
        case nil: return .pending
        }
    }
}

extension Apps {
    /// Verifies by the shared secret that a notification is of a configured app, and removes the secret from the body.
    ///
    /// The app is the one that the body names; if it names none, the only app with its secret.
    package func verify(
        _ notification: V1Notification, receivedAt: Instant
    ) throws(Refusal) -> VerifiedNotification {
        let app = try app(of: notification)
        let (evidence, mayDiffer) = notification.withoutSecret()
        // The event is decoded from the stored body: otherwise a secret in an unexpected place could reach the facts.
        let stored = mayDiffer ? try Self.decode(withoutSecret: evidence.bytes) : notification
        let bodyDigest = evidence.digest
        let event = stored.event(receivedAt: receivedAt, bodyDigest: bodyDigest)
        guard event.environment == .unknown || app.environments.contains(event.environment) else {
            throw .environmentRefused(app: app.bundleId)
        }
        return VerifiedNotification(
            app: app.bundleId, event: event, evidence: evidence, bodyDigest: bodyDigest, chain: nil,
            hasShortChain: false)
    }

    /// Throws if the body without the secret is not a notification, for example because the secret equals a required
    /// key. Such a body cannot be stored.
    private static func decode(withoutSecret body: [UInt8]) throws(Refusal) -> V1Notification {
        do throws(UndecodableBody) {
            guard case .v1(let stored) = try AppleNotification(decoding: body) else { throw .notANotification }
            return stored
        } catch {
            throw .undecodable(error)
        }
    }

    /// Reveals whether an app is configured only to senders that know a configured secret.
    private func app(of notification: V1Notification) throws(Refusal) -> App {
        let name = notification.bundleId
        let named = name.flatMap { app($0) }
        guard let secret = notification.password else {
            guard let named, named.acceptsWithoutSecret else { throw .secretMissing }
            return named
        }
        let owners = apps(withSecret: secret)
        guard let owner = owners.first else { throw .secretWrong(app: named?.bundleId) }
        if name != nil {
            guard let named else { throw .appUnknown }
            guard owners.contains(named) else { throw .secretWrong(app: named.bundleId) }
            return named
        }
        guard owners.count == 1 else { throw .appAmbiguous }
        return owner
    }
}
