import Encoding

/// What an app's server changed in the store's books. The stories do not know it: their later renewals keep their dates.
package struct BookAmendments: Sendable {
    /// Free days at the end of a period.
    package struct Extension: Sendable {
        package let transactionId: String
        package let expiresDate: Instant
        package let at: Instant

        package init(transactionId: String, expiresDate: Instant, at: Instant) {
            self.transactionId = transactionId
            self.expiresDate = expiresDate
            self.at = at
        }
    }

    /// An account token that the purchase and the later ones of its subscription have.
    package struct AccountToken: Sendable {
        package let transactionId: String
        package let appAccountToken: String
        package let at: Instant

        package init(transactionId: String, appAccountToken: String, at: Instant) {
            self.transactionId = transactionId
            self.appAccountToken = appAccountToken
            self.at = at
        }
    }

    /// By original transaction id, oldest first.
    private var extensions: [String: [Extension]] = [:]
    private var accountTokens: [String: [AccountToken]] = [:]

    package init() {}

    package mutating func extend(_ originalTransactionId: String, by change: Extension) {
        extensions[originalTransactionId, default: []].append(change)
    }

    package mutating func setAccountToken(_ originalTransactionId: String, to change: AccountToken) {
        accountTokens[originalTransactionId, default: []].append(change)
    }

    package func extensions(of originalTransactionId: String) -> [Extension] {
        extensions[originalTransactionId] ?? []
    }

    /// Applies the changes until the instant.
    ///
    /// - Returns: When the purchase was last changed by one of them; nil if it was not.
    func amend(_ purchase: inout Purchase, of originalTransactionId: String, at instant: Instant) -> Instant? {
        var changedAt: Instant?
        for change in extensions[originalTransactionId] ?? []
        where change.at <= instant && change.transactionId == purchase.transactionId {
            guard let end = purchase.expiresDate, end < change.expiresDate else { continue }
            purchase.expiresDate = change.expiresDate
            changedAt = change.at
        }
        // Transaction ids of a subscription ascend.
        for change in accountTokens[originalTransactionId] ?? []
        where change.at <= instant && change.transactionId <= purchase.transactionId {
            purchase.appAccountToken = change.appAccountToken
            changedAt = max(changedAt ?? change.at, change.at)
        }
        return changedAt
    }
}
