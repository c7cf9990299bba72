/// The owner of a subscription or of a one-time purchase.
package struct Customer: Sendable, Hashable {
    package var storefront: Storefront
    /// The user's UUID, set by the app at the purchase; nil if the app set none.
    package var appAccountToken: String?
    /// Unique for an Apple Account and app.
    package var appTransactionId: String
    /// Has access through Family Sharing.
    package var isFamilyMember: Bool
    /// Has a seat that an organization or a group pays for.
    package var isAssigned = false
    /// Whether signed transactions name the Apple Account; older ones do not.
    package var statesAppTransaction = true
    /// The `appAccountToken` is one that the app gives to everybody, so it names nobody.
    package var hasTokenOfEverybody = false

    package init(
        storefront: Storefront, appAccountToken: String?, appTransactionId: String, isFamilyMember: Bool = false
    ) {
        self.storefront = storefront
        self.appAccountToken = appAccountToken
        self.appTransactionId = appTransactionId
        self.isFamilyMember = isFamilyMember
    }

    /// Has access without paying: the row is about somebody else's purchase, and carries that customer's token.
    package var isMember: Bool { isFamilyMember || isAssigned }

    /// Whether the `appAccountToken` is that of the customer: a member's is the purchaser's.
    package var statesOwnToken: Bool { !isMember && !hasTokenOfEverybody }

    package var ownership: String { isFamilyMember ? "FAMILY_SHARED" : isAssigned ? "ASSIGNED" : "PURCHASED" }
}
