import Encoding

/// How the simulated Google Play pushes its messages: a Pub/Sub push subscription.
package struct PlaySending: Sendable {
    /// A request to the app's server.
    package struct Request: Sendable {
        package let headers: [(name: String, value: String)]
        package let body: [UInt8]
    }

    /// When a message is sent again after a failure of its own.
    package enum Retry: Sendable, Hashable {
        case immediately
        /// After 10 s, then twice as long each time, up to 600 s.
        case exponential
    }

    /// Posts a request, and returns the HTTP status; nil if there was no answer in ten seconds.
    package let post: @Sendable (Request) async -> Int?
    /// The `aud` of push tokens.
    package var audience: String
    /// The service account of the push subscription.
    package var email = "push@simulated-project.iam.gserviceaccount.com"
    /// `projects/{project}/subscriptions/{name}`.
    package var subscription = "projects/simulated-project/subscriptions/play"
    /// A subscription without authentication sends no token.
    package var isAuthenticated = true
    /// Nil for each spelling in turn.
    package var spelling: PlayPush.Spelling?
    package var wrapping = PlayPush.Wrapping.wrapped
    /// Only then pushes state the number of the attempt.
    package var hasDeadLetterTopic = false
    package var retry = Retry.exponential
    /// The fraction of messages that never arrive, 0 to 1.
    package var lose = 0.0
    /// The fraction of messages that arrive twice though they were acknowledged, 0 to 1.
    package var duplicate = 0.0
    /// Up to how much later a message arrives, in any order.
    package var delayMax = Duration.zero
    /// The fraction of messages with a forged copy, 0 to 1. It must be refused.
    package var forged = 0.0
    /// The fraction of messages with a genuine push of damaged data beside them, 0 to 1.
    package var malformed = 0.0
    package var connections = 8

    package init(audience: String, post: @escaping @Sendable (Request) async -> Int?) {
        self.audience = audience
        self.post = post
    }

    /// The statuses that acknowledge a push.
    package static let acknowledging: Set<Int> = [102, 200, 201, 202, 204]
}

/// A push of a message, with its answer.
package struct PlayDelivery: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case message
        case duplicate
        case malformed
        case forged(OIDCToken.Defect)
    }

    package let messageId: String
    /// Empty for a message that names none.
    package let purchaseToken: String
    package let kind: Kind
    /// On the store's clock.
    package let at: Instant
    /// Starts at 1.
    package let attempt: Int
    /// Nil if there was no answer.
    package let status: Int?

    package var isAcknowledged: Bool { status.map { PlaySending.acknowledging.contains($0) } ?? false }

    /// `{"messageId":…,"kind":…,"at":…,"attempt":…,"status":…}`
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("messageId", messageId)
            switch kind {
            case .message: writer.member("kind", "message")
            case .duplicate: writer.member("kind", "duplicate")
            case .malformed: writer.member("kind", "malformed")
            case .forged(let defect): writer.member("kind", "forged_\(defect.rawValue)")
            }
            writer.member("at", at)
            writer.member("attempt", attempt)
            writer.member("status", status)
        }
    }
}
