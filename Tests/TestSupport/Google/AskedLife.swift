import Encoding
import Simulation

/// A subscription or a one-time purchase on Google Play, with what leads to questions about it.
package enum AskedLife {
    case subscription(PlayLife)
    case oneTime(PlayOneTimeLife)

    /// What leads to a question.
    package enum Occasion: CustomStringConvertible {
        case message(PlayMessage)
        case handIn(PlayHandIn)

        package var at: Instant {
            switch self {
            case .message(let message): message.publishTime
            case .handIn(let handIn): handIn.at
            }
        }

        package var token: String {
            switch self {
            case .message(let message): message.purchaseToken
            case .handIn(let handIn): handIn.purchaseToken
            }
        }

        package var message: PlayMessage? {
            if case .message(let message) = self { message } else { nil }
        }

        package var description: String {
            switch self {
            case .message(let message): "\(message.content) at \(at)"
            case .handIn: "hand-in at \(at)"
            }
        }
    }

    /// In the order of time.
    package func occasions(handIns: [PlayHandIn]) -> [Occasion] {
        let tokens: Set<String>
        let messages: [PlayMessage]
        switch self {
        case .subscription(let life): (tokens, messages) = (Set(life.tokens.map(\.token)), life.messages)
        case .oneTime(let life): (tokens, messages) = ([life.token], life.messages)
        }
        let all =
            messages.map(Occasion.message) + handIns.filter { tokens.contains($0.purchaseToken) }.map(Occasion.handIn)
        return all.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    }

    /// The first purchase token.
    package var purchaseToken: String {
        switch self {
        case .subscription(let life): life.tokens.first?.token ?? ""
        case .oneTime(let life): life.token
        }
    }

    /// What is known of access once the occasion has been answered.
    package func books(after occasion: Occasion) -> AccessBook {
        // The store may have sent the next message by the time of the answer. It is not received yet.
        accessHistory.access(at: occasion.message?.eventTime ?? occasion.at) ?? AccessBook()
    }

    private var accessHistory: [PlayAccessEntry] {
        switch self {
        case .subscription(let life): life.accessHistory
        case .oneTime(let life): life.accessHistory
        }
    }

    /// The subscriptions and one-time purchases of a story.
    package static func all(of story: RenderedPlayStory) -> [AskedLife] {
        story.subscriptions.map(AskedLife.subscription) + story.oneTimePurchases.map(AskedLife.oneTime)
    }

    /// The access at the end of the story.
    package var access: AccessBook {
        switch self {
        case .subscription(let life): life.key.access
        case .oneTime(let life): life.key.access
        }
    }

    package var orders: [PlayOrder] {
        switch self {
        case .subscription(let life): life.orders
        case .oneTime(let life): life.orders
        }
    }

    package var isTest: Bool {
        switch self {
        case .subscription(let life): life.terms.isTest
        case .oneTime(let life): life.isTest
        }
    }

    package var isConsumable: Bool {
        if case .oneTime(let life) = self { life.product.kind == .consumable } else { false }
    }

    /// Sorted; also those of a purchase that was never paid.
    package var entitlements: [String] {
        switch self {
        case .subscription(let life):
            Set(life.tokens.flatMap(\.history).flatMap(\.book.items).flatMap(\.plan.product.entitlements)).sorted()
        case .oneTime(let life): life.product.entitlements.sorted()
        }
    }
}
