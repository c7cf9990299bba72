/// All that was ever stated about one subscription line: a set that only grows.
///
/// Because it is a set, the order in which statements arrive and how often they do cannot matter. What the facts
/// amount to is worked out from the whole set by ``Subscription``.
package struct SubscriptionFacts: Sendable, Hashable {
    package let originalTransactionId: String
    package private(set) var transactions: [Transaction: Statement] = [:]
    package private(set) var renewals: Set<RenewalStatement> = []

    /// When something was stated, and by which event.
    package struct Statement: Sendable, Hashable {
        /// The latest time for which it was stated, by Apple's clock as well as it is known.
        package var statedAt: Instant
        /// When we first learned of the statement with that time.
        package var receivedAt: Instant
        /// The first event that said so: the evidence to show.
        package var position: Int64
    }

    package struct RenewalStatement: Sendable, Hashable {
        package let renewal: RenewalInfo
        package let statedAt: Instant
        package let receivedAt: Instant
        package let position: Int64
    }

    package init(originalTransactionId: String) {
        self.originalTransactionId = originalTransactionId
    }

    /// Adds what the facts say about this line. Facts of other lines are passed over.
    ///
    /// - Parameter occurredAt: The event's own time. Without one the time of receipt stands in for it, the only
    ///   bound that is left.
    package mutating func fold(_ facts: Facts, occurredAt: Instant?, receivedAt: Instant, position: Int64) {
        let statedAt = occurredAt ?? receivedAt
        for transaction in facts.transactions where transaction.originalTransactionId == originalTransactionId {
            merge(transaction, Statement(statedAt: statedAt, receivedAt: receivedAt, position: position))
        }
        for renewal in facts.renewals where renewal.originalTransactionId == originalTransactionId {
            renewals.insert(
                RenewalStatement(renewal: renewal, statedAt: statedAt, receivedAt: receivedAt, position: position))
        }
    }

    /// One content keeps its latest time (so that it wins over older contents) and its first evidence.
    private mutating func merge(_ transaction: Transaction, _ statement: Statement) {
        guard let known = transactions[transaction] else {
            transactions[transaction] = statement
            return
        }
        var latest =
            (known.statedAt, known.receivedAt) < (statement.statedAt, statement.receivedAt) ? statement : known
        latest.position = min(known.position, statement.position)
        transactions[transaction] = latest
    }
}

// MARK: - JSON

extension SubscriptionFacts {
    /// The canonical text: equal sets give equal bytes.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("transactions")
            writer.array(orderedTransactions) { writer, entry in
                writer.object { writer in
                    writer.key("fact")
                    entry.transaction.write(to: &writer)
                    writeStatement(entry.statement, to: &writer)
                }
            }
            writer.key("renewals")
            writer.array(orderedRenewals) { writer, entry in
                writer.object { writer in
                    writer.key("fact")
                    entry.renewal.write(to: &writer)
                    writeStatement(
                        Statement(statedAt: entry.statedAt, receivedAt: entry.receivedAt, position: entry.position),
                        to: &writer)
                }
            }
        }
    }

    private func writeStatement(_ statement: Statement, to writer: inout JSONWriter) {
        writer.member("statedAt", statement.statedAt)
        writer.member("receivedAt", statement.receivedAt)
        writer.member("position", statement.position)
    }

    package init(originalTransactionId: String, json: JSONValue) throws(FactsError) {
        self.init(originalTransactionId: originalTransactionId)
        for element in try json.requiredElements("transactions") {
            let transaction = try Transaction(json: try element.requiredFact())
            transactions[transaction] = try Statement(json: element)
        }
        for element in try json.requiredElements("renewals") {
            let statement = try Statement(json: element)
            renewals.insert(
                RenewalStatement(
                    renewal: try RenewalInfo(json: try element.requiredFact()), statedAt: statement.statedAt,
                    receivedAt: statement.receivedAt, position: statement.position))
        }
    }
}

extension SubscriptionFacts.Statement {
    fileprivate init(json: JSONValue) throws(FactsError) {
        guard let statedAt = try json.instant("statedAt") else { throw FactsError(member: "statedAt") }
        guard let receivedAt = try json.instant("receivedAt") else { throw FactsError(member: "receivedAt") }
        guard let position = json["position"]?.int64 else { throw FactsError(member: "position") }
        self.init(statedAt: statedAt, receivedAt: receivedAt, position: position)
    }
}

extension JSONValue {
    fileprivate func requiredFact() throws(FactsError) -> JSONValue {
        guard let fact = self["fact"] else { throw FactsError(member: "fact") }
        return fact
    }
}

// MARK: - Order

extension SubscriptionFacts {
    package typealias OrderedTransaction = (transaction: Transaction, statement: Statement)

    /// Oldest statement first. Statements of one time are put in the order of their receipt, and then of their
    /// text, so that there is one order whatever came first.
    package var orderedTransactions: [OrderedTransaction] {
        transactions.map { (transaction: $0.key, statement: $0.value) }.sorted { left, right in
            let leftKey = (left.statement.statedAt, left.statement.receivedAt, left.statement.position)
            let rightKey = (right.statement.statedAt, right.statement.receivedAt, right.statement.position)
            if leftKey != rightKey { return leftKey < rightKey }
            return canonicalText(left.transaction.write).lexicographicallyPrecedes(
                canonicalText(right.transaction.write))
        }
    }

    /// As `orderedTransactions`, for renewal statements.
    package var orderedRenewals: [RenewalStatement] {
        renewals.sorted { left, right in
            let leftKey = (left.statedAt, left.receivedAt, left.position)
            let rightKey = (right.statedAt, right.receivedAt, right.position)
            if leftKey != rightKey { return leftKey < rightKey }
            return canonicalText(left.renewal.write).lexicographicallyPrecedes(canonicalText(right.renewal.write))
        }
    }
}

private func canonicalText(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    write(&writer)
    return writer.bytes
}
