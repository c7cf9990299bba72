import Encoding

/// A story on Google Play with its books, its messages, and the data for the expected answers.
package struct RenderedPlayStory: Sendable {
    package let story: PlayStory
    package let subscriptions: [PlayLife]
    package let oneTimePurchases: [PlayOneTimeLife]

    init(_ story: PlayStory, _ subscriptions: [PlayLife], oneTimePurchases: [PlayOneTimeLife] = []) {
        self.story = story
        self.subscriptions = subscriptions
        self.oneTimePurchases = oneTimePurchases
    }

    /// All messages, ordered by the times of their events.
    package var messages: [PlayMessage] {
        (subscriptions.flatMap(\.messages) + oneTimePurchases.flatMap(\.messages)).sorted {
            ($0.eventTime, $0.messageId) < ($1.eventTime, $1.messageId)
        }
    }

    package var orders: [PlayOrder] { subscriptions.flatMap(\.orders) + oneTimePurchases.flatMap(\.orders) }

    package var voids: [PlayVoid] { subscriptions.flatMap(\.voids) + oneTimePurchases.flatMap(\.voids) }

    /// The first purchase token of each subscription and one-time purchase, in the order of ``keys``.
    package var firstTokens: [String] {
        subscriptions.compactMap(\.tokens.first?.token) + oneTimePurchases.map(\.token)
    }

    /// What is expected of each subscription and one-time purchase.
    package var keys: [PlayAnswerKey] { subscriptions.map(\.key) + oneTimePurchases.map(\.key) }

    /// The instant of the last event, ignoring the end of non-consumables and of holds.
    var end: Instant {
        let ends = keys.flatMap { $0.access.boundaries.filter { $0 < .latest } }
        return (ends + messages.map(\.eventTime) + voids.map(\.seenAt)).max() ?? .earliest
    }

    /// The instant of the last event, without an end of access that nobody caused.
    var lastEvent: Instant {
        let books =
            subscriptions.flatMap { $0.tokens.compactMap { $0.history.last?.at } }
            + oneTimePurchases.compactMap { $0.history.last?.at }
        return (books + messages.map(\.eventTime) + voids.map(\.seenAt)).max() ?? .earliest
    }
}

/// A purchase token that the app hands in, after a purchase or after it has seen one.
package struct PlayHandIn: Sendable, Hashable {
    package var at: Instant
    package let purchaseToken: String
    package let productId: String
    /// The app user; nil if the app has none.
    package let accountId: String?
    /// The text that the app got with its purchase, to be signed.
    package let orderId: String?
    package let isSubscription: Bool
}

extension RenderedPlayStory {
    /// The purchase tokens that the app hands in, in the order of time. Purchases in Google Play itself never open it.
    package var handIns: [PlayHandIn] {
        let ofSubscriptions = subscriptions.flatMap { life in
            life.tokens.compactMap { purchase -> PlayHandIn? in
                guard let first = purchase.history.first, first.book.outOfApp == nil else { return nil }
                let book = purchase.book(at: first.at) ?? first.book
                return PlayHandIn(
                    at: first.at.advanced(byMilliseconds: 4000), purchaseToken: purchase.token,
                    productId: book.items.last?.plan.productId ?? "",
                    accountId: life.customer.owner(book.account.obfuscatedAccountId),
                    orderId: book.isPromotion ? nil : purchase.orderId, isSubscription: true)
            }
        }
        let oneTime = oneTimePurchases.compactMap { life in
            life.history.first.map {
                PlayHandIn(
                    at: $0.at.advanced(byMilliseconds: 4000), purchaseToken: life.token, productId: life.sku,
                    accountId: life.customer.owner(life.customer.account.obfuscatedAccountId), orderId: life.orderId,
                    isSubscription: false)
            }
        }
        return (ofSubscriptions + oneTime).sorted { ($0.at, $0.purchaseToken) < ($1.at, $1.purchaseToken) }
    }
}
