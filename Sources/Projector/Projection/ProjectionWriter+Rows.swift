import Encoding
import EventLog
import Postgres
import Subscriptions

/// The values of a row of `subscription`.
struct SubscriptionHead {
    let originalTransactionId: String
    let productId: String?
    /// The most recent renewal info.
    let renewal: RenewalInfo
    let isRenewing: Bool?
    let commitmentEndsAt: Timestamptz?
    let accessEndsAt: Timestamptz?
    let last: Subscription.LastReportingPeriod?
    let position: Int64
    /// The facts as JSON text.
    let facts: [UInt8]
    /// Set for a purchase on Google Play that is part of another subscription.
    let partOf: String?

    init(_ state: ProjectedSubscription, _ subscription: Subscription) {
        originalTransactionId = subscription.originalTransactionId
        productId = subscription.transactions.last?.transaction.productId
        renewal = subscription.renewal(at: .latest)
        isRenewing = subscription.isRenewing(at: .latest)
        accessEndsAt = subscription.access.lazy.map(\.end).max().map { Timestamptz(end: $0) }
        last = subscription.lastReportingPeriod
        let commitmentEnd = last.flatMap { subscription.commitmentEnd(after: $0.period.end) }
        commitmentEndsAt = commitmentEnd.map { Timestamptz(end: $0) }
        position = state.position
        partOf = state.facts.line?.originalTransactionId
        var writer = JSONWriter(bytesExpected: state.facts.textBytesExpected)
        state.facts.write(to: &writer)
        facts = writer.bytes
    }

    var expirationIntent: Int32? { renewal.expirationIntent.flatMap { Int32(exactly: $0) } }
    var priceIncreaseStatus: Int32? { renewal.priceIncreaseStatus.flatMap { Int32(exactly: $0) } }
}

/// Row values, in the column order of the statements that copy or insert them.
extension ProjectionWriter {
    func append(_ heads: [SubscriptionHead], to rows: inout some TableRows) {
        for head in heads {
            rows.beginRow()
            rows.append(streamId)
            rows.append(head.originalTransactionId)
            rows.append(head.productId)
            rows.append(head.isRenewing)
            rows.append(head.renewal.autoRenewProductId)
            rows.append(head.renewal.isInBillingRetryPeriod)
            rows.append(head.expirationIntent)
            rows.append(head.accessEndsAt)
            rows.append(head.position)
            rows.append(utf8: head.facts)
            rows.append(head.renewal.renewalDate)
            rows.append(head.renewal.priceOfRenewal)
            rows.append(head.renewal.currency)
            rows.append(head.priceIncreaseStatus)
            rows.append(head.last?.period.transactionId)
            rows.append(head.last?.cause)
            rows.append(head.last?.period.productId)
            rows.append(head.last?.payerState.rawValue)
            rows.append(head.last?.firstStart)
            rows.append(head.last?.churnReason.kind.rawValue)
            rows.append(head.last?.churnReason.isStated)
            rows.append(head.last.map { Timestamptz(end: $0.period.end) })
            rows.append(head.last?.paidEnd.map { Timestamptz(end: $0) })
            rows.append(head.partOf)
            rows.append(head.commitmentEndsAt)
        }
    }

    func append(_ periods: [RowChanges.SubscriptionPeriod], to rows: inout some TableRows) {
        for (originalTransactionId, reported) in periods {
            let period = reported.period
            rows.beginRow()
            rows.append(streamId)
            rows.append(originalTransactionId)
            rows.append(period.start)
            rows.append(Timestamptz(end: period.end))
            rows.append(reported.cause)
            rows.append(period.cut?.rawValue)
            rows.append(period.transactionId)
            rows.append(period.productId)
            rows.append(period.position)
            rows.append(reported.payerState?.rawValue)
            rows.append(reported.price)
            rows.append(reported.currency)
            rows.append(reported.pricePeriod)
            rows.append(reported.firstStart)
            rows.append(reported.previousEnd.map { Timestamptz(end: $0) })
            rows.append(reported.previousCut?.rawValue)
            rows.append(reported.previousProductId)
            rows.append(reported.effectiveStart.map { Timestamptz(end: $0) })
            rows.append(reported.effectiveEnd)
            rows.append(reported.churnedAt)
            rows.append(narrow: reported.anniversaries?.lowerBound)
            rows.append(narrow: reported.anniversaries?.upperBound)
            rows.append(reported.churnReason?.kind.rawValue)
            rows.append(reported.churnReason?.isStated)
            rows.append(reported.movement?.rawValue)
            rows.append(reported.runStart)
            rows.append(narrow: reported.paymentNumber)
            rows.append(reported.renewal?.name)
        }
    }
}

extension ReportingPeriod {
    /// The value of the column `cause`.
    var cause: String { isRefunded ? "refunded" : period.cause.rawValue }
}

extension Subscription.LastReportingPeriod {
    /// The value of the column `last_cause`.
    var cause: String { isRefunded ? "refunded" : period.cause.rawValue }
}

extension TableRows {
    mutating func append(_ instant: Instant?) {
        append(instant.map { Timestamptz(microsecondsSinceUnixEpoch: $0.milliseconds * 1000) })
    }

    /// Appends a number from Apple; null if it does not fit into `integer`.
    mutating func append(narrow number: Int?) {
        append(number.flatMap { Int32(exactly: $0) })
    }
}
