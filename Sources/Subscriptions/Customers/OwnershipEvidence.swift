import Encoding

/// What the facts of one subscription say about its owner, each with the position of the first event that reported it.
package struct OwnershipEvidence: Sendable, Hashable {
    /// A purchase or renewal with an account token.
    package struct Purchase: Sendable, Hashable, Comparable {
        package let purchaseDate: Instant
        package let transactionId: ByteString
        /// Of kind `account`.
        package let token: CustomerKey
        package let position: Int64

        package init(purchaseDate: Instant, transactionId: ByteString, token: CustomerKey, position: Int64) {
            self.purchaseDate = purchaseDate
            self.transactionId = transactionId
            self.token = token
            self.position = position
        }

        /// By purchase date. Purchases of one instant have an order too, so that the order of arrival decides nothing.
        package static func < (left: Purchase, right: Purchase) -> Bool {
            (left.purchaseDate, left.transactionId, left.token, left.position)
                < (right.purchaseDate, right.transactionId, right.token, right.position)
        }
    }

    /// Of kind `subscription`.
    package let subscription: CustomerKey
    /// The purchases of the store account itself that carry a token, in their order. Renewals carry the token of the
    /// purchase that began them, so of consecutive purchases with one token only the first is evidence.
    package let purchases: [Purchase]
    /// The keys that tie the subscription to others of its store account: `app_transaction`, and `subscription` for
    /// another subscription of the same receipt or the one from which this one was migrated.
    package let ties: [CustomerKey: Int64]
    /// The subscription of which a purchase is part, and to which it only leads. It has no owner of its own. Nil for a
    /// subscription.
    package let line: CustomerKey?
    /// The subscription to which all purchases of this one moved, and whose owner this one has; nil if it has any.
    package let successor: CustomerKey?
    /// A purchase of the expired subscription that this one continues, and to whose owner it belongs unless it states
    /// another app user; nil if it continues none.
    package let continued: CustomerKey?
    /// The account of an expired subscription that this one continues, if no purchase of this one states an app user: it
    /// belongs to the owner of the others of that account. Nil if it continues none.
    package let continuedAccount: CustomerKey?
    /// The customers who have a seat of the subscription, beside its owner.
    package let seats: SeatClaims

    package init(
        subscription: CustomerKey, purchases: [Purchase], ties: [CustomerKey: Int64], line: CustomerKey? = nil,
        continued: CustomerKey? = nil, continuedAccount: CustomerKey? = nil, successor: CustomerKey? = nil,
        seats: SeatClaims = .none
    ) {
        self.seats = seats
        self.line = line
        self.successor = successor
        self.continued = continued
        self.continuedAccount = continuedAccount
        self.subscription = subscription
        var changes: [Purchase] = []
        for purchase in purchases.sorted() where purchase.token != changes.last?.token { changes.append(purchase) }
        self.purchases = changes
        self.ties = ties
    }

    /// The store account as which the subscription counts among those that buy with one token: its smallest
    /// `appTransactionId`; nil if none was reported. A purchase alone says nothing about how many people there are.
    package var storeAccount: ByteString? {
        ties.keys.lazy.filter { $0.kind == .appTransaction }.map(\.id).min()
    }

    /// Returns the evidence without the purchases that carry one of some tokens.
    func ignoring(_ tokens: Set<CustomerKey>, _ rules: inout some RuleCollector) -> OwnershipEvidence {
        guard let ignored = purchases.first(where: { tokens.contains($0.token) }) else { return self }
        rules.collect(.ignoring(ignored, of: subscription))
        return OwnershipEvidence(
            subscription: subscription, purchases: purchases.filter { !tokens.contains($0.token) }, ties: ties,
            line: line, continued: continued,
            continuedAccount: continuedAccount.flatMap { tokens.contains($0) ? nil : $0 }, successor: successor,
            seats: seats)
    }

    /// In place of the store account of a token that this subscription only continues: after all others in order.
    package static let outsideApp = "outside"

    /// The keys that say whose the subscription is, each with the position of the first event that is evidence of it:
    /// the ties and the account tokens.
    package var edges: [CustomerKey: Int64] {
        purchases.reduce(into: ties) { edges, purchase in
            edges[purchase.token] = min(edges[purchase.token] ?? purchase.position, purchase.position)
        }
    }
}

