import Encoding

// The rules of the fold of a subscription, each made where the fold applies it.

extension AccessPeriod.Cut {
    /// The rule that ends a period for this reason.
    var rule: ExplanationRule {
        switch self {
        case .upgraded: .replacedByUpgrade
        case .familyRevoked: .familyRevoked
        case .assignmentRevoked: .assignmentRevoked
        case .unknownRevocation: .unknownRevocation
        case .refundedInPart: .refundedPart
        case .refunded: .refundedWhole
        case .revoked: .revoked
        case .switchedOff: .graceCutSwitchOff
        case .endedByStatus: .endedByStatus
        }
    }
}

extension AppliedRule {
    /// - Parameters:
    ///   - period: As the rule gives it, before it is cut.
    ///   - payer: Nil for grace.
    static func giving(
        _ rule: ExplanationRule, _ period: AccessPeriod, by payer: ReportingPeriod.PayerState? = nil
    ) -> AppliedRule {
        var applied = AppliedRule(
            rule, transactionId: period.transactionId, productId: period.productId,
            period: Self.range(period.start, period.end), positions: [period.position])
        applied.payer = payer
        return applied
    }

    /// - Parameters:
    ///   - period: Before it is cut.
    ///   - positions: Empty for what the transaction itself states.
    ///   - replacement: The transaction that replaced it.
    static func cutting(
        _ period: AccessPeriod, at instant: Instant, _ cut: AccessPeriod.Cut, _ positions: [Int64],
        by replacement: String? = nil
    ) -> AppliedRule {
        AppliedRule(
            cut.rule, transactionId: period.transactionId, causeTransactionId: replacement,
            productId: period.productId, period: Self.range(period.start, period.end), at: instant,
            positions: positions)
    }

    /// A full refund.
    ///
    /// - Parameter positions: Empty for what the transaction itself states.
    static func takingBack(_ transaction: Transaction, _ positions: [Int64]) -> AppliedRule {
        AppliedRule(
            .refundedWhole, transactionId: transaction.transactionId, productId: transaction.productId,
            period: Self.range(transaction.purchaseDate, transaction.expiresDate), at: transaction.revocationDate,
            positions: positions)
    }

    /// - Parameters:
    ///   - period: The grace period that would follow the transaction.
    ///   - positions: Empty for what the transaction itself states.
    static func takingBackGrace(
        of transaction: Transaction, _ period: Range<Instant>, _ positions: [Int64] = []
    ) -> AppliedRule {
        AppliedRule(
            .graceTakenBack, transactionId: transaction.transactionId, productId: transaction.productId,
            period: period, at: transaction.revocationDate, positions: positions)
    }

    /// A purchase that gives no access.
    ///
    /// - Parameter instant: When it was made, if its dates are the reason.
    static func withoutAccess(
        _ rule: ExplanationRule, _ transaction: borrowing Transaction, at instant: Instant? = nil, _ position: Int64
    ) -> AppliedRule {
        var applied = AppliedRule(
            rule, transactionId: transaction.transactionId, productId: transaction.productId, at: instant,
            positions: [position])
        applied.revocation = GrantStatement.revocation(of: transaction)
        return applied
    }

    static func refundingUnits(
        of transaction: Transaction, _ refund: Subscription.ResolvedTransaction.UnitRefund
    ) -> AppliedRule {
        var applied = withoutAccess(.unitsRefunded, transaction, at: refund.at, refund.position)
        applied.units = AppliedRule.Units(bought: transaction.quantity ?? 1, left: refund.left)
        return applied
    }

    static func refundingAmount(
        of transaction: Transaction, _ refund: Subscription.ResolvedTransaction.AmountRefund
    ) -> AppliedRule {
        var applied = withoutAccess(.amountRefunded, transaction, at: refund.at, refund.position)
        applied.amount =
            refund.amount == transaction.price
            ? nil : AppliedRule.Amount(thousandths: refund.amount, currency: transaction.currency)
        return applied
    }

