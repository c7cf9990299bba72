import Encoding

/// An Apple Account of a story: the subscriptions and one-time purchases that share a receipt.
package struct SimulatedAccount: Sendable {
    package struct Key: Sendable, Hashable {
        /// The number of the story in the run.
        package let story: Int
        /// The number of the account in the story.
        package let number: Int

        package init(story: Int, number: Int) {
            self.story = story
            self.number = number
        }
    }

    /// A purchase that the user restored on another device. From then on the receipt contains it twice.
    struct RestoredCopy: Sendable {
        let of: String
        let transactionId: String
        let at: Instant
    }

    package let key: Key
    package let story: Story
    package private(set) var subscriptions: [SimulatedSubscription]
    /// The form of the receipts that this account's app has.
    package let style: ReceiptStyle
    let restoredCopy: RestoredCopy?

    /// The accounts of a story, in the order of their first subscriptions.
    static func accounts(of rendered: RenderedStory, number story: Int, seed: UInt64) -> [SimulatedAccount] {
        rendered.appTransactionIds.enumerated().map { number, id in
            SimulatedAccount(
                Key(story: story, number: number), rendered.story,
                rendered.subscriptions.enumerated().filter { $0.element.customer.appTransactionId == id }, seed: seed)
        }
    }

    private init(
        _ key: Key, _ story: Story, _ subscriptions: [(offset: Int, element: SimulatedSubscription)], seed: UInt64
    ) {
        self.key = key
        self.story = story
        self.subscriptions = subscriptions.map(\.element)
        var random = SplitMix64(seed: seed, UInt64(key.story), UInt64(key.number), .max - 2)
        let isOld = random.chance(25) && story.suitsTransactionReceipts
        style = isOld ? .transaction : .app
        let restores = random.chance(20)
        guard restores, !isOld, subscriptions.count == 1, let (number, subscription) = subscriptions.first else {
            restoredCopy = nil
            return
        }
        restoredCopy = RestoredCopy(
            of: subscription, Identifiers(seed: seed, index: key.story, subscription: number), &random)
    }

    package var appTransactionId: String { subscriptions.first?.customer.appTransactionId ?? "" }

    package var hasSubscription: Bool {
        subscriptions.contains { $0.products.contains { $0.kind == .autoRenewable } }
    }

    /// The account as if a family shared these subscriptions with it.
    func sharing(_ shared: [SimulatedSubscription]) -> SimulatedAccount {
        var account = self
        account.subscriptions += shared.map { $0.copy(appTransactionId: appTransactionId) }
        return account
    }

    /// When the account bought for the first time.
    package var firstPurchase: Instant { subscriptions.compactMap(\.history.first?.at).min() ?? .earliest }
}

extension SimulatedAccount.RestoredCopy {
    /// Nil for a family member and for one-time purchases.
    fileprivate init?(of subscription: SimulatedSubscription, _ identifiers: Identifiers, _ random: inout SplitMix64) {
        guard !subscription.customer.isMember,
            let purchase = subscription.purchases.randomElement(using: &random), purchase.expiresDate != nil,
            let charged = subscription.history.first(where: {
                $0.purchases.contains { $0.transactionId == purchase.transactionId }
            })
        else { return nil }
        of = purchase.transactionId
        transactionId = identifiers.restoredTransactionId
        at = max(charged.at, purchase.purchaseDate).advanced(byMilliseconds: 3_600_000)
    }
}

// MARK: - The account at an instant

extension SimulatedAccount {
    /// The rows of the account's receipt at the instant.
    func receipt(at instant: Instant) -> V1Receipt {
        V1Receipt(
            subscriptions.compactMap { subscription in
                guard let entry = subscription.books(at: instant) else { return nil }
                return V1Receipt.Entry(
                    purchases: entry.purchases + copies(of: entry.purchases, at: instant),
                    renewalPreference: entry.shownPreference(at: instant), customer: subscription.customer)
            })
    }

    private func copies(of purchases: [Purchase], at instant: Instant) -> [Purchase] {
        guard let restoredCopy, restoredCopy.at <= instant else { return [] }
        return purchases.filter { $0.transactionId == restoredCopy.of }.map {
            $0.copy(transactionId: restoredCopy.transactionId)
        }
    }
}

extension Story {
    /// Whether receipts of single transactions show the access of the story. They show neither grace nor earlier
    /// periods.
    var suitsTransactionReceipts: Bool {
        switch self {
        case .trialConversion, .renewals, .switchOffAndOn, .switchOffAndExpire, .retryRecovered, .resubscribeSame,
            .resubscribeOther, .priceRiseAccepted, .priceRiseRefused, .notForSale:
            true
        default: false
        }
    }
}

extension Storyteller {
    /// The Apple Accounts of the story with this number, counted from 0.
    package func accounts(ofStory index: Int) -> [SimulatedAccount] {
        SimulatedAccount.accounts(of: story(at: index), number: index, seed: seed)
    }

    package func account(_ key: SimulatedAccount.Key) -> SimulatedAccount? {
        let accounts = accounts(ofStory: key.story)
        return accounts.indices.contains(key.number) ? accounts[key.number] : nil
    }
}
