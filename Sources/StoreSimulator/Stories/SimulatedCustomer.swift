import Encoding

/// A customer at the end of a story. No two customers of a run share an id.
package struct SimulatedCustomer: Sendable, Hashable {
    /// Which of the ids of its subscriptions identify the customer.
    package enum Identity: Sendable, Hashable {
        case allIds
        /// The subscriptions have several app users, one after the other. Their other ids lead to the one of the time.
        case allButTokens
        /// One of several app users, who owns the subscriptions in an interval.
        case token(String, owns: Range<Instant>)
    }

    /// The numbers of the customer's subscriptions in the story.
    package let subscriptions: [Int]
    /// A backend's ids of the customer.
    package let backendIds: [String]
    package let identity: Identity

    package init(subscriptions: [Int], backendIds: [String] = [], identity: Identity = .allIds) {
        self.subscriptions = subscriptions
        self.backendIds = backendIds
        self.identity = identity
    }

    /// The interval in which the customer owns its subscriptions.
    package var owns: Range<Instant> {
        if case .token(_, let owns) = identity { owns } else { Instant.earliest..<Instant.latest }
    }
}
