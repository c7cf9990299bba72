import Encoding

// A transaction id is one purchase, whatever subscription it is reported under. The App Store has given lapsed customers a
// new originalTransactionId and later reported the same transactions under the old one. So each subscription under which a
// transaction was reported has all reports about it, and the latest of them says to which one it belongs.

/// The subscriptions under which transactions were reported.
package struct TransactionHolders: Sendable {
    /// Of each transaction, the subscription that was added first. Nearly all have one only, so a set is made for the
    /// others alone.
    private var first: [String: String] = [:]
    private var several: [String: Set<String>] = [:]

    package init() {}

    package var isEmpty: Bool { first.isEmpty }

    /// The transactions, in no particular order.
    package var transactionIds: some Collection<String> { first.keys }

    /// Adds a report of a transaction under a subscription.
    package mutating func add(_ transactionId: String, heldBy subscription: String) {
        guard let known = first[transactionId] else {
            first[transactionId] = subscription
            return
        }
        if known != subscription { several[transactionId, default: [known]].insert(subscription) }
    }

    /// Adds what the facts say about transactions that were reported under several subscriptions.
    ///
    /// - Returns: The other subscriptions.
    package mutating func add(_ facts: SubscriptionFacts) -> Set<String> {
        var others: Set<String> = []
        for fact in facts.transactions.keys where fact.fact.originalTransactionId != facts.originalTransactionId {
            add(fact.fact.transactionId, heldBy: facts.originalTransactionId)
            add(fact.fact.transactionId, heldBy: fact.fact.originalTransactionId)
            others.insert(fact.fact.originalTransactionId)
        }
        return others
    }

    /// The subscriptions under which a transaction was reported.
    package func holders(of transactionId: String) -> Set<String> {
        several[transactionId] ?? Set(first[transactionId].map { [$0] } ?? [])
    }

    /// The same, if there are several; nil otherwise.
    fileprivate func several(_ transactionId: String) -> Set<String>? { several[transactionId] }
}

extension Dictionary where Key == String, Value: SubscriptionState {
    /// Gives all reports about the transactions of some facts to each subscription under which they were reported. Call it
    /// after the facts were folded into their subscription. The result does not depend on the order of the reports.
    ///
    /// - Parameter holders: Must know the other subscriptions, and their states must be among these.
    package mutating func shareTransactions(
        of facts: StatedFacts, in subscription: String, among holders: inout TransactionHolders, position: Int64
    ) {
        for id in facts.transactionIds {
            holders.add(id, heldBy: subscription)
            guard let all = holders.several(id)?.sorted() else { continue }
            var reports = SubscriptionFacts.Reports()
            for holder in all { self[holder]?.facts.addReports(about: id, to: &reports) }
            for holder in all { change(holder, position: position) { $0.add(reports, position: position) } }
        }
    }
}

extension SubscriptionFacts {
    /// What was reported about a transaction, by all subscriptions.
    package typealias Reports = [Canonical<Transaction>: Statement]

    /// A purchase that a later statement reports under another subscription.
    struct Move: Sendable, Hashable {
        /// As the latest statement has it.
        fileprivate(set) var transaction: Transaction
        /// When the purchase was first reported there, after it was last reported elsewhere.
        fileprivate(set) var at: Instant
        /// The position of the event that reported it there first.
        fileprivate(set) var position: Int64
        /// When the purchase was last reported under a subscription that is not this one.
        fileprivate let elsewhere: Instant
        fileprivate var lastStatedAt: Instant

        fileprivate init(_ transaction: Transaction, _ statement: Statement, after former: Move?) {
            self.transaction = transaction
            elsewhere = former?.lastStatedAt ?? .earliest
            at = Self.first(statement, after: elsewhere)
            position = statement.position
            lastStatedAt = statement.statedAt
        }

        /// Adds the next statement with the same subscription.
        fileprivate mutating func add(_ transaction: Transaction, _ statement: Statement) {
            self.transaction = transaction
            lastStatedAt = statement.statedAt
            let first = Self.first(statement, after: elsewhere)
            if first < at { (at, position) = (first, statement.position) }
        }

        private static func first(_ statement: Statement, after elsewhere: Instant) -> Instant {
            statement.firstStatedAt >= elsewhere ? statement.firstStatedAt : statement.statedAt
        }
    }

    fileprivate func addReports(about transactionId: String, to reports: inout Reports) {
        for (fact, statement) in transactions where fact.fact.transactionId == transactionId {
            reports[fact] = Statement(statement, repeating: reports[fact])
        }
    }

    /// The subscriptions under which some of these transactions were reported as well.
    package var otherHolders: Set<String> {
        Set(transactions.keys.lazy.map(\.fact.originalTransactionId).filter { $0 != originalTransactionId })
    }

    /// The purchases that belong to another subscription by the latest statement about each, by transaction id.
    var moves: [String: Move] {
        guard transactions.keys.contains(where: { $0.fact.originalTransactionId != originalTransactionId }) else {
            return [:]
        }
        var latest: [String: Move] = [:]
        for (transaction, statement) in orderedTransactions {
            let transaction = transaction.value
            let known = latest[transaction.transactionId]
            if known?.transaction.originalTransactionId == transaction.originalTransactionId {
                latest[transaction.transactionId]?.add(transaction, statement)
            } else {
                latest[transaction.transactionId] = Move(transaction, statement, after: known)
            }
        }
        return latest.filter { $0.value.transaction.originalTransactionId != originalTransactionId }
    }

    /// The facts without the purchases that moved, and without the renewal info that was stated while one of them was the
    /// latest purchase: it is about what follows that purchase.
    func without(_ moves: [String: Move]) -> SubscriptionFacts {
        guard !moves.isEmpty else { return self }
        var purchases: [String: Instant] = [:]
        for fact in transactions.keys {
            let id = fact.fact.transactionId
            if let date = fact.fact.purchaseDate { purchases[id] = min(purchases[id] ?? date, date) }
        }
        let ordered = purchases.sorted { ($0.value, $0.key) < ($1.value, $1.key) }
        func isOfRest(_ statedAt: Instant) -> Bool {
            let last = ordered.last { $0.value <= statedAt } ?? ordered.first
            return last.map { !moves.keys.contains($0.key) } ?? true
        }
        return keeping({ !moves.keys.contains($0) }, renewals: isOfRest)
    }

    /// The id of the subscription that has the purchases of this one: the one of which a purchase of Google Play is part, or
    /// to which all purchases moved; nil if this one has its own.
    package var leadsTo: String? {
        line?.originalTransactionId ?? successor(moves)?.transaction.originalTransactionId
    }

    /// The subscription to which all purchases of this one moved: that of the latest; nil if any is still its own.
    func successor(_ moves: [String: Move]) -> Move? {
        guard !moves.isEmpty, transactions.keys.allSatisfy({ moves.keys.contains($0.fact.transactionId) }) else {
            return nil
        }
        return moves.values.max { left, right in
            (left.transaction.purchaseDate ?? .earliest, left.transaction.transactionId)
                < (right.transaction.purchaseDate ?? .earliest, right.transaction.transactionId)
        }
    }
}
