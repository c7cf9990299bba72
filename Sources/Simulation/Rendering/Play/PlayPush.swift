import Encoding

/// The request of a Pub/Sub push subscription that delivers a message.
package struct PlayPush: Sendable {
    /// The spelling of members that Pub/Sub has in two.
    package enum Spelling: Sendable, CaseIterable {
        case camel, snake, both
    }

    package enum Wrapping: Sendable, Hashable {
        /// In an envelope, the message in base64.
        case wrapped
        /// The message alone, and its ids in headers if these are switched on.
        case unwrapped(writesMetadata: Bool)
    }

    package var spelling = Spelling.both
    package var wrapping = Wrapping.wrapped
    /// `projects/{project}/subscriptions/{name}`.
    package var subscription: String
    /// Set only for a subscription with a dead-letter topic.
    package var deliveryAttempt: Int?

    package init(subscription: String) {
        self.subscription = subscription
    }

    /// The body that delivers a message.
    package func body(_ message: PlayMessage, _ rendering: PlayRendering) -> [UInt8] {
        body(data: message.notification(rendering), messageId: message.messageId, publishTime: message.publishTime)
    }

    /// - Parameter data: Any bytes, which need not be a notification.
    package func body(data: [UInt8], messageId: String, publishTime: Instant) -> [UInt8] {
        guard wrapping == .wrapped else { return data }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("message")
            writer.object { writer in
                writer.member("data", Base64.text(data))
                if spelling != .snake {
                    writer.member("messageId", messageId)
                    writer.member("publishTime", publishTime)
                }
                if spelling != .camel {
                    writer.member("message_id", messageId)
                    writer.member("publish_time", publishTime)
                }
            }
            writer.member("subscription", subscription)
            writer.member("deliveryAttempt", deliveryAttempt)
        }
        return writer.bytes
    }

    /// The headers of an unwrapped message.
    package func headers(_ message: PlayMessage) -> [(name: String, value: String)] {
        guard wrapping == .unwrapped(writesMetadata: true) else { return [] }
        return [
            ("x-goog-pubsub-message-id", message.messageId),
            ("x-goog-pubsub-publish-time", message.publishTime.description),
            ("x-goog-pubsub-subscription-name", subscription),
        ]
    }
}
