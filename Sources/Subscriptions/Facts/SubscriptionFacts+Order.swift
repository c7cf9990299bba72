import Encoding

// The order of reports about the same transaction or renewal: the last one takes precedence.

extension SubscriptionFacts {
    package typealias OrderedTransaction = (transaction: Boxed<Transaction>, statement: Statement)

    /// Oldest report first.
    ///
    /// Reports with equal times are ordered as follows. Unsigned reports come before signed ones, since their times are
    /// estimates. Unsigned reports are ordered by receipt, the only order that is known; ``StandingCancellations`` says
    /// which of them take a cancellation back. Signed reports are ordered by
    /// whether they revoke the purchase, then by expiry, then by text, so that the order of arrival does not matter.
    package var orderedTransactions: [OrderedTransaction] {
        transactionsInOrder.map { (transaction: $0.key.boxed, statement: $0.value) }
    }

    var transactionsInOrder: [(key: Canonical<Transaction>, value: Statement)] {
        inOrder(transactions) { key, value in Order(key.fact, value, text: key.text) }
    }

    enum OrderCriterion {
        case statedAt, isSigned, arrival, isTakenBack, expiresDate, text
    }

    /// What decides the order of two reports about one transaction.
    static func criterion(_ left: OrderedTransaction, _ right: OrderedTransaction) -> OrderCriterion {
        Order.criterion(
            Order(left.transaction.value, left.statement, text: []),
            Order(right.transaction.value, right.statement, text: []))
    }

    /// Like ``orderedTransactions``, for renewal info.
    package var orderedRenewals: [RenewalStatement] {
        // Receipts contain nothing about a commitment, so what was signed before counts until the commitment is over.
        var endingAt: Instant?
        return renewalsInOrder.map { key, evidence in
            let renewal = key.renewal.boxed.value
            if key.isSigned, !renewal.isStatusAlone {
                let isEnding = renewal.commitmentAutoRenewStatus == false
                endingAt = isEnding ? renewal.commitmentRenewalDate ?? .latest : nil
            }
            return RenewalStatement(
                boxed: key.renewal.boxed, statedAt: key.statedAt, isSigned: key.isSigned, position: evidence.position,
                commitmentEnd: endingAt.flatMap { key.isSigned || key.statedAt < $0 ? $0 : nil })
        }
    }

    var renewalsInOrder: [(key: StatedRenewal, value: Provenance)] {
        inOrder(renewals) { key, value in
            Order(
                statedAt: key.statedAt, isSigned: key.isSigned, receivedAt: value.receivedAt,
                position: value.position, text: key.renewal.text)
        }
    }

    /// Google's facts by the time of the answer. Nothing else counts, so that the order of arrival does not.
    var purchasesInOrder: [(key: StatedPurchase, value: Provenance)] {
        if purchases.count < 2 { return Array(purchases) }
        return purchases.sorted { left, right in
            if left.key.statedAt != right.key.statedAt { return left.key.statedAt < right.key.statedAt }
            return left.key.purchase.text.lexicographicallyPrecedes(right.key.purchase.text)
        }
    }

    private func inOrder<Key, Value>(
        _ entries: [Key: Value], by order: (Key, Value) -> Order
    ) -> [(key: Key, value: Value)] {
        if entries.count < 2 { return Array(entries) }
        return entries.map { (entry: $0, order: order($0.key, $0.value)) }.sorted { $0.order < $1.order }.map(\.entry)
    }
}

private struct Order: Comparable {
    let statedAt: Instant
    let isSigned: Bool
    let receivedAt: Instant
    let position: Int64
    var isTakenBack = false
    var expiresDate = Instant.earliest
    let text: [UInt8]

    static func < (left: Order, right: Order) -> Bool {
        switch criterion(left, right) {
        case .statedAt: left.statedAt < right.statedAt
        case .isSigned: right.isSigned
        case .arrival: (left.receivedAt, left.position) < (right.receivedAt, right.position)
        case .isTakenBack: right.isTakenBack
        case .expiresDate: left.expiresDate < right.expiresDate
        case .text: left.text.lexicographicallyPrecedes(right.text)
        }
    }

    /// The first difference between two reports, which decides their order.
    static func criterion(_ left: Order, _ right: Order) -> SubscriptionFacts.OrderCriterion {
        if left.statedAt != right.statedAt { return .statedAt }
        if left.isSigned != right.isSigned { return .isSigned }
        if !left.isSigned, (left.receivedAt, left.position) != (right.receivedAt, right.position) { return .arrival }
        if left.isSigned, left.isTakenBack != right.isTakenBack { return .isTakenBack }
        if left.isSigned, left.expiresDate != right.expiresDate { return .expiresDate }
        return .text
    }
}

extension Order {
    init(_ transaction: borrowing Transaction, _ statement: SubscriptionFacts.Statement, text: [UInt8]) {
        self.init(
            statedAt: statement.statedAt, isSigned: statement.isSigned, receivedAt: statement.receivedAt,
            position: statement.position, isTakenBack: transaction.isCancelled,
            expiresDate: transaction.expiresDate ?? .earliest, text: text)
    }
}
