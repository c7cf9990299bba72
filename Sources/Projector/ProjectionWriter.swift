import EventLog
import Postgres
import Subscriptions

/// A line as the projector holds it while it folds a batch.
struct ProjectedLine: Sendable {
    var facts: SubscriptionFacts
    /// The last event that said something about the line.
    var position: Int64
    /// What its rows say now, so that only those are written that change; nil where that is not known.
    var written: Subscription?
    /// It has no row yet, so that its rows can be copied in.
    var isNew = false
}

/// Turns folded lines into the rows of the projection tables.
struct ProjectionWriter: Sendable {
    let streamId: Int32
    let products: ProductCatalog
    let tables: ProjectionTables

    /// What the facts of lines amount to.
    func subscriptions(_ lines: [ProjectedLine]) -> [Subscription] {
        lines.map { Subscription($0.facts, products: products) }
    }

    /// Steps that bring all rows of the given lines to what their facts amount to.
    func steps(_ lines: [ProjectedLine], _ subscriptions: [Subscription]) -> [Step] {
        var new: [SubscriptionHead] = []
        var known: [SubscriptionHead] = []
        var unknown: [String] = []
        var changes = RowChanges()
        for (line, subscription) in zip(lines, subscriptions) {
            changes.add(from: line.written, to: subscription)
            let head = SubscriptionHead(line, subscription)
            if line.isNew, tables.takesCopies { new.append(head) } else { known.append(head) }
            if !line.isNew, line.written == nil { unknown.append(line.facts.originalTransactionId) }
        }

        var steps: [Step] = []
        if !new.isEmpty {
            steps.append(Step(ProjectionStatements.copySubscriptions, copying: heads(new)))
        }
        if !known.isEmpty {
            steps.append(Step(ProjectionStatements.writeSubscriptions, parameters(known)))
        }
        if !unknown.isEmpty {
            steps.append(Step(ProjectionStatements.deleteAllTransactions, [Parameter(streamId), .array(unknown)]))
            steps.append(Step(ProjectionStatements.deleteAllPeriods, [Parameter(streamId), .array(unknown)]))
        }
        if !changes.oldTransactions.isEmpty {
            steps.append(
                Step(
                    ProjectionStatements.deleteTransactions,
                    [
                        Parameter(streamId), .array(changes.oldTransactions.map(\.line)),
                        .array(changes.oldTransactions.map(\.transactionId)),
                    ]))
        }
        if !changes.newTransactions.isEmpty {
            steps.append(
                tables.takesCopies
                    ? Step(ProjectionStatements.copyTransactions, copying: transactions(changes.newTransactions))
                    : Step(ProjectionStatements.writeTransactions, transactionParameters(changes.newTransactions)))
        }
        if !changes.oldPeriods.isEmpty {
            steps.append(
                Step(
                    ProjectionStatements.deletePeriods,
                    [
                        Parameter(streamId), .array(changes.oldPeriods.map(\.line)),
                        .array(changes.oldPeriods.map(\.period.transactionId)),
                        .array(changes.oldPeriods.map(\.period.cause.rawValue)),
                    ]))
        }
        if !changes.newPeriods.isEmpty {
            steps.append(
                tables.takesCopies
                    ? Step(ProjectionStatements.copyPeriods, copying: periods(changes.newPeriods))
                    : Step(ProjectionStatements.writePeriods, periodParameters(changes.newPeriods)))
        }
        return steps
    }

    /// Rows that may be there already.
    private func parameters(_ heads: [SubscriptionHead]) -> [Parameter] {
        [
            Parameter(streamId),
            .array(heads.map(\.originalTransactionId)),
            .array(heads.map(\.productId)),
            .array(heads.map(\.renewal.autoRenewStatus)),
            .array(heads.map(\.renewal.autoRenewProductId)),
            .array(heads.map(\.renewal.isInBillingRetryPeriod)),
            .array(heads.map(\.expirationIntent)),
            .array(heads.map(\.accessEndsAt)),
            .array(heads.map(\.position)),
            .array(heads.map { JSONText(utf8: $0.facts) }),
            .array(heads.map(\.renewal.renewalDate)),
            .array(heads.map(\.renewal.renewalPrice)),
            .array(heads.map(\.renewal.currency)),
            .array(heads.map(\.priceIncreaseStatus)),
        ]
    }
}
