import Encoding
import Subscriptions

/// A decoded answer of verifyReceipt. Not checked, so it must not be trusted.
///
/// - Source: Apple, "responseBody" of the App Store Receipts API.
package struct ReceiptAnswer: Sendable {
    /// The text that contains the answer.
    let document: JSONDocument
    let object: JSONValue
    package let status: ReceiptStatus
    /// Whether Apple suggests to ask again. The key and the value have two spellings each.
    package let isRetryable: Bool?
    /// The bundle id in the decoded receipt; nil if there is none, as in answers about errors.
    package let bundleId: String?
    /// Nil if the answer names none, as those about old transaction receipts; ``Environment/unknown`` if this version
    /// does not know the name.
    package let environment: Environment?
    /// When Apple answered; nil in answers about old transaction receipts.
    package let requestDate: Instant?

    /// The key that contains the decoded receipt.
    static let receiptKey: StaticString = "receipt"

    package init(decoding body: [UInt8]) throws(UnreadableAnswer) {
        let document = try Self.document(body)
        try self.init(document.root, in: document)
    }

    static func document(_ body: [UInt8]) throws(UnreadableAnswer) -> JSONDocument {
        do throws(JSONError) {
            return try JSONDocument(body)
        } catch {
            throw error.problem == .unexpectedEnd ? UnreadableAnswer.cutOff : .notJSON(error)
        }
    }

    /// - Parameter object: A value of the document.
    init(_ object: JSONValue, in document: JSONDocument) throws(UnreadableAnswer) {
        guard object.isObject else { throw .notAnObject }
        var fields = JSONFields(object)
        guard let number = fields.integer("status") else { throw .noStatus }
        self.document = document
        self.object = object
        status = ReceiptStatus(number: number)
        isRetryable = fields.flag("is-retryable") ?? fields.flag("is_retryable")
        environment = fields.text("environment").map { Environment(receiptName: $0) ?? .unknown }
        bundleId = Self.bundleId(object)
        requestDate = object[Self.receiptKey].flatMap { receipt in
            var fields = JSONFields(receipt, base: Self.receiptKey)
            return fields.instant("request_date_ms", "request_date")
        }
    }

    /// The receipt that replaces the one that was asked about; nil if there is none or it is not readable.
    package var latestReceipt: Receipt? {
        guard let text = object["latest_receipt"]?.string else { return nil }
        return try? Receipt(base64: text)
    }

    /// Old transaction receipts name it `bid`, and repeat it in their receipt info.
    private static func bundleId(_ answer: JSONValue) -> String? {
        for key: StaticString in [receiptKey, "latest_receipt_info", "latest_expired_receipt_info"] {
            guard let object = answer[key], object.isObject else { continue }
            var fields = JSONFields(object)
            if let bundleId = fields.text("bundle_id") ?? fields.text("bid") { return bundleId }
        }
        return nil
    }
}

extension Environment {
    /// Nil unless the text is an environment's name in receipts or V1 notifications, which write `PROD`, too. Case
    /// varies.
    init?(receiptName name: String) {
        switch name.lowercased() {
        case "prod", "production": self = .production
        case "sandbox": self = .sandbox
        default: return nil
        }
    }
}