extension CustomerKey {
    /// Nil for an id that identifies no customer: an empty one, one that is longer than an index can store (Apple's
    /// never are), and ``nilAccountToken``.
    package init?(stated kind: Kind, _ id: String?) {
        guard let id, (1...LinkStatement.idBytesMax).contains(id.utf8.count) else { return nil }
        self.init(kind, id)
        if kind == .account, id == Self.nilAccountToken { return nil }
    }
}

extension SubscriptionFacts {
    /// Returns the evidence of who owns a subscription of the App Store.
    ///
    /// The token of a transaction is the one in its latest report that has one, since the App Store signs transactions
    /// again when the app's server sets their token. A family-shared or assigned row carries the buyer's token, which
    /// does not identify the member; its `appTransactionId` is the member's own. A token without a purchase date says nothing
    /// about when its app user owned the subscription, and is ignored. A refund takes back the access, but not who made
    /// the purchase.
    func transactionEvidence() -> OwnershipEvidence {
        let moves = moves
        if !moves.isEmpty { return evidence(after: moves) }
        struct Row {
            var purchaseDate: Instant?
            var token: CustomerKey?
            var isPaidByAnother = false
        }
        let own = CustomerKey(.subscription, originalTransactionId)
        var ties: [CustomerKey: Int64] = [:]
        func tie(_ key: CustomerKey?, _ position: Int64) {
            guard let key, key != own else { return }
            ties[key] = min(ties[key] ?? position, position)
        }
        struct Report: Hashable {
            let transactionId: ByteString
            let token: CustomerKey
        }
        var rows: [ByteString: Row] = [:]
        var firstReports: [Report: Int64] = [:]
        for (boxed, statement) in orderedTransactions {
            let transaction = boxed.value
            let id = ByteString(transaction.transactionId)
            let token = CustomerKey(stated: .account, transaction.appAccountToken)
            var row = rows[id] ?? Row()
            row.purchaseDate = transaction.purchaseDate ?? row.purchaseDate
            row.token = token ?? row.token
            row.isPaidByAnother = row.isPaidByAnother || transaction.isPaidByAnother
            rows[id] = row
            if let token {
                let report = Report(transactionId: id, token: token)
                firstReports[report] = min(firstReports[report] ?? statement.position, statement.position)
            }
            tie(CustomerKey(stated: .appTransaction, transaction.appTransactionId), statement.position)
            tie(CustomerKey(stated: .subscription, transaction.previousOriginalTransactionId), statement.position)
            if transaction.originalTransactionId != originalTransactionId {
                tie(CustomerKey(stated: .subscription, transaction.originalTransactionId), statement.position)
            }
        }
        for (stated, evidence) in renewals {
            tie(CustomerKey(stated: .appTransaction, stated.renewal.fact.appTransactionId), evidence.position)
        }
        for (companion, position) in companions {
            tie(CustomerKey(stated: .subscription, companion.text), position)
        }
        var purchases: [OwnershipEvidence.Purchase] = []
        for (id, row) in rows where !row.isPaidByAnother {
            guard let token = row.token, let purchaseDate = row.purchaseDate else { continue }
            purchases.append(
                OwnershipEvidence.Purchase(
                    purchaseDate: purchaseDate, transactionId: id, token: token,
                    position: firstReports[Report(transactionId: id, token: token)] ?? 0))
        }
        return OwnershipEvidence(
            subscription: own, purchases: purchases, ties: ties, seats: SeatClaims(of: self))
    }

    /// The evidence of the purchases that are left, and the subscriptions to which the others moved: they are of one
    /// store account.
    private func evidence(after moves: [String: Move]) -> OwnershipEvidence {
        let left = without(moves).ownershipEvidence()
        var ties = left.ties
        for (_, move) in moves {
            guard let key = CustomerKey(stated: .subscription, move.transaction.originalTransactionId) else { continue }
            ties[key] = min(ties[key] ?? move.position, move.position)
        }
        return OwnershipEvidence(
            subscription: left.subscription, purchases: left.purchases, ties: ties,
            successor: successor(moves).map { CustomerKey(.subscription, $0.transaction.originalTransactionId) },
            seats: left.seats)
    }
}
