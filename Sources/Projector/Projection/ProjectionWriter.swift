import EventLog
import Postgres
import Subscriptions

/// Turns folded subscriptions into the rows of the projection tables.
struct ProjectionWriter: Sendable {
    let streamId: Int32
    let products: ProductCatalog
    let checks: CheckPolicy
    let tables: ProjectionTables

    /// The subscriptions computed from their facts.
    func subscriptions(_ states: [ProjectedSubscription]) -> [Subscription] {
        states.map { Subscription($0.facts, products: products) }
    }

    /// The steps that update all rows of the given subscriptions to match their facts.
    func steps(_ states: [ProjectedSubscription], _ subscriptions: [Subscription]) -> [Step] {
        var new: [SubscriptionHead] = []
        var known: [SubscriptionHead] = []
        var unknown: [String] = []
        var changes = RowChanges()
        for (state, subscription) in zip(states, subscriptions) {
            changes.add(from: state.written, to: subscription)
            changes.addCheck(from: state.written, to: subscription, isNew: state.isNew, checks)
            let head = SubscriptionHead(state, subscription)
            if state.isNew { new.append(head) } else { known.append(head) }
            if !state.isNew, state.written == nil { unknown.append(state.facts.originalTransactionId) }
        }

        var steps: [Step] = []
        if !new.isEmpty {
            var rows = CopyRows(columns: 25, rows: new.count, rowBytes: 300 + (new.first?.facts.count ?? 0))
            append(new, to: &rows)
            steps.append(Step(ProjectionStatements.copySubscriptions, copying: rows))
        }
        if !known.isEmpty {
            var rows = ArrayRows(columns: 25, rows: known.count, valueBytes: 20)
            append(known, to: &rows)
            steps.append(Step(ProjectionStatements.writeSubscriptions, rows.parameters()))
        }
        if !unknown.isEmpty {
            steps.append(Step(ProjectionStatements.deleteAllTransactions, [Parameter(streamId), .array(unknown)]))
            for periods in [ProjectionStatements.accessPeriods, ProjectionStatements.refundedPeriods] {
                steps.append(Step(periods.deleteAll, [Parameter(streamId), .array(unknown)]))
            }
        }
        if !changes.oldTransactions.isEmpty {
            steps.append(
                Step(
                    ProjectionStatements.deleteTransactions,
                    [
                        Parameter(streamId), .array(changes.oldTransactions.map(\.originalTransactionId)),
                        .array(changes.oldTransactions.map(\.transactionId)),
                    ]))
        }
        if !changes.newTransactions.isEmpty { steps.append(adding(changes.newTransactions)) }
        replace(changes, isRefunded: false, with: ProjectionStatements.accessPeriods, &steps)
        replace(changes, isRefunded: true, with: ProjectionStatements.refundedPeriods, &steps)
        if !changes.oldChecks.isEmpty {
            steps.append(
                Step(ProjectionStatements.deleteChecks, [Parameter(streamId), .array(changes.oldChecks)]))
        }
        if !changes.newChecks.isEmpty {
            steps.append(
                Step(
                    ProjectionStatements.writeChecks,
                    [
                        Parameter(streamId), .array(changes.newChecks.map(\.originalTransactionId)),
                        .array(changes.newChecks.map(\.scheduled.check.dueAt)),
                        .array(changes.newChecks.map(\.scheduled.check.reason.rawValue)),
                        .array(changes.newChecks.map(\.scheduled.hasReceipt)),
                        .array(changes.newChecks.map(\.scheduled.purchaseToken)),
                    ]))
        }
        return steps
    }

    /// Adds the steps that replace the changed rows of a table of periods.
    private func replace(
        _ changes: RowChanges, isRefunded: Bool, with statements: ProjectionStatements.Periods, _ steps: inout [Step]
    ) {
        let old = changes.oldPeriods.filter { $0.reported.isRefunded == isRefunded }
        if !old.isEmpty {
            steps.append(
                Step(
                    statements.delete,
                    [
                        Parameter(streamId), .array(old.map(\.originalTransactionId)),
                        .array(old.map(\.reported.period.transactionId)), .array(old.map(\.reported.cause)),
                    ]))
        }
        let new = changes.newPeriods.filter { $0.reported.isRefunded == isRefunded }
        guard !new.isEmpty else { return }
        var rows = CopyRows(columns: 28, rows: new.count, rowBytes: 200)
        append(new, to: &rows)
        steps.append(Step(statements.copy, copying: rows))
    }

    private func adding(_ transactions: [Subscription.ResolvedTransaction]) -> Step {
        var added = TransactionRows(count: transactions.count)
        for transaction in transactions { added.append(transaction, streamId: streamId) }
        return Step(ProjectionStatements.copyTransactions, copying: added.rows)
    }
}
