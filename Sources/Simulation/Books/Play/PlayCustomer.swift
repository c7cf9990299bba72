import Encoding

/// A customer of the simulated app on Google Play.
package struct PlayCustomer: Sendable, Hashable {
    package var storefront: Storefront
    /// What the app states about its user at a purchase.
    package var account: PlayAccount
    /// The app states the same account for everybody, so it names nobody.
    package var hasAccountOfEverybody = false

    /// The app user who owns a purchase with the account.
    func owner(_ accountId: String?) -> String? { hasAccountOfEverybody ? nil : accountId }

    package init(storefront: Storefront, account: PlayAccount) {
        self.storefront = storefront
        self.account = account
    }

    /// ISO 3166-1 alpha-2, as in Google's answers.
    package var region: String { Self.regions[storefront.country] ?? storefront.country }

    private static let regions = [
        "USA": "US", "JPN": "JP", "DEU": "DE", "GBR": "GB", "AUT": "AT", "BRA": "BR",
    ]
}

/// The ids of an app user that a purchase carries; nil if the app set none.
package struct PlayAccount: Sendable, Hashable {
    package var externalAccountId: String?
    package var obfuscatedAccountId: String?
    package var obfuscatedProfileId: String?

    package init(
        obfuscatedAccountId: String? = nil, obfuscatedProfileId: String? = nil, externalAccountId: String? = nil
    ) {
        self.obfuscatedAccountId = obfuscatedAccountId
        self.obfuscatedProfileId = obfuscatedProfileId
        self.externalAccountId = externalAccountId
    }

    package static let none = PlayAccount()
}
