import Encoding

/// A story with its notifications, its link statements, and the data for the expected answers.
package struct RenderedStory: Sendable {
    package let story: Story
    package let subscriptions: [SimulatedSubscription]
    package let customers: [SimulatedCustomer]
    /// In the order of sending.
    package let statements: [SimulatedLinks]

    /// - Parameter customers: Nil if each subscription has a customer of its own.
    package init(
        _ story: Story, _ subscriptions: [SimulatedSubscription], customers: [SimulatedCustomer]? = nil,
        statements: [SimulatedLinks] = []
    ) {
        self.story = story
        self.subscriptions = subscriptions
        self.customers = customers ?? subscriptions.indices.map { SimulatedCustomer(subscriptions: [$0]) }
        self.statements = statements
    }

    /// The instant of the last event, ignoring the end of non-consumables.
    var end: Instant {
        (subscriptions.map(\.end) + statements.map(\.sentAt)).max() ?? .earliest
    }

    /// The instant of the last event, without an end of access that nobody caused.
    var lastEvent: Instant {
        (subscriptions.map(\.lastEvent) + statements.map(\.sentAt)).max() ?? .earliest
    }

    /// The ids of the story's Apple Accounts, in the order of their first subscriptions.
    var appTransactionIds: [String] {
        var seen: Set<String> = []
        return subscriptions.map(\.customer.appTransactionId).filter { seen.insert($0).inserted }
    }

    /// The Apple Account of a subscription.
    ///
    /// - Parameter story: The number of this story in the run.
    func account(of subscription: Int, number story: Int) -> SimulatedAccount.Key {
        let id = subscriptions[subscription].customer.appTransactionId
        return SimulatedAccount.Key(story: story, number: appTransactionIds.firstIndex(of: id) ?? 0)
    }

    /// The other subscriptions of the same Apple Account, which share its receipt in version 1.
    func companions(of number: Int) -> [SimulatedSubscription] {
        subscriptions.indices.filter { other in
            other != number
                && subscriptions[other].customer.appTransactionId == subscriptions[number].customer.appTransactionId
        }.map { subscriptions[$0] }
    }
}
