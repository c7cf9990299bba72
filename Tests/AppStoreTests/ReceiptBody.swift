import AppStore
import Encoding
import Subscriptions

/// An answer of verifyReceipt to a question about an app receipt.
///
/// - Parameters:
///   - rows: `latest_receipt_info`.
///   - own: `receipt.in_app`.
func receiptAnswer(
    _ rows: [JSON], own: [JSON] = [], pending: [JSON] = [], at date: String, status: JSON = 0,
    environment: String = "Production"
) -> JSON {
    [
        "status": status, "environment": .text(environment),
        "receipt": [
            "receipt_type": .text(environment), "adam_id": 1_234_567_890, "app_item_id": 1_234_567_890,
            "bundle_id": .text(testBundle), "application_version": "1", "download_id": nil,
            "receipt_creation_date": gmt(date), "receipt_creation_date_ms": milliseconds(date),
            "request_date": gmt(date), "request_date_ms": milliseconds(date),
            "request_date_pst": "unread America/Los_Angeles", "original_application_version": "1.0",
            "in_app": .array(own),
        ],
        "latest_receipt": "MHBsYWlubHkgYSB0ZXN0IHJlY2VpcHQ=", "latest_receipt_info": .array(rows),
        "pending_renewal_info": .array(pending),
    ]
}

/// An answer to a question about an old transaction receipt, whose receipt info is one object.
func transactionAnswer(_ row: JSON, latest: JSON? = nil, status: Int = 0) -> JSON {
    [
        "status": .raw(String(status)), "receipt": row,
        status == 21006 ? "latest_expired_receipt_info" : "latest_receipt_info": latest ?? row,
        "auto_renew_status": 1, "auto_renew_product_id": .text(monthly),
    ]
}

extension JSON {
    /// The answer as one of Apple's hosts gave it.
    func given(
        by host: ReceiptHost = .production, receivedAt: Instant = day("2026-01-01")
    ) throws -> AnswerFromApple {
        AnswerFromApple(
            answer: try ReceiptAnswer(decoding: bytes), host: host, receipt: Receipt(stored: [0x30, 0x00]),
            receivedAt: receivedAt)
    }

    /// The verified answer.
    func verifiedReceipt(
        by host: ReceiptHost = .production, receivedAt: Instant = day("2026-01-01"), subscriptions: [String] = [],
        apps: Apps = Apps([App(bundleId: testBundle, sharedSecrets: [testSecret])])
    ) throws -> VerifiedReceipt {
        try apps.verify(
            given(by: host, receivedAt: receivedAt), of: testBundle, subscriptions: subscriptions)
    }

    /// The event of the verified answer. Equal contents have equal events, except for the key, which depends on bytes.
    func receiptEvent(receivedAt: Instant = day("2026-01-01"), subscriptions: [String] = []) throws -> Event {
        var event = try verifiedReceipt(receivedAt: receivedAt, subscriptions: subscriptions).event
        event.dedupeKey = DedupeKey(bytes: [])
        return event
    }

    /// Changes the `receipt` of an answer.
    func withReceipt(_ changes: KeyValuePairs<String, JSON>) -> JSON {
        with(["receipt": (self["receipt"] ?? [:]).with(changes)])
    }
}