    /// A purchase that belongs to another subscription by a later statement.
    static func movingAway(_ move: SubscriptionFacts.Move) -> AppliedRule {
        AppliedRule(
            .movedTo, transactionId: move.transaction.transactionId, productId: move.transaction.productId,
            period: Self.range(move.transaction.purchaseDate, move.transaction.expiresDate),
            at: move.at, positions: [move.position],
            key: CustomerKey(.subscription, move.transaction.originalTransactionId))
    }

    /// Another end in a later answer of Google about the same order.
    static func moving(_ transaction: Transaction, _ move: PurchaseTrack.Move) -> AppliedRule {
        let isExtended = move.from < move.to && !move.isRestored
        return AppliedRule(
            isExtended ? .extended : .laterStatementWins, transactionId: transaction.transactionId,
            productId: transaction.productId, period: Self.range(min(move.from, move.to), max(move.from, move.to)),
            at: move.statedAt, positions: [move.position])
    }

    /// - Parameters:
    ///   - transaction: As its own reports state it.
    ///   - settled: With the revocation of its copies.
    ///   - copy: The copy in the report that decides.
    static func settling(
        _ transaction: Transaction, as settled: Transaction, by copy: Transaction,
        _ statement: SubscriptionFacts.Statement
    ) -> AppliedRule {
        let isRestored = settled.revocationDate == nil
        return AppliedRule(
            isRestored ? .laterStatementWins : .refundedWithCopy,
            transactionId: transaction.transactionId, causeTransactionId: copy.transactionId,
            productId: transaction.productId,
            period: isRestored ? Self.range(transaction.purchaseDate, transaction.expiresDate) : nil,
            at: settled.revocationDate ?? statement.statedAt)
    }

    /// Of two equally recent reports, the one that takes the purchase back decides.
    static func tie(_ transaction: Transaction, _ statement: SubscriptionFacts.Statement) -> AppliedRule {
        AppliedRule(
            .tieTakesBack, transactionId: transaction.transactionId, productId: transaction.productId,
            at: statement.statedAt, positions: [statement.position])
    }

    /// Nil for an interval that is empty, as of a transaction whose dates are wrong.
    fileprivate static func range(_ start: Instant?, _ end: Instant?) -> Range<Instant>? {
        guard let start, case let end = end ?? .latest, start < end else { return nil }
        return start..<end
    }
}

/// Explains how the reports about each transaction are merged.
struct StatementRules {
    private var latest: [String: SubscriptionFacts.OrderedTransaction] = [:]

    /// The first report about a transaction.
    mutating func add<Rules: RuleCollector>(
        _ transaction: Boxed<Transaction>, _ statement: SubscriptionFacts.Statement, _: inout Rules
    ) {
        guard Rules.isCollecting else { return }
        latest[transaction.value.transactionId] = (transaction, statement)
    }

    /// A further report about a transaction.
    ///
    /// - Parameters:
    ///   - earlier: The transaction as merged from the reports before.
    ///   - merged: With this report.
    mutating func merge<Rules: RuleCollector>(
        _ transaction: Boxed<Transaction>, _ statement: SubscriptionFacts.Statement, into earlier: Transaction,
        giving merged: Transaction, _ rules: inout Rules
    ) {
        guard Rules.isCollecting else { return }
        let id = merged.transactionId
        let report: SubscriptionFacts.OrderedTransaction = (transaction, statement)
        // The position is that of the earliest report with this content. If a report in between has other content, a later
        // event has repeated it: see ``ExplainedCustomers/missingEvidence``.
        let isRepeat =
            statement.firstStatedAt < statement.statedAt
            && latest[id].map { statement.firstStatedAt <= $0.statement.statedAt } ?? false
        func note(
            _ rule: ExplanationRule, _ period: Range<Instant>?, takesBack: AppliedRule.TakenBack? = nil
        ) {
            var applied = AppliedRule(
                rule, transactionId: id, productId: merged.productId, period: period, at: statement.statedAt,
                positions: isRepeat ? [] : [statement.position])
            applied.takenBack = takesBack
            rules.collect(applied)
        }
        if let before = earlier.expiresDate, let now = merged.expiresDate, before != now {
            note(before < now ? .extended : .laterStatementWins, min(before, now)..<max(before, now))
        }
        if earlier.revocationDate != nil || earlier.isUpgraded, merged.revocationDate == nil, !merged.isUpgraded {
            let takenBack = earlier.revocationDate.flatMap { at in
                latest[id].map {
                    AppliedRule.TakenBack(rule: earlier.endingRule, at: at, position: $0.statement.position)
                }
            }
            note(
                .laterStatementWins, AppliedRule.range(merged.purchaseDate, merged.expiresDate), takesBack: takenBack)
        }
        if let last = latest[id], SubscriptionFacts.criterion(last, report) == .isTakenBack { note(.tieTakesBack, nil) }
        latest[id] = report
    }
}

