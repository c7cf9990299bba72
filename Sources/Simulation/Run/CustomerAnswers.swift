import Encoding

/// The expected entitlements of a customer at an instant, looked up by one of the customer's ids.
package struct CustomerAnswer: Sendable, Hashable {
    package struct Entitlement: Sendable, Hashable {
        package let name: String
        package let active: Bool
        /// The end of the uninterrupted access at the instant. Nil if there is no access, or if it has no end.
        package let until: Instant?

        package init(name: String, active: Bool, until: Instant?) {
            self.name = name
            self.active = active
            self.until = until
        }
    }

    package let customer: SimulatedId
    package let at: Instant
    /// All entitlements in the story, sorted by name. The customer has no others.
    package let entitlements: [Entitlement]
    package let story: Story
    /// A notification about the customer is never delivered, and no other source contains its facts.
    package let isIncomplete: Bool

    package init(
        customer: SimulatedId, at: Instant, entitlements: [Entitlement], story: Story, isIncomplete: Bool
    ) {
        self.customer = customer
        self.at = at
        self.entitlements = entitlements
        self.story = story
        self.isIncomplete = isIncomplete
    }
}

extension Simulation {
    /// The expected answers about customers, story by story.
    package var customerAnswers: some Sequence<CustomerAnswer> & Sendable {
        (0..<settings.subscriptions).lazy.flatMap { customerAnswers(ofStory: $0) }
    }

    /// The expected answers about the customers of one story, counted from 0: at most four instants for each id that a
    /// customer has at the end of the story.
    package func customerAnswers(ofStory index: Int) -> [CustomerAnswer] {
        let rendered = storyteller.story(at: index)
        let names = Set(rendered.subscriptions.flatMap(\.products).flatMap(\.entitlements)).sorted()
        var random = SplitMix64(seed: settings.seed, UInt64(index), .max - 1)
        return rendered.customers.flatMap { customer in
            let owned = customer.subscriptions.map { rendered.subscriptions[$0] }
            let book = EntitlementBook(owned.map(\.access), owned: customer.owns)
            let deciding = customer.leads == nil ? customer.subscriptions : Array(rendered.subscriptions.indices)
            let instants = rendered.queryInstants(
                about: deciding.map { rendered.subscriptions[$0] }, in: settings.window)
            let isIncomplete = deciding.contains { self.isIncomplete(story: index, subscription: $0) }
            // In a run in step, the ids may come from receipts alone.
            let isReceiptsOnly = settings.isInStep && deciding.contains { isLossy(story: index, subscription: $0) }
            let leads = customer.allLeads(owned, settings.format).filter { lead in
                !isReceiptsOnly || rendered.isInReceipts(lead.id, index, settings.seed)
            }
            return leads.flatMap { lead -> [CustomerAnswer] in
                let asked = instants.filter { lead.during.contains($0) }
                return asked.shuffled(using: &random).prefix(Self.instantsMax).sorted().map { instant in
                    CustomerAnswer(
                        customer: lead.id, at: instant,
                        entitlements: names.map { book.answer($0, at: instant) },
                        story: rendered.story, isIncomplete: isIncomplete)
                }
            }
        }
    }

    /// The largest number of instants per id.
    private static var instantsMax: Int { 4 }
}

extension EntitlementBook {
    package func answer(_ name: String, at instant: Instant) -> CustomerAnswer.Entitlement {
        let end = end(of: name, at: instant)
        return CustomerAnswer.Entitlement(name: name, active: end != nil, until: end == .latest ? nil : end)
    }
}

extension SimulatedCustomer {
    /// The ids that lead to the customer, as far as the format contains them.
    ///
    /// - Parameter owned: The customer's subscriptions.
    fileprivate func allLeads(_ owned: [SimulatedSubscription], _ format: Simulation.Format) -> [Lead] {
        var seen: Set<Lead> = []
        let backend = backendIds.map { Lead(SimulatedId(.link, $0)) }
        let apple =
            leads.map { $0.filter { format != .v1 || $0.id.kind != .appTransaction } }
            ?? owned.flatMap { $0.ids(format) }.map { Lead($0) }
        return (backend + apple).filter { seen.insert($0).inserted }
    }
}

extension RenderedStory {
    /// Instants at and around each boundary of the customer's access. For a customer without subscriptions, those of
    /// the story's other customers.
    fileprivate func queryInstants(about own: [SimulatedSubscription], in window: StoryWindow) -> [Instant] {
        let asked = own.isEmpty ? subscriptions : own
        let boundaries = Set(asked.flatMap(\.access.boundaries).filter { $0 < .latest }).sorted()
        var instants = Instant.questions(around: boundaries, in: window, -1...0)
        if instants.isEmpty, let first = asked.first?.notifications.first { instants = [first.signedDate] }
        return Set(instants).sorted()
    }
}

extension RenderedStory {
    /// Whether receipts contain an id. They have none of the Apple Account, and those of single transactions none of an app
    /// user.
    ///
    /// - Parameter number: The number of this story in the run.
    fileprivate func isInReceipts(_ id: SimulatedId, _ number: Int, _ seed: UInt64) -> Bool {
        switch id.kind {
        case .appTransaction: false
        case .account:
            !SimulatedAccount.accounts(of: self, number: number, seed: seed).contains { $0.style == .transaction }
        default: true
        }
    }
}
