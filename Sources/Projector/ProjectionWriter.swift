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
}

/// Turns folded lines into the rows of the projection tables.
struct ProjectionWriter: Sendable {
    let streamId: Int32
    let products: ProductCatalog

    /// What the facts of lines amount to.
    func subscriptions(_ lines: [ProjectedLine]) -> [Subscription] {
        lines.map { Subscription($0.facts, products: products) }
    }

    /// Steps that bring all rows of the given lines to what their facts amount to.
    func steps(_ lines: [ProjectedLine], _ subscriptions: [Subscription]) -> [Step] {
        let changes = zip(lines, subscriptions).map { RowChanges(from: $0.written, to: $1) }
        let unknown = lines.filter { $0.written == nil }.map(\.facts.originalTransactionId)
        let oldTransactions = changes.flatMap(\.oldTransactions)
        let oldPeriods = changes.flatMap(\.oldPeriods)
        let newTransactions = changes.flatMap(\.newTransactions)
        let newPeriods = changes.flatMap(\.newPeriods)

        var steps = [Step(ProjectionStatements.writeSubscriptions, heads(lines, subscriptions))]
        if !unknown.isEmpty {
            steps.append(Step(ProjectionStatements.deleteAllTransactions, [Parameter(streamId), .array(unknown)]))
            steps.append(Step(ProjectionStatements.deleteAllPeriods, [Parameter(streamId), .array(unknown)]))
        }
        if !oldTransactions.isEmpty {
            steps.append(
                Step(
                    ProjectionStatements.deleteTransactions,
                    [
                        Parameter(streamId), .array(oldTransactions.map(\.originalTransactionId)),
                        .array(oldTransactions.map(\.transactionId)),
                    ]))
        }
        if !newTransactions.isEmpty {
            steps.append(Step(ProjectionStatements.writeTransactions, transactions(newTransactions)))
        }
        if !oldPeriods.isEmpty {
            steps.append(
                Step(
                    ProjectionStatements.deletePeriods,
                    [
                        Parameter(streamId), .array(oldPeriods.map(\.line)),
                        .array(oldPeriods.map(\.period.transactionId)),
                        .array(oldPeriods.map(\.period.cause.rawValue)),
                    ]))
        }
        if !newPeriods.isEmpty {
            steps.append(Step(ProjectionStatements.writePeriods, periods(newPeriods)))
        }
        return steps
    }

    private func heads(_ lines: [ProjectedLine], _ subscriptions: [Subscription]) -> [Parameter] {
        let renewals = subscriptions.map { $0.renewal(at: .latest) }
        return [
            Parameter(streamId),
            .array(subscriptions.map(\.originalTransactionId)),
            .array(subscriptions.map { $0.transactions.last?.transaction.productId }),
            .array(renewals.map(\.autoRenewStatus)),
            .array(renewals.map(\.autoRenewProductId)),
            .array(renewals.map(\.isInBillingRetryPeriod)),
            .array(renewals.map { $0.expirationIntent.flatMap { Int32(exactly: $0) } }),
            .array(subscriptions.map { $0.access.map(\.end).max().map { Timestamptz(end: $0) } }),
            .array(lines.map(\.position)),
            .array(
                lines.map { line in
                    var writer = JSONWriter()
                    line.facts.write(to: &writer)
                    return JSONText(utf8: writer.bytes)
                }),
            .array(renewals.map(\.renewalDate)),
            .array(renewals.map(\.renewalPrice)),
            .array(renewals.map(\.currency)),
            .array(renewals.map { $0.priceIncreaseStatus.flatMap { Int32(exactly: $0) } }),
        ]
    }

    private func transactions(_ rows: [Subscription.ResolvedTransaction]) -> [Parameter] {
        let all = rows.map(\.transaction)
        return [
            Parameter(streamId),
            .array(all.map(\.originalTransactionId)),
            .array(all.map(\.transactionId)),
            .array(all.map(\.webOrderLineItemId)),
            .array(all.map(\.productId)),
            .array(all.map(\.subscriptionGroupIdentifier)),
            .array(all.map { $0.quantity.flatMap { Int32(exactly: $0) } }),
            .array(all.map(\.purchaseDate)),
            .array(all.map(\.originalPurchaseDate)),
            .array(all.map(\.expiresDate)),
            .array(all.map(\.revocationDate)),
            .array(all.map { $0.revocationReason.flatMap { Int32(exactly: $0) } }),
            .array(all.map(\.isUpgraded)),
            .array(all.map(\.isTrialPeriod)),
            .array(all.map(\.isInIntroOfferPeriod)),
            .array(all.map(\.inAppOwnershipType)),
            .array(all.map(\.promotionalOfferId)),
            .array(all.map(\.offerCodeRefName)),
            .array(all.map(\.appAccountToken)),
            // An array of arrays must be rectangular in SQL, so each list travels as text.
            .array(rows.map { "{" + $0.positions.map(String.init).joined(separator: ",") + "}" }),
            .array(all.map(\.type)),
            .array(all.map(\.revocationType)),
            .array(all.map { $0.revocationPercentage.flatMap { Int32(exactly: $0) } }),
            .array(all.map { $0.offerType.flatMap { Int32(exactly: $0) } }),
            .array(all.map(\.offerIdentifier)),
            .array(all.map(\.offerDiscountType)),
            .array(all.map(\.offerPeriod)),
            .array(all.map(\.storefront)),
            .array(all.map(\.storefrontId)),
            .array(all.map(\.transactionReason)),
            .array(all.map(\.price)),
            .array(all.map(\.currency)),
            .array(all.map(\.appTransactionId)),
            .array(all.map(\.previousOriginalTransactionId)),
            .array(all.map(\.billingPlanType)),
            .array(all.map { row in row.additional.map { JSONB(utf8: $0.utf8) } }),
        ]
    }

    private func periods(_ rows: [RowChanges.LinePeriod]) -> [Parameter] {
        [
            Parameter(streamId),
            .array(rows.map(\.line)),
            .array(rows.map(\.period.start)),
            .array(rows.map { Timestamptz(end: $0.period.end) }),
            .array(rows.map(\.period.cause.rawValue)),
            .array(rows.map(\.period.cut?.rawValue)),
            .array(rows.map(\.period.transactionId)),
            .array(rows.map(\.period.productId)),
            .array(rows.map(\.period.position)),
        ]
    }
}