extension AppliedRule {
    /// Names the event that states what the rule rests on, if the fold did not name it: of the reports that say the same,
    /// the earliest one, and not another report that named the date or the purchase before.
    func withEvidence(in facts: SubscriptionFacts) -> AppliedRule {
        switch rule {
        case .paid, .owned, .nonRenewingDuration: return withEvidenceOfDates(in: facts)
        case .noDuration where revocation != nil:
            let stated = facts.transactions.filter { key, _ in
                key.fact.transactionId == transactionId && GrantStatement.revocation(of: key.fact) != nil
            }
            var result = self
            if let position = stated.map(\.value.position).max() { result.positions = [position] }
            return result
        case _ where positions.isEmpty && (rule.effect == .cuts || rule.effect == .removes):
            return withEvidenceOfEnd(in: facts)
        default: return self
        }
    }

    /// The earliest report of the purchase. If a later one moved its end to an earlier date, that one.
    private func withEvidenceOfDates(in facts: SubscriptionFacts) -> AppliedRule {
        let stated = facts.transactions.filter { key, _ in
            key.fact.transactionId == transactionId && key.fact.purchaseDate == period?.lowerBound
                && (rule != .paid || key.fact.expiresDate.map { $0 <= period?.upperBound ?? .latest } ?? false)
        }
        guard let first = stated.min(by: { Self.isEarlier($0.value, $1.value) }) else { return self }
        var result = self
        result.positions = [first.value.position]
        if rule == .paid, let end = first.key.fact.expiresDate, end != period?.upperBound {
            result.statedPeriod = Self.range(first.key.fact.purchaseDate, end)
        }
        return result
    }

    private func withEvidenceOfEnd(in facts: SubscriptionFacts) -> AppliedRule {
        guard let at else { return self }
        let ids = Set([transactionId, causeTransactionId].compactMap(\.self))
        let named = facts.transactions.filter { $0.key.fact.revocationDate == at }
        let own = named.filter { ids.contains($0.key.fact.transactionId) }
        let equal = own.filter { $0.key.fact.endingRule == rule }
        var result = self
        guard let first = [equal, own, named].first(where: { !$0.isEmpty })?.min(by: { Self.isEarlier($0.1, $1.1) })
        else {
            result.positions = facts.accountDeletions[at].map { [$0.position] } ?? []
            return result
        }
        result.positions = [first.value.position]
        // What was taken back and then stated again rests on the report after that.
        let isInterrupted = facts.transactions.contains { key, statement in
            key.fact.transactionId == first.key.fact.transactionId && key.fact.statesRevocation
                && !key.fact.isCancelled && first.value.firstStatedAt < statement.statedAt
                && statement.firstStatedAt < first.value.statedAt && statement.statedAt < first.value.statedAt
        }
        if isInterrupted { result.evidenceAt = first.value.statedAt }
        return result
    }

    private static func isEarlier(_ left: SubscriptionFacts.Statement, _ right: SubscriptionFacts.Statement) -> Bool {
        (left.firstStatedAt, left.position) < (right.firstStatedAt, right.position)
    }
}

extension Transaction {
    /// The rule by which a stated revocation or upgrade counts.
    fileprivate var endingRule: ExplanationRule {
        if isRefunded { return .refundedWhole }
        return (revocation?.cut ?? .upgraded).rule
    }
}
