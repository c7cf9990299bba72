/// A customer at the end of a story. No two customers of a run share an id.
package struct SimulatedCustomer: Sendable, Hashable {
    /// The numbers of the customer's subscriptions in the story.
    package let subscriptions: [Int]
    /// A backend's ids of the customer.
    package let backendIds: [String]

    package init(subscriptions: [Int], backendIds: [String] = []) {
        self.subscriptions = subscriptions
        self.backendIds = backendIds
    }
}
