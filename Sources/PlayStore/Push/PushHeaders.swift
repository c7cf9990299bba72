/// The headers that carry what surrounds a message, if the push subscription has "unwrap payload" with "write metadata".
package struct PushHeaders: Sendable, Hashable {
    /// `x-goog-pubsub-message-id`
    package var messageId: String?
    /// `x-goog-pubsub-publish-time`
    package var publishTime: String?
    /// `x-goog-pubsub-subscription-name`
    package var subscription: String?

    package init(messageId: String? = nil, publishTime: String? = nil, subscription: String? = nil) {
        self.messageId = messageId
        self.publishTime = publishTime
        self.subscription = subscription
    }

    package static let none = PushHeaders()
}
