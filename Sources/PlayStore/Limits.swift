/// Limits of what is read from pushes and answers.
package enum Limits {
    /// Longest purchase token. Google's have 144 characters, and its documentation says that they may be longer.
    package static let purchaseTokenBytesMax = 4096
    /// Longest token that is a key itself: the longest subscription id that an index of the database holds. The key of a
    /// longer one is a digest.
    package static let purchaseKeyBytesMax = 255
    /// Google allows 50 items in a subscription purchase.
    package static let itemsMax = 200
    /// Refunds by amount of one order; people in a shop make each.
    package static let refundsMax = 100
    /// Rows of one page of voided purchases, of which Google sends 1,000.
    package static let voidedRowsMax = 1000
    /// Orders of one answer, of which Google sends 1,000.
    package static let ordersMax = 1000
    /// How far the clocks of Google and this server may differ.
    package static let clockSkew = Duration.seconds(60)
    /// Longest identity token; Google's have about 1,000 bytes.
    package static let identityTokenBytesMax = 8192
    /// Keys of a key set; Google publishes two or three.
    package static let keysMax = 32
}
