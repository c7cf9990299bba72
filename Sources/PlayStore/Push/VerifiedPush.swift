import Crypto
import Encoding
import Subscriptions

/// A genuine push about a configured app. Created only by ``PushVerifier``.
///
/// Its stream is the app's of environment ``Subscriptions/Environment/unknown``.
package struct VerifiedPush: ProvenEvent {
    package let stream: StreamKey
    package let event: Event
    package let evidence: Evidence
    package let bodyDigest: [UInt8]
    /// The identity token proves the sender at the time of receipt, and is not stored.
    package let chain: SigningChain? = nil
    /// False if the app accepts pushes without an identity token: anyone may have sent it.
    package let isAuthenticated: Bool
    /// See ``PushMessage/deliveryAttempt``.
    package let deliveryAttempt: Int?
    /// What to ask about; nil if the push is malformed or ambiguous, or asks for nothing.
    package let notification: DeveloperNotification?

    fileprivate init(_ message: PushMessage, of app: PlayApp) {
        stream = StreamKey(app: app.packageName, environment: .unknown)
        isAuthenticated = app.pushAuthentication != .none
        event = message.event()
        evidence = message.evidence
        bodyDigest = message.evidence.sha256
        deliveryAttempt = message.deliveryAttempt
        notification = message.isAmbiguous ? nil : message.notification
    }
}

extension Evidence {
    /// SHA-256 of the bytes.
    var sha256: [UInt8] {
        var hasher = SHA256()
        for slice in slices { hasher.update(data: slice) }
        return Array(hasher.finalize())
    }
}

/// Verifies that a push is Google's and about a configured app.
package struct PushVerifier: Sendable {
    private let apps: [PlayApp]

    package init(apps: [PlayApp]) {
        // In an order of their own, so that it decides nothing in which order they are configured.
        self.apps = apps.sorted { $0.packageName < $1.packageName }
    }

    /// - Parameters:
    ///   - authorization: The value of the header `Authorization`.
    ///   - keys: Google's keys as far as they are known. See ``PushRefusal/keyUnknown``.
    ///   - now: Our clock.
    package func verify(
        _ message: PushMessage, authorization: String?, keys: JSONWebKeySet, now: Instant
    ) throws(PushRefusal) -> VerifiedPush {
        let named = message.packageName.flatMap { name in apps.first { $0.packageName == name } }
        if let named {
            try Self.authenticate(message, as: named, authorization, keys, now)
            return VerifiedPush(message, of: named)
        }
        // The sender of a push about another app, or about none that can be read, must be one of a configured app.
        var refusal = PushRefusal.appUnknown
        for app in apps where app.pushAuthentication != .none || message.packageName == nil {
            do throws(PushRefusal) {
                try Self.authenticate(message, as: app, authorization, keys, now)
            } catch {
                refusal = error
                continue
            }
            guard message.packageName == nil else { throw .appUnknown }
            return VerifiedPush(message, of: app)
        }
        throw refusal
    }

    private static func authenticate(
        _ message: PushMessage, as app: PlayApp, _ authorization: String?, _ keys: JSONWebKeySet, _ now: Instant
    ) throws(PushRefusal) {
        if case .identity(let audience, let email) = app.pushAuthentication {
            guard let token = IdentityToken.text(ofAuthorization: authorization) else { throw .tokenMissing }
            try authenticate(token, audience: audience, email: email, keys, now)
        }
        if let expected = app.pushSubscription, message.subscription != expected { throw .subscriptionWrong }
    }

    private static func authenticate(
        _ text: String, audience: String, email: String, _ keys: JSONWebKeySet, _ now: Instant
    ) throws(PushRefusal) {
        let token: IdentityToken
        do throws(IdentityTokenFailure) {
            token = try IdentityToken(text)
        } catch {
            throw .tokenInvalid(error)
        }
        guard let key = keys.key(token.keyId) else { throw .keyUnknown }
        do throws(IdentityTokenFailure) {
            try token.verify(with: key, audience: audience, email: email, now: now)
        } catch {
            throw .tokenInvalid(error)
        }
    }
}
