/// Version 1 bodies in three sizes, the same on every machine.
package enum BodySize: Int, CaseIterable, Sendable {
    /// One transaction and two copies of a minimal receipt.
    case small = 2
    /// A subscriber of half a year: six transactions and two copies of a receipt of 8 KB.
    case middle = 22
    /// 36 transactions and two copies of a receipt of 30 KB.
    case large = 100

    private var shape: (transactions: Int, receiptBytes: Int) {
        switch self {
        case .small: (1, 96)
        case .middle: (6, 8_000)
        case .large: (36, 30_000)
        }
    }

    package var body: [UInt8] { body(account: 0) }

    /// A body about the given account, with its own ids and receipt.
    package func body(account: Int, app: String = V1Body.app) -> [UInt8] {
        let (transactions, receiptBytes) = shape
        let receipt = Self.base64(count: receiptBytes, seed: account)
        let firstId = 1_000_000_000_000_001 + account * 100
        // The newest row is the first, as Apple sends them.
        let rows = (1...transactions).reversed().map { Self.row($0, firstId) }.joined(separator: ",\n")
        let text = """
            {
              "notification_type": "DID_RENEW",
              "environment": "PROD",
              "password": "0123456789abcdef0123456789abcdef",
              "bid": "\(app)",
              "bvrs": "1",
              "auto_renew_product_id": "com.example.magazine.monthly",
              "auto_renew_status": "true",
              "latest_receipt": "\(receipt)",
              "unified_receipt": {
                "status": 0,
                "environment": "Production",
                "latest_receipt": "\(receipt)",
                "latest_receipt_info": [
            \(rows)
                ],
                "pending_renewal_info": [
                  {
                    "auto_renew_product_id": "com.example.magazine.monthly",
                    "original_transaction_id": "\(firstId)",
                    "product_id": "com.example.magazine.monthly",
                    "auto_renew_status": "1"
                  }
                ]
              }
            }
            """
        return Array(text.utf8)
    }

    /// Consecutive months from September 2018 on. The text renderings of the dates are approximate, because only the
    /// milliseconds are read.
    private static func row(_ number: Int, _ firstId: Int) -> String {
        let id = firstId + number - 1
        let year = 2018 + (number + 7) / 12
        let month = (number + 7) % 12 + 1
        let purchase = dates("purchase_date", year, month, milliseconds: 1_535_760_000_000 + number * 2_592_000_000)
        let original = dates("original_purchase_date", 2018, 9, milliseconds: 1_538_352_000_000)
        let expires = dates(
            "expires_date", year + month / 12, month % 12 + 1, milliseconds: 1_538_352_000_000 + number * 2_592_000_000)
        return """
                  {
                    "quantity": "1",
                    "product_id": "com.example.magazine.monthly",
                    "transaction_id": "\(id)",
                    "original_transaction_id": "\(firstId)",
            \(purchase)
            \(original)
            \(expires)
                    "web_order_line_item_id": "\(90_000_000_000_000_000 + id)",
                    "is_trial_period": "false",
                    "is_in_intro_offer_period": "false",
                    "subscription_group_identifier": "20000001",
                    "in_app_ownership_type": "PURCHASED"
                  }
            """
    }

    private static func dates(_ key: String, _ year: Int, _ month: Int, milliseconds: Int) -> String {
        let day = "\(year)-\(month < 10 ? "0" : "")\(month)-01"
        return """
                    "\(key)": "\(day) 08:00:00 Etc/GMT",
                    "\(key)_ms": "\(milliseconds)",
                    "\(key)_pst": "\(day) 01:00:00 America/Los_Angeles",
            """
    }

    private static func base64(count: Int, seed: Int) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var state = 20_180_220 &+ UInt64(seed)
        return String(unsafeUninitializedCapacity: count) { buffer in
            for index in 0..<count {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                buffer[index] = alphabet[Int(state >> 58)]
            }
            return count
        }
    }
}
