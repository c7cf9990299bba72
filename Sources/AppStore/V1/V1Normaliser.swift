import Encoding
import Subscriptions

extension V1Notification {
    /// Returns the notification as a normalised event.
    ///
    /// - Parameters:
    ///   - receivedAt: Our clock. Purchases dated after it, such as renewals charged early, are ignored when estimating
    ///     the time of the event.
    ///   - bodyDigest: SHA-256 of the body without the secret; computed if nil.
    package func event(receivedAt: Instant, bodyDigest: [UInt8]? = nil) -> Event {
        var normaliser = normaliser
        return normaliser.event(
            receivedAt: receivedAt, key: DedupeKey(bytes: bodyDigest ?? withoutSecret().evidence.digest))
    }
}

/// Reads one body and collects its defects. Use it once.
struct V1Normaliser: Sendable {
    var body: JSONFields
    /// The bundle id at the top level of the body or in its receipt info; nil if there is none.
    private(set) var bundleId: String?
    private let unified: JSONValue?
    var receipts: ReceiptReader

    init(_ document: JSONDocument) {
        let root = document.root
        body = JSONFields(root)
        unified = root["unified_receipt"].flatMap { $0.isObject ? $0 : nil }
        receipts = ReceiptReader(document)
        bundleId = readBundleId()
    }

    /// The rows of the old receipt info, which has two names: the second is used for expired subscriptions.
    private mutating func oldRows(of subscription: String?) -> [Transaction] {
        receipts.transactions(
            body.object["latest_receipt_info"], base: "latest_receipt_info", of: subscription, isCurrent: false)
            + receipts.transactions(
                body.object["latest_expired_receipt_info"], base: "latest_expired_receipt_info", of: subscription,
                isCurrent: false)
    }

    private mutating func readBundleId() -> String? {
        if let named = body.text("bid") { return named }
        for key: StaticString in ["latest_receipt_info", "latest_expired_receipt_info"] {
            guard let value = body.object[key] else { continue }
            let row = value.isObject ? value : value.elements(atMost: 1).first
            if let row {
                var fields = JSONFields(row)
                if let named = fields.text("bid") { return named }
            }
        }
        return nil
    }

    mutating func event(receivedAt: Instant, key: DedupeKey) -> Event {
        let environment = environment()
        let type = body.text("notification_type")
        if type == nil { body.note("notification_type", "is missing or blank") }
        let namedSubscription = body.identifier("original_transaction_id")
        let old = oldRows(of: namedSubscription)
        let new = receipts.transactions(
            unified?["latest_receipt_info"], base: "unified_receipt.latest_receipt_info", of: namedSubscription,
            isCurrent: true)
        let topCancellation = body.instant("cancellation_date_ms", "cancellation_date", "cancellation_date_pst")
        var transactions = ReceiptReader.union(new, old, merging: Self.merge)
        applyCancellation(at: topCancellation, type: type, subscription: namedSubscription, to: &transactions)
        let changeDate = body.instant(
            "auto_renew_status_change_date_ms", "auto_renew_status_change_date", "auto_renew_status_change_date_pst")
        let subscription = old.first?.originalTransactionId ?? namedSubscription
        var renewals = renewals(subscription: subscription, transactions: transactions, changeDate: changeDate)
        if type == "DID_CHANGE_RENEWAL_PREF" {
            datePreference(receivedAt, subscription: subscription, transactions: transactions, in: &renewals)
        }

        let occurredAt = Self.occurredAt(
            type: type, transactions: transactions, renewals: renewals, changeDate: changeDate,
            cancellation: topCancellation, receivedAt: receivedAt)
        let fingerprint = V1Fingerprint(
            environment: environment, app: bundleId, type: type, autoRenewStatus: body.flag("auto_renew_status"),
            autoRenewProductId: body.text("auto_renew_product_id"), autoRenewStatusChangeDate: changeDate,
            expirationIntent: body.integer("expiration_intent"), originalTransactionId: namedSubscription,
            cancellationDate: topCancellation, transactions: transactions, renewals: renewals)
        return Event(
            source: .appleV1, environment: environment, app: bundleId, type: type, subtype: nil,
            kind: V1Kind.kind(of: type, transactions), dedupeKey: key, fingerprint: fingerprint.digest,
            namedSubscription: namedSubscription, occurredAt: occurredAt, transactions: transactions,
            renewals: renewals, details: unanswerable(type, transactions, namedSubscription),
            defects: receipts.distinctDefects(and: body.defects))
    }

    /// The subscription that a question about a refund names, if it has no rows with the purchase that it is about. Nil for
    /// all other bodies.
    private func unanswerable(
        _ type: String?, _ transactions: [Transaction], _ namedSubscription: String?
    ) -> CanonicalJSON? {
        guard type == "CONSUMPTION_REQUEST", transactions.isEmpty, namedSubscription != nil,
            let named = body.object["original_transaction_id"]
        else { return nil }
        return CanonicalJSON(members: [("originalTransactionId", CanonicalJSON(named))])
    }

    // MARK: Environment

    /// Reads `environment`, which is `PROD` at the top level and `Production` in the unified receipt; case varies.
    private mutating func environment() -> Environment {
        let top = body.text("environment")
        var unifiedFields = unified.map { JSONFields($0, base: "unified_receipt") }
        let inner = unifiedFields?.text("environment")
        let stated = [top, inner].compactMap { $0.flatMap(Environment.init(receiptName:)) }
        if stated.count == 2, stated[0] != stated[1] {
            body.note("environment", "differs from unified_receipt.environment, this one counts")
        }
        guard let environment = stated.first else {
            body.note("environment", "is neither production nor sandbox")
            return .unknown
        }
        return environment
    }

