import Encoding
import Subscriptions

extension ReceiptAnswer {
    /// The rows of the answer, with their defects.
    struct Content {
        var transactions: [Transaction] = []
        var renewals: [RenewalInfo] = []
        var defects: [Defect] = []
    }

    /// Reads the rows. An answer without rows takes nothing away: `in_app` is empty until the app refreshes its receipt.
    func content() -> Content {
        var reader = ReceiptReader(document)
        noteUnreadableLists(in: &reader)
        // What the App Store knows now: an absent cancellation means that there is none.
        let latest =
            reader.transactions(object["latest_receipt_info"], base: "latest_receipt_info", isCurrent: true)
            + reader.transactions(
                object["latest_expired_receipt_info"], base: "latest_expired_receipt_info", isCurrent: true)
        // What the device knew when the receipt was made.
        let own =
            isOfTransactionReceipt
            ? reader.transactions(receipt, base: Self.receiptKey, isCurrent: false)
            : reader.transactions(receipt?["in_app"], base: "receipt.in_app", isCurrent: false)
        var content = Content()
        content.transactions = ReceiptReader.union(latest, own) { $0.completed(by: $1) }
        content.renewals = reader.renewals(
            object["pending_renewal_info"], base: "pending_renewal_info", among: content.transactions)
        var fields = JSONFields(object)
        if content.renewals.isEmpty, isOfTransactionReceipt {
            content.renewals += renewal(of: content.transactions, &fields)
        }
        content.defects = reader.distinctDefects(and: fields.defects + headDefects())
        return content
    }

    private var receipt: JSONValue? {
        object[Self.receiptKey].flatMap { $0.isObject ? $0 : nil }
    }

    /// True for an answer of the iOS 6 style, whose receipt is one transaction.
    private var isOfTransactionReceipt: Bool {
        receipt?["transaction_id"] != nil || receipt?["original_transaction_id"] != nil
    }

    /// The renewal info of the iOS 6 style, which is at the top level of the answer and names no subscription.
    private func renewal(of transactions: [Transaction], _ fields: inout JSONFields) -> [RenewalInfo] {
        let newest = transactions.filter(\.isOfSubscription)
            .max { ($0.purchaseDate ?? .earliest) < ($1.purchaseDate ?? .earliest) }
        let keys: [StaticString] = ["auto_renew_status", "auto_renew_product_id", "expiration_intent"]
        guard keys.contains(where: { object[$0] != nil }), let newest,
            var renewal = fields.renewal(of: newest.originalTransactionId)
        else { return [] }
        renewal.productId = renewal.productId ?? newest.productId
        return [renewal]
    }

    /// The defects of the fields that were read with the status.
    private func headDefects() -> [Defect] {
        var fields = JSONFields(object)
        _ = fields.text("environment")
        guard let receipt else { return fields.defects }
        var inner = JSONFields(receipt, base: Self.receiptKey)
        _ = inner.text("bundle_id")
        if inner.instant("request_date_ms", "request_date") == nil, inner.defects.isEmpty, !isOfTransactionReceipt {
            inner.note("request_date_ms", "is missing, the time of receipt counts")
        }
        return fields.defects + inner.defects
    }

    private func noteUnreadableLists(in reader: inout ReceiptReader) {
        for key: StaticString in ["latest_receipt_info", "latest_expired_receipt_info", "pending_renewal_info"] {
            Self.note(object[key], key.description, in: &reader)
        }
        Self.note(receipt?["in_app"], "receipt.in_app", in: &reader)
    }

    private static func note(_ value: JSONValue?, _ path: String, in reader: inout ReceiptReader) {
        guard let value, !value.isNull, !value.isArray, !value.isObject else { return }
        reader.defects.append(Defect(path: path, problem: "is neither an array nor an object"))
    }
}
