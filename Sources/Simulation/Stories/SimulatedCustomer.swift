import Encoding

/// A customer at the end of a story, under the ownership policy of the run. No id leads to two customers of a run at the
/// same instant.
package struct SimulatedCustomer: Sendable, Hashable {
    /// An id that leads to the customer in an interval. In the rest of time it leads to another customer of the story.
    package struct Lead: Sendable, Hashable {
        package let id: SimulatedId
        package let during: Range<Instant>

        package init(_ id: SimulatedId, during: Range<Instant> = SimulatedCustomer.always) {
            self.id = id
            self.during = during
        }
    }

    package static let always = Instant.earliest..<Instant.latest

    /// The numbers of the subscriptions in the story that the customer owns.
    package let subscriptions: [Int]
    /// The interval in which the customer owns them.
    package let owns: Range<Instant>
    /// A backend's ids of the customer.
    package let backendIds: [String]
    /// Apple's ids that lead to the customer; nil if all ids of the subscriptions always do. All subscriptions of the
    /// story decide where such an id leads.
    package let leads: [Lead]?

    package init(
        subscriptions: [Int], owns: Range<Instant> = SimulatedCustomer.always, backendIds: [String] = [],
        leads: [Lead]? = nil
    ) {
        self.subscriptions = subscriptions
        self.owns = owns
        self.backendIds = backendIds
        self.leads = leads
    }
}
