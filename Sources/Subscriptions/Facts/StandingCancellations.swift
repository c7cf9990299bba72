import Encoding

/// The unsigned cancellations of one purchase that no other report takes back.
///
/// Unsigned bodies have no date of their own, so the time that is estimated for them may be earlier than the time at which
/// they were made: a cancellation is made minutes after the date that it states. So a report without a cancellation takes
/// one back only if it is later in both times, stated and received. Stated times are compared in seconds, since the App
/// Store states the same date with and without milliseconds.
struct StandingCancellations {
    /// The places of the reports whose cancellation stands.
    let standing: [Int]
    /// The places of reports after a standing cancellation that do not count: those that do not take it back, and
    /// cancellations that were taken back.
    let overruled: [Int]
    /// When the last of the reports that contradict each other was received; nil if none do.
    let contradictedAt: Instant?

    /// A report about the purchase, or about a copy of it.
    struct Report {
        let transaction: Boxed<Transaction>
        let statement: SubscriptionFacts.Statement

        init(_ report: SubscriptionFacts.OrderedTransaction) {
            transaction = report.transaction
            statement = report.statement
        }

        fileprivate var cancels: Bool {
            !statement.isSigned && transaction.value.isCancelled
        }

        fileprivate var statesNone: Bool {
            !transaction.value.isCancelled && transaction.value.statesRevocation
        }
    }

    /// - Parameter reports: Of one purchase, in order.
    init(_ reports: [Report]) {
        let others = reports.indices.filter { reports[$0].statesNone }
        var (standing, taken): ([Int], [Int]) = ([], [])
        var contradictedAt: Instant?
        for place in reports.indices where reports[place].cancels {
            let cancellation = reports[place].statement
            let stands = cancellation.reports.contains { cancelled in
                !others.contains { reports[$0].statement.reports.contains { $0.takesBack(cancelled) } }
            }
            guard stands else {
                taken.append(place)
                continue
            }
            standing.append(place)
            for other in others {
                guard let at = cancellation.contradicted(by: reports[other].statement) else { continue }
                contradictedAt = max(contradictedAt ?? at, at)
            }
        }
        self.standing = standing
        self.contradictedAt = contradictedAt
        let first = standing.first ?? .max
        overruled = (others + taken).filter { $0 > first }
    }

    /// When the last of the reports about any transaction that contradict each other was received; nil if none do.
    static func contradiction(in facts: SubscriptionFacts) -> Instant? {
        guard areNeeded(for: facts) else { return nil }
        let ordered = facts.orderedTransactions
        return Dictionary(grouping: ordered) { $0.transaction.value.transactionId }.values
            .compactMap { StandingCancellations($0.map(Report.init)).contradictedAt }.max()
    }

    /// True if any report cancels a purchase without a signature, so that there is something to decide.
    static func areNeeded(for facts: SubscriptionFacts) -> Bool {
        facts.transactions.contains { Report(($0.key.boxed, $0.value)).cancels }
    }
}

extension SubscriptionFacts.Statement {
    fileprivate var reports: [Times] { [Times(statedAt: statedAt, receivedAt: receivedAt)] + others }

    /// When the last of the reports was received that contradict each other: they state the same second, or that with the
    /// later date was received first.
    fileprivate func contradicted(by other: Self) -> Instant? {
        var last: Instant?
        for own in reports {
            for report in other.reports {
                let isLater = report.receivedAt > own.receivedAt
                guard report.second == own.second ? isLater : report.second > own.second && !isLater else { continue }
                last = max(last ?? .earliest, max(report.receivedAt, own.receivedAt))
            }
        }
        return last
    }
}

extension SubscriptionFacts.Statement.Times {
    fileprivate var second: Int64 { statedAt.milliseconds / 1000 }

    fileprivate func takesBack(_ cancelled: Self) -> Bool {
        second > cancelled.second && receivedAt > cancelled.receivedAt
    }
}

extension Transaction {
    /// True if the report takes the purchase back, in full or from some time on.
    var isCancelled: Bool { revocationDate != nil || isUpgraded }

    /// Returns this transaction as a report that says nothing about a revocation.
    var withoutRevocation: Transaction {
        var result = self
        result.revocationDate = nil
        result.revocationReason = nil
        result.revocationType = nil
        result.revocationPercentage = nil
        result.isUpgraded = false
        result.statesRevocation = false
        return result
    }
}
