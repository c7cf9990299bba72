import Encoding

// The seats of a subscription, and their refunds.

extension Subscription {
    /// The number of seats as last reported, without those that were refunded: of all purchases that pay for the period
    /// that ends last. Nil for a subscription without seats.
    package var seats: Int? {
        var last: (end: Instant, seats: Int)?
        for row in transactions {
            guard let seats = row.seats?.left, !row.settled.isRefunded, let end = row.transaction.expiresDate,
                last.map({ $0.end <= end }) ?? true
            else { continue }
            let before = last.map { $0.end == end ? $0.seats : 0 } ?? 0
            let (sum, overflow) = before.addingReportingOverflow(seats)
            last = (end, overflow ? .max : sum)
        }
        return last?.seats
    }

    /// Who invites the members, as the latest purchase states it: `APPLE` or `DEVELOPER`; nil if none does.
    package var seatInvitations: String? {
        transactions.last { $0.seats != nil }?.transaction.additional?.object("multiSeatInfo")?["invitationManagement"]?
            .string
    }

    /// Returns the transactions with the refunds of some of their seats, each from the first statement that has it on. They
    /// pay an amount back, and take no access away. Of seats with several prices, each counts as their average.
    static func refundSeats(in rows: [ResolvedTransaction], _ facts: SubscriptionFacts) -> [ResolvedTransaction] {
        guard rows.contains(where: { $0.seats?.revoked ?? 0 > 0 }) else { return rows }
        let statements = Dictionary(grouping: facts.orderedTransactions) { $0.transaction.value.transactionId }
        return rows.map { row in
            guard let seats = row.seats, seats.revoked > 0, row.settled.revocationDate == nil, !row.settled.isUpgraded,
                let price = row.transaction.price, seats.price != nil
            else { return row }
            var refunds: [(at: Instant, revoked: Int, position: Int64)] = []
            for (stated, statement) in statements[row.transaction.transactionId] ?? [] {
                guard let revoked = stated.value.seats?.revoked else { continue }
                while let last = refunds.last, last.revoked > revoked { refunds.removeLast() }
                if revoked > refunds.last?.revoked ?? 0 {
                    refunds.append((statement.statedAt, revoked, statement.position))
                }
            }
            var before: Int64 = 0
            var result = row
            for refund in refunds {
                guard let sum = seats.share(of: price, for: refund.revoked) else { return row }
                result.amountRefunds.append(
                    .init(at: refund.at, amount: sum - before, position: refund.position))
                before = sum
            }
            guard let last = refunds.last else { return row }
            var transaction = row.settled
            transaction.state(refunded: before, of: price, at: last.at)
            result.boxed = Boxed(transaction)
            result.statedRefunds = result.amountRefunds
            return result
        }
    }
}

extension Transaction {
    /// States that an amount was paid back, which takes no access away.
    mutating func state(refunded: Int64, of price: Int64, at date: Instant) {
        refundedPrice = refunded
        revocationDate = date
        revocationType = Self.amountRefund
        // All of it only if nothing is left.
        revocationPercentage =
            price > 0
            ? min(Int((Double(refunded) / Double(price) * 100_000).rounded()), refunded < price ? 99_999 : 100_000)
            : nil
    }
}
