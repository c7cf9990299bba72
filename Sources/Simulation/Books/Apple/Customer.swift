/// The owner of a subscription or of a one-time purchase.
package struct Customer: Sendable, Hashable {
    package var storefront: Storefront
    /// The user's UUID, set by the app at the purchase; nil if the app set none.
    package var appAccountToken: String?
    /// Unique for an Apple Account and app.
    package var appTransactionId: String
    /// Has access through Family Sharing.
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
