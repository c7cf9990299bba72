extension SubscriptionFacts {
    /// What ties the line to others of its customer, each with the first event that said so: `account`,
    /// `app_transaction`, and as `subscription` another line that came in one notification with it or that it was
    /// migrated from.
    ///
    /// A row that came through family sharing carries the buyer's account token, which does not make the member the
    /// buyer. An `appTransactionId` is the member's own.
    ///
    /// - Parameter last: Of the events up to this position alone.
    package func customerKeys(upTo last: Int64 = .max) -> [CustomerKey: Int64] {
        var keys: [CustomerKey: Int64] = [:]
        func add(_ kind: CustomerKey.Kind, _ id: String?, _ position: Int64) {
            // Nothing of Apple's is so long, and an index could not hold it.
            guard let id, (1...LinkStatement.idBytesMax).contains(id.utf8.count) else { return }
            let key = CustomerKey(kind, id)
            keys[key] = min(keys[key] ?? position, position)
        }
        var shared: Set<String> = []
        for (transaction, statement) in transactions
        where statement.position <= last && transaction.fact.isFamilyShared {
            shared.insert(transaction.fact.transactionId)
        }
        for (transaction, statement) in transactions where statement.position <= last {
            add(.appTransaction, transaction.fact.appTransactionId, statement.position)
            if let previous = transaction.fact.previousOriginalTransactionId,
                ExactText(previous) != ExactText(originalTransactionId)
            {
                add(.subscription, previous, statement.position)
            }
            if !shared.contains(transaction.fact.transactionId) {
                add(.account, transaction.fact.appAccountToken, statement.position)
            }
        }
        for (stated, evidence) in renewals where evidence.position <= last {
            add(.appTransaction, stated.renewal.fact.appTransactionId, evidence.position)
        }
        for (companion, position) in companions where position <= last && companion != ExactText(originalTransactionId)
        {
            add(.subscription, companion.text, position)
        }
        return keys
    }

    /// Whether an event behind the position stated something that was not known before.
    package func hasNews(since position: Int64) -> Bool {
        transactions.values.contains { $0.position > position } || renewals.values.contains { $0.position > position }
            || companions.values.contains { $0 > position }
    }
}
