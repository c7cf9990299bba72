import Encoding

// A purchase of another product of the subscription ends a period before its end.

extension Subscription {
    /// What replaced a transaction that had not expired.
    struct Replacement {
        let at: Instant
        let transactionId: String
        let position: Int64

        init(_ row: ResolvedTransaction, at instant: Instant) {
            at = instant
            transactionId = row.transaction.transactionId
            position = row.positions.first ?? 0
        }
    }

    /// The purchase of another product that replaced a transaction before it expired; nil if none did.
    ///
    /// V1 marks the replaced row, though not always. V2 reports an upgrade only by the new transaction, which is of another
    /// product of the subscription and was bought before this one expired.
    static func replacement(of transaction: Transaction, in all: [ResolvedTransaction]) -> Replacement? {
        guard let own = transaction.purchaseDate else { return nil }
        // Transactions are ordered by purchase date, so the first match is the earliest.
        if transaction.isUpgraded {
            for other in all {
                if let bought = other.transaction.purchaseDate, bought > own { return Replacement(other, at: bought) }
            }
            return nil
        }
        guard let end = transaction.expiresDate else { return nil }
        for other in all {
            guard let bought = other.transaction.purchaseDate, bought > own else { continue }
            guard bought < end else { return nil }
            if isOvertaking(other, transaction, in: all) { return Replacement(other, at: bought) }
        }
        return nil
    }

    /// Whether a purchase can replace one of another product that it overtakes. One whose period has no length cannot, nor
    /// a copy of an earlier purchase.
    private static func isOvertaking(
        _ other: ResolvedTransaction, _ transaction: borrowing Transaction, in all: [ResolvedTransaction]
    ) -> Bool {
        guard let bought = other.transaction.purchaseDate, let end = other.transaction.expiresDate, bought < end else {
            return false
        }
        return other.transaction.transactionReason ?? "PURCHASE" == "PURCHASE"
            && other.transaction.productId != transaction.productId
            && (other.isSigned || !isRestored(other, in: all))
    }

    /// Marks as upgraded what a receipt shows as cancelled at the moment at which another product was bought: receipts had
    /// the cancellation of an upgrade before they had the mark, and the customer asked for no refund.
    static func markUpgrades(_ rows: [ResolvedTransaction]) -> [ResolvedTransaction] {
        var marked = rows
        for index in rows.indices where !rows[index].isSigned && rows[index].settled.isRefunded {
            let row = rows[index].settled
            guard row.revocationType == nil, let start = row.purchaseDate, let end = row.expiresDate,
                let revoked = row.revocationDate
            else { continue }
            let isUpgrade = rows.contains { other in
                guard let bought = other.transaction.purchaseDate, start < bought, bought < end, bought <= revoked,
                    revoked <= bought.advanced(byMilliseconds: upgradeMilliseconds)
                else { return false }
                return isOvertaking(other, row, in: rows)
            }
            guard isUpgrade else { continue }
            var (own, settled) = (rows[index].transaction, row)
            (own.isUpgraded, settled.isUpgraded) = (true, true)
            marked[index].boxed = Boxed(own)
            if rows[index].settledByCopy != nil { marked[index].settledByCopy = Boxed(settled) }
        }
        return marked
    }

    /// How long after an upgrade its cancellation is dated at most: seconds, while no refund is granted within a minute.
    private static let upgradeMilliseconds: Int64 = 60_000

    /// True for a copy of a purchase that was made before: its date is that of the restore.
    private static func isRestored(_ row: ResolvedTransaction, in all: [ResolvedTransaction]) -> Bool {
        guard let orderLine = row.transaction.webOrderLineItemId else { return false }
        return all.contains {
            $0.transaction.webOrderLineItemId == orderLine
                && $0.transaction.transactionId != row.transaction.transactionId
                && ($0.transaction.purchaseDate ?? .latest) < (row.transaction.purchaseDate ?? .earliest)
        }
    }
}
