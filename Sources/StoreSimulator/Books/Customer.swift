/// Whose purchases a line holds.
package struct Customer: Sendable, Hashable {
    package var storefront: Storefront
    /// The user as the app named it at the purchase, a UUID; nil where it named none.
    package var appAccountToken: String?
    /// One for each Apple Account and app.
    package var appTransactionId: String
    /// Has access through somebody else's purchase.
    package var isFamilyMember: Bool

    package init(
        storefront: Storefront, appAccountToken: String?, appTransactionId: String, isFamilyMember: Bool = false
    ) {
        self.storefront = storefront
        self.appAccountToken = appAccountToken
        self.appTransactionId = appTransactionId
        self.isFamilyMember = isFamilyMember
    }

    package var ownership: String { isFamilyMember ? "FAMILY_SHARED" : "PURCHASED" }
}
