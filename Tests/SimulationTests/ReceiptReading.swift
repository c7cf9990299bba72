import Encoding
import Simulation
import Subscriptions
import Testing

/// A request of `verifyReceipt`.
func receiptRequest(_ receipt: [UInt8], password: String? = testApp.sharedSecret) -> [UInt8] {
    var writer = JSONWriter()
    writer.object { writer in
        writer.member("receipt-data", Base64.text(receipt))
        writer.member("password", password)
    }
    return writer.bytes
}

/// Access as the answers of `verifyReceipt` show it, read by the rules of the domain and without the server's code.
struct ReceiptReading {
    struct Row {
        let transactionId: String
        let subscription: String
        let product: String
        let start: Instant
        let end: Instant?
        let cancelled: Instant?
        let isUpgraded: Bool
        let isMember: Bool
    }

    struct Pending {
        let autoRenew: String
        let retry: String?
        let intent: String?
        let graceEnd: Instant?
    }

    private(set) var rows: [String: Row] = [:]
    private(set) var pending: [String: Pending] = [:]

    /// Adds the rows of an answer. Rows of earlier answers remain, as those of old receipts are not repeated.
    mutating func add(_ answer: [UInt8]) throws {
        let root = try JSONDocument(answer).root
        pending = [:]
        let receipt = try #require(root["receipt"])
        for element in receipt["in_app"]?.elements ?? [receipt] { try add(row: element) }
        for key: StaticString in ["latest_receipt_info", "latest_expired_receipt_info"] {
            guard let list = root[key] else { continue }
            for element in list.isArray ? list.elements : [list] { try add(row: element) }
        }
        for element in root["pending_renewal_info"]?.elements ?? [] {
            pending[try #require(element.string("original_transaction_id"))] = Pending(
                autoRenew: try #require(element.string("auto_renew_status")),
                retry: element.string("is_in_billing_retry_period"), intent: element.string("expiration_intent"),
                graceEnd: Self.instant(element.string("grace_period_expires_date_ms")))
        }
    }

    private mutating func add(row: JSONValue) throws {
        let id = try #require(row.string("transaction_id"))
        rows[id] = Row(
            transactionId: id, subscription: try #require(row.string("original_transaction_id")),
            product: try #require(row.string("product_id")),
            start: try #require(Self.instant(row.string("purchase_date_ms"))),
            // Epoch milliseconds in the old style, a date in the new one.
            end: Self.instant(row.string("expires_date_ms") ?? row.string("expires_date")),
            cancelled: Self.instant(row.string("cancellation_date_ms")),
            isUpgraded: row.string("is_upgraded") == "true",
            isMember: ["FAMILY_SHARED", "ASSIGNED"].contains(row.string("in_app_ownership_type")))
    }

    private static func instant(_ milliseconds: String?) -> Instant? {
        milliseconds.flatMap { Int64($0) }.flatMap { Instant(milliseconds: $0) }
    }

    /// Whether a period of the subscription contains the instant. A cancelled purchase counts as never made, but the
    /// period of an upgraded one, and of a family member, ends with the cancellation.
    func isPaid(_ subscription: String, at instant: Instant) -> Bool {
        rows.values.contains { row in
            guard row.subscription == subscription, !row.product.hasSuffix(".coins"), row.start <= instant else {
                return false
            }
            guard let cancelled = row.cancelled else { return instant < row.end ?? .latest }
            return (row.isUpgraded || row.isMember) && instant < min(cancelled, row.end ?? .latest)
        }
    }

    /// Whether a period or grace gives access at the instant of the latest answer.
    func isActive(_ subscription: String, at instant: Instant) -> Bool {
        if isPaid(subscription, at: instant) { return true }
        guard let renewal = pending[subscription], renewal.autoRenew == "1", renewal.retry == "1",
            let graceEnd = renewal.graceEnd
        else { return false }
        return instant < graceEnd
    }
}

extension ReceiptReading.Pending {
    /// Whether the domain's decision table has a row for these values.
    func isInTable(at instant: Instant) -> Bool {
        let grace = graceEnd.map { instant < $0 ? "future" : "past" } ?? "missing"
        return switch (autoRenew, retry, intent) {
        case (_, nil, nil): grace == "missing"
        case ("1", "1", "2"): true
        case ("0", "0", "2"): grace != "future"
        case ("0", "1", "1"), ("0", "1", "2"): true
        case ("0", nil, "1"), ("0", "0", "1"): grace == "missing"
        case ("0", "0", "3"), (_, "0", "4"): grace == "missing"
        case (_, _, "5"): true
        default: false
        }
    }
}
