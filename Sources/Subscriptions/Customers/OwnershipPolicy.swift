/// Which customer owns a subscription that several app users have bought or linked.
///
/// The raw values are the words of the configuration.
package enum OwnershipPolicy: String, Sendable, Hashable, CaseIterable {
    /// The app user of each purchase owns the subscription from its purchase date on, until another one buys. A link
    /// moves what it names to the customer that stated it last.
    case latestBuyer = "latest-buyer"
    /// The app user of the first purchase owns the subscription, unless a link transfers it.
    case firstBuyer = "first-buyer"
    /// Every app user who bought or linked the subscription has all of it.
    case shared

    /// The policy of an app that configures none.
    package static let standard = OwnershipPolicy.latestBuyer
}
