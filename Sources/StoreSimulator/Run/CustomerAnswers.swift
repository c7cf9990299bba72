import Subscriptions

/// What somebody who is known by an id is entitled to at an instant, as the storyteller knows it.
package struct CustomerAnswer: Sendable, Hashable {
    package struct Entitlement: Sendable, Hashable {
        package let name: String
        package let active: Bool
        /// When the unbroken access ends that holds at the instant. Nil when there is none, or no end of it.
        package let until: Instant?

        package init(name: String, active: Bool, until: Instant?) {
            self.name = name
            self.active = active
            self.until = until
        }
    }

    /// An id of the backend, an appAccountToken, an appTransactionId or an originalTransactionId.
    package let customerId: String
    package let at: Instant
    /// By name: all that the story is about. There is no other.
    package let entitlements: [Entitlement]
    package let story: Story
    /// Something about one of the customer's lines was never delivered, so nobody else can know.
    package let isIncomplete: Bool

    package init(customerId: String, at: Instant, entitlements: [Entitlement], story: Story, isIncomplete: Bool) {
        self.customerId = customerId
        self.at = at
        self.entitlements = entitlements
        self.story = story
        self.isIncomplete = isIncomplete
    }
}

extension Simulation {
    /// The right answers about customers, story after story.
    package var customerAnswers: some Sequence<CustomerAnswer> & Sendable {
        (0..<settings.subscriptions).lazy.flatMap { customerAnswers(ofStory: $0) }
    }

    /// The right answers about the customers of one story, counted from 0: under every id that a customer is known by
    /// when all is told, at most four instants.
    package func customerAnswers(ofStory index: Int) -> [CustomerAnswer] {
        let told = storyteller.story(at: index)
        let names = Set(told.lines.flatMap(\.products).flatMap(\.entitlements)).sorted()
        var random = SplitMix64(seed: settings.seed, UInt64(index), .max - 1)
        return told.customers.flatMap { customer in
            let lines = customer.lines.map { told.lines[$0] }
            let book = EntitlementBook(lines.map(\.access))
            let instants = told.instantsToAsk(about: lines)
            let isIncomplete = customer.lines.contains { self.isIncomplete(story: index, line: $0) }
            return customer.ids(lines, settings.format).flatMap { id in
                instants.shuffled(using: &random).prefix(Self.instantsMax).sorted().map { instant in
                    CustomerAnswer(
                        customerId: id, at: instant,
                        entitlements: names.map { book.answer($0, at: instant) },
                        story: told.story, isIncomplete: isIncomplete)
                }
            }
        }
    }

    /// Of one id.
    private static var instantsMax: Int { 4 }
}

extension EntitlementBook {
    fileprivate func answer(_ name: String, at instant: Instant) -> CustomerAnswer.Entitlement {
        let end = end(of: name, at: instant)
        return CustomerAnswer.Entitlement(name: name, active: end != nil, until: end == .latest ? nil : end)
    }
}

extension ToldCustomer {
    fileprivate func ids(_ lines: [ToldLine], _ format: Simulation.Format) -> [String] {
        var seen: Set<String> = []
        return (backendIds + lines.flatMap { $0.ids(format) }).filter { seen.insert($0).inserted }
    }
}

extension ToldStory {
    /// About every boundary of the lines' access; of a customer without lines, about those of the others.
    fileprivate func instantsToAsk(about own: [ToldLine]) -> [Instant] {
        let asked = own.isEmpty ? lines : own
        let boundaries = Set(asked.flatMap(\.access.boundaries).filter { $0 < .latest }).sorted()
        var instants = boundaries.flatMap { [$0.advanced(byMilliseconds: -1), $0] }
        for (start, end) in zip(boundaries, boundaries.dropFirst() + [Draw.window.upperBound]) {
            instants.append(start.advanced(byMilliseconds: (end.milliseconds - start.milliseconds) / 2))
        }
        if instants.isEmpty, let told = asked.first?.tellings.first { instants = [told.signedDate] }
        return Set(instants).sorted()
    }
}
