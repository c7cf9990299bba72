import Subscriptions

/// A story with all that is told of it, and the right answers about it.
package struct ToldStory: Sendable {
    package let story: Story
    package let lines: [ToldLine]
    package let customers: [ToldCustomer]
    /// In the order of the statements.
    package let statements: [StatedLinks]

    /// - Parameter customers: Each line has one of its own when nil.
    package init(
        _ story: Story, _ lines: [ToldLine], customers: [ToldCustomer]? = nil, statements: [StatedLinks] = []
    ) {
        self.story = story
        self.lines = lines
        self.customers = customers ?? lines.indices.map { ToldCustomer(lines: [$0]) }
        self.statements = statements
    }

    /// The last instant at which something happens, not counting the end of what is owned for ever.
    var end: Instant {
        (lines.map(\.end) + statements.map(\.statedAt)).max() ?? .earliest
    }

    /// The other lines of the same Apple Account, which version 1 tells of in one receipt.
    func companions(of number: Int) -> [ToldLine] {
        lines.indices.filter { other in
            other != number && lines[other].customer.appTransactionId == lines[number].customer.appTransactionId
        }.map { lines[$0] }
    }
}

/// Whose lines they are when all is told: one person to the app, and unlike all others of the run.
package struct ToldCustomer: Sendable, Hashable {
    /// By number in the story.
    package let lines: [Int]
    /// What a backend calls the customer.
    package let backendIds: [String]

    package init(lines: [Int], backendIds: [String] = []) {
        self.lines = lines
        self.backendIds = backendIds
    }
}

/// One line of a story.
package struct ToldLine: Sendable {
    package let customer: Customer
    /// In the order of their signing.
    package let tellings: [Telling]
    /// When the line gives access, by the storyteller's own book.
    package let access: AccessBook
    /// As the store's books have them in the end, oldest first.
    package let purchases: [Purchase]
    /// Renewals that could not be charged when they were due.
    package let failures: [FailedRenewal]

    package init(_ life: SubscriptionLife) {
        customer = life.customer
        tellings = life.tellings
        access = life.access
        purchases = life.purchases
        failures = life.failures
    }

    package init(_ life: OneTimeLife) {
        customer = life.customer
        tellings = life.tellings
        access = life.access
        purchases = [life.purchase]
        failures = []
    }

    package var originalTransactionId: String { tellings.first?.purchases.first?.transactionId ?? "" }

    /// All that was ever bought on it.
    package var products: [Product] { tellings.last?.purchases.map(\.product) ?? [] }

    /// The ids that tell whose it is, without those of others.
    ///
    /// A family member's purchases carry the account token that the purchaser's app gave.
    package func ids(_ format: Simulation.Format) -> [String] {
        let token = customer.isFamilyMember ? nil : customer.appAccountToken
        let account = format == .v1 ? nil : customer.appTransactionId
        return [token, account, originalTransactionId].compactMap(\.self)
    }

    func link(by key: StatedLink.Key) -> StatedLink {
        StatedLink(key: key, originalTransactionId: originalTransactionId, customer: customer)
    }

    /// The last instant at which something happens, not counting the end of what is owned for ever.
    var end: Instant {
        let boundaries = access.boundaries.filter { $0 < .latest }
        return max(boundaries.max() ?? .earliest, tellings.last?.signedDate ?? .earliest)
    }
}
