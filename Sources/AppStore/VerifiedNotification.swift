import Subscriptions

/// A notification whose origin was checked. Only ``Apps/verify(_:receivedAt:)`` makes one.
package struct VerifiedNotification: ProvenEvent {
    package let stream: StreamKey
    package let event: Event
    package let body: [UInt8]

    fileprivate init(stream: StreamKey, event: Event, body: [UInt8]) {
        self.stream = stream
        self.event = event
        self.body = body
    }
}

/// Why a body was not taken. The description may be read by the sender and says nothing that it did not send.
package enum Refusal: Error, Hashable, CustomStringConvertible {
    case undecodable(UndecodableBody)
    case secretMissing
    /// With the configured app that the body names, if it names one.
    case secretWrong(app: String?)
    /// Heals when the operator configures the app.
    case appUnknown
    /// Heals when each app has a secret of its own.
    case appAmbiguous

    package var description: String {
        switch self {
        case .undecodable(let body): body.description
        case .secretMissing: "the body carries no shared secret (password)"
        case .secretWrong: "the shared secret (password) is not the one of this app"
        case .appUnknown: "the app (bid) is not configured here"
        case .appAmbiguous: "the body names no app (bid), and several apps have its shared secret"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .undecodable(.notJSON): "not_json"
        case .undecodable(.notAnObject): "not_an_object"
        case .undecodable(.notANotification): "not_a_notification"
        case .undecodable(.signed): "signed_not_supported"
        case .secretMissing: "secret_missing"
        case .secretWrong: "secret_wrong"
        case .appUnknown: "app_unknown"
        case .appAmbiguous: "app_ambiguous"
        }
    }
}

extension Apps {
    /// Decodes a body, proves by the shared secret that it is of a configured app, and cuts the secret out.
    ///
    /// The app is the one that the body names; bodies that name none are told by their secret.
    package func verify(_ body: [UInt8], receivedAt: Instant) throws(Refusal) -> VerifiedNotification {
        let notification: V1Notification
        do throws(UndecodableBody) {
            notification = try V1Notification(decoding: body)
        } catch {
            throw .undecodable(error)
        }
        let app = try app(of: notification)
        let (body, mayDiffer) = notification.withoutSecret()
        // The event is that of the stored body, or a secret in an odd place could reach the facts.
        let stored = mayDiffer ? try? V1Notification(decoding: body) : nil
        let event = (stored ?? notification).event(receivedAt: receivedAt)
        return VerifiedNotification(
            stream: StreamKey(app: app, environment: event.environment), event: event, body: body)
    }

    private func app(of notification: V1Notification) throws(Refusal) -> String {
        guard let secret = notification.password else {
            guard let named = notification.bundleId, acceptsWithoutSecret(named) else { throw .secretMissing }
            return named
        }
        let owners = bundleIds(withSecret: secret)
        if let named = notification.bundleId {
            guard isConfigured(named) else { throw .appUnknown }
            guard owners.contains(named) else { throw .secretWrong(app: named) }
            return named
        }
        guard let owner = owners.first else { throw .secretWrong(app: nil) }
        guard owners.count == 1 else { throw .appAmbiguous }
        return owner
    }
}
