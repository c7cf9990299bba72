import Encoding
import Subscriptions

extension PlaySimulation {
    /// The expected figures in production, once every order is known.
    ///
    /// - Parameters:
    ///   - instant: The instant of the figures. Of stories that are all over, they do not depend on it.
    ///   - acknowledged: When the server acknowledged purchases, by the number of the story and by purchase token.
    package func figures(asOf instant: Instant? = nil, acknowledged: [Int: [String: Instant]] = [:]) -> Figures {
        let window = storyteller.settings.window
        var figures = Figures(window, asOf: instant ?? (window.goesOn ? window.end : .latest))
        for index in 0..<count {
            let rendered = storyteller.story(at: index, acknowledged: acknowledged[index] ?? [:])
            if !rendered.story.isTest { figures.add(rendered, ownership) }
        }
        return figures
    }
}

extension Figures {
    /// An app user, with the interval in which purchases belong to the user.
    private struct Owner: Hashable {
        let accountId: String
        let during: Range<Instant>
    }

    fileprivate mutating func add(_ rendered: RenderedPlayStory, _ ownership: OwnershipPolicy) {
        let counted =
            rendered.subscriptions.map { CountedSubscription($0, asOf: asOf) }
            + rendered.oneTimePurchases.map { CountedSubscription($0) }
        var owned: [Owner: [CountedSubscription]] = [:]
        for (subscription, key) in zip(counted, rendered.keys) {
            add(subscription)
            let buyers = key.buyers(ownership)
            // Without an app user, each purchase has a customer of its own.
            if buyers.isEmpty { addCustomer([subscription], owned: SimulatedCustomer.always) }
            for buyer in buyers {
                owned[Owner(accountId: buyer.accountId, during: buyer.during), default: []].append(subscription)
            }
        }
        for (owner, subscriptions) in owned { addCustomer(subscriptions, owned: owner.during) }
    }
}