    // MARK: Transactions

    /// The unified receipt takes precedence, since it contains more than the old one. A cancellation in either of them
    /// counts.
    private static func merge(_ new: Transaction, _ old: Transaction) -> Transaction {
        var result = new.completed(by: old)
        result.revocationDate = result.revocationDate ?? old.revocationDate
        result.revocationReason = result.revocationReason ?? old.revocationReason
        result.revocationType = result.revocationType ?? old.revocationType
        result.isUpgraded = result.isUpgraded || old.isUpgraded
        return result
    }

    // MARK: Renewals

    private mutating func renewals(subscription: String?, transactions: [Transaction], changeDate: Instant?)
        -> [RenewalInfo]
    {
        var result = receipts.renewals(
            unified?["pending_renewal_info"], base: "unified_receipt.pending_renewal_info", among: transactions)
        let autoRenewProductId = body.text("auto_renew_product_id")
        let autoRenewStatus = body.flag("auto_renew_status")
        let expirationIntent = body.integer("expiration_intent")
        guard autoRenewStatus != nil || autoRenewProductId != nil || changeDate != nil || expirationIntent != nil,
            let subscription = subscription
                ?? Self.onlySubscription(result, transactions, renewingTo: autoRenewProductId),
            !Self.isOneTimePurchase(subscription, transactions)
        else { return result }

        let index = result.firstIndex { $0.originalTransactionId == subscription } ?? result.count
        if index == result.count { result.append(RenewalInfo(originalTransactionId: subscription)) }
        let newest = transactions.indices.filter { transactions[$0].originalTransactionId == subscription }
            .max { (transactions[$0].purchaseDate ?? .earliest) < (transactions[$1].purchaseDate ?? .earliest) }
        result[index].productId = result[index].productId ?? newest.flatMap { transactions[$0].productId }
        result[index].autoRenewProductId = result[index].autoRenewProductId ?? autoRenewProductId
        result[index].autoRenewStatus = result[index].autoRenewStatus ?? autoRenewStatus
        result[index].autoRenewStatusChangeDate = changeDate
        result[index].expirationIntent = result[index].expirationIntent ?? expirationIntent
        return result
    }

    /// Dates a product choice with the time of receipt, the only bound that V1 gives, so that the later of two choices
    /// takes precedence.
    private mutating func datePreference(
        _ receivedAt: Instant, subscription: String?, transactions: [Transaction], in renewals: inout [RenewalInfo]
    ) {
        let subscription =
            subscription
            ?? Self.onlySubscription(renewals, transactions, renewingTo: body.text("auto_renew_product_id"))
        for index in renewals.indices where subscription.map({ $0 == renewals[index].originalTransactionId }) ?? true {
            guard renewals[index].autoRenewProductId != nil else { continue }
            renewals[index].autoRenewProductChangeDate = receivedAt
        }
    }

    /// True if all rows of the id are one-time purchases. Their refunds may contain the auto-renew fields of an
    /// unrelated subscription.
    private static func isOneTimePurchase(_ subscription: String, _ transactions: [Transaction]) -> Bool {
        var hasRows = false
        for row in transactions.indices where transactions[row].originalTransactionId == subscription {
            guard !transactions[row].isOfSubscription else { return false }
            hasRows = true
        }
        return hasRows
    }

    /// The subscription that the top-level fields are about. Newer bodies do not name it, so it is nil unless only one
    /// subscription is possible.
    private static func onlySubscription(
        _ renewals: [RenewalInfo], _ transactions: [Transaction], renewingTo product: String?
    ) -> String? {
        if renewals.count == 1 { return renewals[0].originalTransactionId }
        let matching = renewals.filter { product != nil && $0.autoRenewProductId == product }
        if matching.count == 1 { return matching[0].originalTransactionId }
        let subscriptions = Set(transactions.filter { $0.expiresDate != nil }.map(\.originalTransactionId))
        return renewals.isEmpty && subscriptions.count == 1 ? subscriptions.first : nil
    }

    // MARK: Time

    /// Estimates when the event happened. V1 notifications have no date of their own, but each is a snapshot, so its
    /// latest date is the closest lower bound of the time at which it was created.
    private static func occurredAt(
        type: String?, transactions: [Transaction], renewals: [RenewalInfo], changeDate: Instant?,
        cancellation: Instant?, receivedAt: Instant
    ) -> Instant? {
        var candidates = transactions.compactMap(\.revocationDate)
        candidates += [changeDate, cancellation].compactMap { $0 }
        if type == "DID_FAIL_TO_RENEW" {
            let failing = Set(renewals.filter { $0.isInBillingRetryPeriod == true }.map(\.originalTransactionId))
            let newest = transactions.filter { row in
                row.expiresDate != nil && (failing.isEmpty || failing.contains(row.originalTransactionId))
            }.max { ($0.purchaseDate ?? .earliest) < ($1.purchaseDate ?? .earliest) }
            candidates += [newest?.expiresDate].compactMap { $0 }
        }
        // The notification was not created in the future; a wrong date must not order it after all others.
        candidates = candidates.map { min($0, receivedAt) }
        candidates += transactions.compactMap(\.purchaseDate).filter { $0 <= receivedAt }
        return candidates.max()
    }
}
