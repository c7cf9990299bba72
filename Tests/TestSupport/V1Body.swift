import Foundation

/// Makes V1 bodies for tests: a status update with one receipt row, and whatever a test changes in it.
package struct V1Body {
    package static let app = "com.example.magazine"
    package static let secret = "0123456789abcdef0123456789abcdef"

    package var fields: [String: Any]

    /// A month that began at `purchase`, epoch milliseconds.
    package init(
        type: String = "DID_RENEW", line: String = "1000000000000001", transaction: String = "1000000000000001",
        purchase: Int64 = 1_519_084_800_000, expires: Int64 = 1_521_504_000_000
    ) {
        fields = [
            "notification_type": type,
            "environment": "PROD",
            "password": Self.secret,
            "bid": Self.app,
            "auto_renew_status": "true",
            "unified_receipt": [
                "status": 0,
                "environment": "Production",
                "latest_receipt": Data(repeating: 7, count: 96).base64EncodedString(),
                "latest_receipt_info": [
                    [
                        "transaction_id": transaction,
                        "original_transaction_id": line,
                        "product_id": "com.example.magazine.monthly",
                        "purchase_date_ms": String(purchase),
                        "expires_date_ms": String(expires),
                        "quantity": "1",
                    ]
                ],
                "pending_renewal_info": [
                    [
                        "original_transaction_id": line,
                        "product_id": "com.example.magazine.monthly",
                        "auto_renew_product_id": "com.example.magazine.monthly",
                        "auto_renew_status": "1",
                    ]
                ],
            ],
        ]
    }

    /// Distinct bodies: the `number`th transaction of a line of its own.
    package init(number: Int) {
        self.init(
            type: "INITIAL_BUY", line: String(2_000_000_000_000_000 + number),
            transaction: String(2_000_000_000_000_000 + number))
    }

    package subscript(key: String) -> Any? {
        get { fields[key] }
        set { fields[key] = newValue }
    }

    package var bytes: [UInt8] {
        get throws { Array(try JSONSerialization.data(withJSONObject: fields, options: [.sortedKeys])) }
    }
}
