import Encoding
import Subscriptions

/// A run of the simulated Google Play: its stories, and the expected answers about them.
///
/// A run depends on its settings only and is the same each time, except for the bytes of signatures.
package struct PlaySimulation: Sendable {
    package let storyteller: PlayStoryteller
    /// The number of stories. Some have more than one subscription.
    package let count: Int
    /// The policy under which the owners are expected. It changes nothing that is sent.
    package let ownership: OwnershipPolicy
    /// The run of the App Store whose customers also buy here; nil if there is none.
    package let joined: Simulation?

    /// - Parameter joined: The story with the same number in that run is one of the same customer, where it has one
    ///   customer with an account token.
    package init(
        _ settings: PlayStoryteller.Settings, count: Int, ownership: OwnershipPolicy = .standard,
        joined: Simulation? = nil
    ) {
        var settings = settings
        if let joined { settings.accountId = { joined.soleAccountToken(ofStory: $0) } }
        storyteller = PlayStoryteller(settings)
        self.count = count
        self.ownership = ownership
        self.joined = joined
    }

    package var packageName: String { storyteller.settings.packageName }

    /// The products to configure, sorted by id.
    package var products: [Product] { Product.allOnGooglePlay(of: storyteller.settings.bundleId) }

    /// The app user of a story whose customer also buys in the App Store; nil if it has another customer.
    package func joinedAccountId(ofStory index: Int) -> String? { joined?.soleAccountToken(ofStory: index) }

    /// When apps hand in the first purchase of each story, in the order of time. Later purchases of a story change once
    /// the server has acknowledged the first.
    package var firstHandIns: [Instant] {
        (0..<count).compactMap { storyteller.story(at: $0).handIns.map(\.at).min() }.sorted()
    }

    /// The purchase tokens that apps hand in, in the order of time.
    package var handIns: [(story: PlayStory, handIn: PlayHandIn)] {
        (0..<count).flatMap { index in
            let story = storyteller.story(at: index)
            return story.handIns.map { (story: story.story, handIn: $0) }
        }.sorted { ($0.handIn.at, $0.handIn.purchaseToken) < ($1.handIn.at, $1.handIn.purchaseToken) }
    }
}

/// The expected answer to whether a subscription or a one-time purchase gives access at an instant.
package struct PlayAnswer: Sendable, Hashable {
    /// The first purchase token.
    package let purchaseToken: String
    package let at: Instant
    package let active: Bool
    /// The end of the uninterrupted access. Nil if there is none, or if it has no end.
    package let until: Instant?
    /// The product in force; nil if there is none, or if several began at once.
    package let productId: String?
    package let status: PlayStatus?
    /// See ``PlayAnswerKey/statusBeforeAnswer(at:)``.
    package let statusBeforeAnswer: PlayStatus?
    package let story: PlayStory
}

/// The expected entitlements of an app user at an instant.
package struct PlayCustomerAnswer: Sendable, Hashable {
    /// The `obfuscatedExternalAccountId`, and the `appAccountToken` of a customer who also buys in the App Store.
    package let accountId: String
    package let at: Instant
    /// All entitlements in the customer's stories, sorted by name. The customer has no others.
    package let entitlements: [CustomerAnswer.Entitlement]
    package let story: PlayStory
}

// MARK: - Answers

extension PlaySimulation {
    private static let instantsMax = 12
    private static let customerInstantsMax = 4

    /// The expected answers about one story, counted from 0: at most twelve instants for each purchase, at, just before
    /// and just after each boundary of access, and between boundaries.
    package func answers(ofStory index: Int, acknowledged: [String: Instant] = [:]) -> [PlayAnswer] {
        let rendered = storyteller.story(at: index, acknowledged: acknowledged)
        var random = SplitMix64(seed: storyteller.settings.seed, UInt64(index), .max - 24)
        return zip(rendered.firstTokens, rendered.keys).flatMap { token, key in
            let boundaries = Set(key.access.boundaries.filter { $0 < .latest } + key.statusChanges)
            return instants(around: boundaries).shuffled(using: &random).prefix(Self.instantsMax).sorted().map {
                let end = key.access.unbrokenEnd(at: $0)
                return PlayAnswer(
                    purchaseToken: token, at: $0, active: key.access.isActive(at: $0),
                    until: end == .latest ? nil : end,
                    productId: key.access.product(at: $0)?.id, status: key.status(at: $0),
                    statusBeforeAnswer: key.statusBeforeAnswer(at: $0), story: rendered.story)
            }
        }
    }

    /// The expected answers about the app users of one story, counted from 0: at most four instants for each, with
    /// what they have in the App Store.
    ///
    /// - Parameter joinsStores: False for a server to which the apps of the two stores are two products.
    package func customerAnswers(
        ofStory index: Int, acknowledged: [String: Instant] = [:], joinsStores: Bool = true
    ) -> [PlayCustomerAnswer] {
        let rendered = storyteller.story(at: index, acknowledged: acknowledged)
        let joinedId = joinsStores ? joinedAccountId(ofStory: index) : nil
        let apple = joinedId == nil ? nil : joined?.storyteller.story(at: index)
        let appleBooks = apple?.subscriptions.map(\.access) ?? []
        var random = SplitMix64(seed: storyteller.settings.seed, UInt64(index), .max - 25)
        let names = Set(
            (rendered.keys.map(\.access) + appleBooks).flatMap(\.products).flatMap(\.entitlements)
        ).sorted()
        let users = Set(rendered.keys.flatMap { $0.buyers(ownership).map(\.accountId) } + [joinedId].compactMap(\.self))
        return users.sorted().flatMap { user -> [PlayCustomerAnswer] in
            let own = rendered.keys.flatMap { key in
                key.buyers(ownership).filter { $0.accountId == user }.map { (key.access, $0.during) }
            }
            let always = user == joinedId ? appleBooks.map { ($0, Instant.earliest..<Instant.latest) } : []
            let owned = own + always
            let boundaries = Set(
                owned.flatMap { $0.0.boundaries }.filter { $0 < .latest }
                    + owned.map(\.1.lowerBound).filter { $0 > .earliest })
            let book = EntitlementBook(owned)
            let instants = self.instants(around: boundaries).shuffled(using: &random).prefix(Self.customerInstantsMax)
            return instants.sorted().map { instant in
                PlayCustomerAnswer(
                    accountId: user, at: instant, entitlements: names.map { book.answer($0, at: instant) },
                    story: rendered.story)
            }
        }
    }

    private func instants(around boundaries: Set<Instant>) -> [Instant] {
        let window = storyteller.settings.window
        return Set(Instant.questions(around: boundaries.filter { $0 < window.end }.sorted(), in: window)).sorted()
    }
}

extension Simulation {
    /// The account token of the story's only customer; nil if it has several, or the customer has none.
    fileprivate func soleAccountToken(ofStory index: Int) -> String? {
        guard index < settings.subscriptions else { return nil }
        let story = storyteller.story(at: index)
        let tokens = Set(story.subscriptions.map(\.customer.appAccountToken))
        guard story.customers.count == 1, story.customers[0].leads == nil, tokens.count == 1, let token = tokens.first,
            !story.subscriptions.contains(where: \.customer.isMember), !story.story.changesToken
        else { return nil }
        return token
    }
}

extension Story {
    /// Whether the account token of a subscription changes in the story.
    fileprivate var changesToken: Bool {
        switch self {
        case .sharedDevice, .upgradeByAnotherUser, .accountTokenSetLate: true
        default: false
        }
    }
}
