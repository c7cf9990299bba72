import Foundation

/// A version 1 body for tests: a status update with one receipt row, which a test can change.
package struct V1Body {
    package static let app = "com.example.magazine"
    package static let secret = "0123456789abcdef0123456789abcdef"

    package var fields: [String: Any]

    /// A body with one period; `purchase` and `expires` in epoch milliseconds.
    package init(
        type: String = "DID_RENEW", subscription: String = "1000000000000001", transaction: String = "1000000000000001",
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
                        "original_transaction_id": subscription,
                        "product_id": "com.example.magazine.monthly",
                        "purchase_date_ms": String(purchase),
                        "expires_date_ms": String(expires),
                        "quantity": "1",
                    ]
                ],
                "pending_renewal_info": [
                    [
                        "original_transaction_id": subscription,
                        "product_id": "com.example.magazine.monthly",
                        "auto_renew_product_id": "com.example.magazine.monthly",
                        "auto_renew_status": "1",
                    ]
                ],
            ],
        ]
    }

    /// The first purchase of a subscription, with ids derived from the number.
    package init(number: Int) {
        self.init(
            type: "INITIAL_BUY", subscription: String(2_000_000_000_000_000 + number),
            transaction: String(2_000_000_000_000_000 + number))
    }

    /// A receipt row; instants in epoch milliseconds.
    package struct Row: Sendable {
        package var id: String
        package var subscription: String
        package var product: String
        package var purchase: Int64
        /// Nil for one-time purchases.
        package var expires: Int64?
        package var cancelled: Int64?
        /// The UUID of the app user who bought.
        package var account: String?

        package init(
            _ id: String, subscription: String, product: String = "com.example.magazine.monthly", purchase: Int64,
            expires: Int64?, cancelled: Int64? = nil, account: String? = nil
        ) {
            self.id = id
            self.subscription = subscription
            self.product = product
            self.purchase = purchase
            self.expires = expires
            self.cancelled = cancelled
            self.account = account
        }
    }

    /// A body with several receipt rows: the state of an Apple Account at one time.
    package init(
        type: String, rows: [Row], subscription: String, autoRenew: Bool, changed: Int64? = nil,
        graceUntil: Int64? = nil
    ) {
        self.init(type: type, subscription: subscription)
        var pending: [String: String] = [
            "original_transaction_id": subscription, "product_id": "com.example.magazine.monthly",
            "auto_renew_product_id": "com.example.magazine.monthly", "auto_renew_status": autoRenew ? "1" : "0",
        ]
        if let graceUntil {
            pending["grace_period_expires_date_ms"] = String(graceUntil)
            pending["is_in_billing_retry_period"] = "1"
            pending["expiration_intent"] = "2"
        }
        fields["auto_renew_status"] = autoRenew ? "true" : "false"
        fields["auto_renew_status_change_date_ms"] = changed.map { String($0) }
        fields["unified_receipt"] =
            [
                "status": 0, "environment": "Production",
                "latest_receipt_info": rows.map { row in
                    var members = [
                        "transaction_id": row.id, "original_transaction_id": row.subscription,
                        "product_id": row.product,
                        "purchase_date_ms": String(row.purchase), "quantity": "1",
                    ]
                    members["expires_date_ms"] = row.expires.map { String($0) }
                    members["cancellation_date_ms"] = row.cancelled.map { String($0) }
                    members["app_account_token"] = row.account
                    return members
                },
                "pending_renewal_info": rows.contains { $0.subscription == subscription && $0.expires != nil }
                    ? [pending] : [],
            ] as [String: Any]
    }

    package subscript(key: String) -> Any? {
        get { fields[key] }
        set { fields[key] = newValue }
    }

    package var bytes: [UInt8] {
        get throws { Array(try JSONSerialization.data(withJSONObject: fields, options: [.sortedKeys])) }
    }
}
