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

    /// The other subscriptions of the same Apple Account, which share its receipt in version 1.
    func companions(of number: Int) -> [SimulatedSubscription] {
        subscriptions.indices.filter { other in
            other != number
                && subscriptions[other].customer.appTransactionId == subscriptions[number].customer.appTransactionId
        }.map { subscriptions[$0] }
    }
}
