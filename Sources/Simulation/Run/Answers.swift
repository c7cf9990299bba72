import Encoding

/// The expected answer to whether a subscription gives access at an instant.
package struct Answer: Sendable, Hashable {
    package let originalTransactionId: String
    package let at: Instant
    package let active: Bool
    package let story: Story
    /// A notification about the subscription is never delivered, and no other source contains its facts.
    package let isIncomplete: Bool
}

extension Simulation {
    /// The expected answers, subscription by subscription.
    package var answers: some Sequence<Answer> & Sendable {
        (0..<settings.subscriptions).lazy.flatMap { answers(ofStory: $0) }
    }

    /// The expected answers about one story, counted from 0. At most twelve instants per subscription: at, just before
    /// and just after each boundary of access, and between boundaries.
    package func answers(ofStory index: Int) -> [Answer] {
        let rendered = storyteller.story(at: index)
        return rendered.subscriptions.enumerated().flatMap { number, subscription in
            let isIncomplete = isIncomplete(story: index, subscription: number)
            var random = SplitMix64(seed: settings.seed, UInt64(index), UInt64(number), .max)
            return subscription.queryInstants(in: settings.window, &random).map { instant in
                Answer(
                    originalTransactionId: subscription.originalTransactionId, at: instant,
                    active: subscription.access.isActive(at: instant), story: rendered.story,
                    isIncomplete: isIncomplete)
            }
        }
    }

    /// Whether a server cannot know the access of the subscription, because of lost notifications.
    func isIncomplete(story index: Int, subscription: Int) -> Bool {
        plan.incomplete.contains(DeliveryPlan.SubscriptionKey(index: UInt32(index), subscription: UInt8(subscription)))
    }

    /// Whether a notification about the subscription is never delivered.
    func isLossy(story index: Int, subscription: Int) -> Bool {
        plan.lossy.contains(DeliveryPlan.SubscriptionKey(index: UInt32(index), subscription: UInt8(subscription)))
    }
}

extension SimulatedSubscription {
    private static let instantsMax = 12

    fileprivate func queryInstants(in window: StoryWindow, _ random: inout SplitMix64) -> [Instant] {
        let boundaries = access.boundaries.filter { $0 < .latest }.sorted()
        var instants = Instant.questions(around: boundaries, in: window)
        if instants.isEmpty, let first = notifications.first { instants = [first.signedDate] }
        return Set(instants).sorted().shuffled(using: &random).prefix(Self.instantsMax).sorted()
    }
}
