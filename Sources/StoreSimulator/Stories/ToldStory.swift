import Subscriptions

/// A story with all that is told of it, and the right answers about it.
package struct ToldStory: Sendable {
    package let story: Story
    package let lines: [ToldLine]
}

/// One line of a story.
package struct ToldLine: Sendable {
    package let customer: Customer
    /// In the order of their signing.
    package let tellings: [Telling]
    /// When the line gives access, by the storyteller's own book.
    package let access: AccessBook

    package init(_ life: SubscriptionLife) {
        customer = life.customer
        tellings = life.tellings
        access = life.access
    }

    package init(_ life: OneTimeLife) {
        customer = life.customer
        tellings = life.tellings
        access = life.access
    }

    package var originalTransactionId: String { tellings.first?.purchases.first?.transactionId ?? "" }

    /// The last instant at which something happens, not counting the end of what is owned for ever.
    var end: Instant {
        let boundaries = access.boundaries.filter { $0 < .latest }
        return max(boundaries.max() ?? .earliest, tellings.last?.signedDate ?? .earliest)
    }
}
