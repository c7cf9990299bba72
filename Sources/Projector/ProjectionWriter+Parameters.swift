import EventLog
import Postgres
import Subscriptions

/// New rows as arrays, for tables that readers wait for: see ``ProjectionTables/takesCopies``.
extension ProjectionWriter {
    func transactionParameters(_ rows: [Subscription.ResolvedTransaction]) -> [Parameter] {
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

    func periodParameters(_ rows: [RowChanges.LinePeriod]) -> [Parameter] {
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
