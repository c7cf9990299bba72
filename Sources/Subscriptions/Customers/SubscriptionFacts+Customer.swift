import Encoding

extension SubscriptionFacts {
    /// Returns the keys that link the subscription to others of its customer, each with the position of the first event
    /// that reported it: `account`, `app_transaction`, and as `subscription` another subscription that arrived in the
    /// same notification or from which this one was migrated.
    ///
    /// A family-shared row carries the buyer's account token, which does not identify the member. An `appTransactionId`
    /// is always the member's own. ``CustomerKey/nilAccountToken`` is no key.
    ///
    /// - Parameter last: Only events up to this position are considered.
    package func customerKeys(upTo last: Int64 = .max) -> [CustomerKey: Int64] {
        var keys: [CustomerKey: Int64] = [:]
        func add(_ kind: CustomerKey.Kind, _ id: String?, _ position: Int64) {
            guard let key = CustomerKey(stated: kind, id) else { return }
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
                ByteString(previous) != ByteString(originalTransactionId)
            {
                add(.subscription, previous, statement.position)
            }
            let isBuyers = shared.contains(transaction.fact.transactionId)
            if !isBuyers, transaction.fact.appAccountToken != CustomerKey.nilAccountToken {
                add(.account, transaction.fact.appAccountToken, statement.position)
            }
        }
        for (stated, evidence) in renewals where evidence.position <= last {
            add(.appTransaction, stated.renewal.fact.appTransactionId, evidence.position)
        }
        for (companion, position) in companions where position <= last && companion != ByteString(originalTransactionId)
        {
            add(.subscription, companion.text, position)
        }
        return keys
    }

    /// True if an event after the position reported a fact that was not known before.
    package func hasNews(since position: Int64) -> Bool {
        transactions.values.contains { $0.position > position } || renewals.values.contains { $0.position > position }
            || companions.values.contains { $0 > position }
    }
}
