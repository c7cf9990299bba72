import EventLog

/// The columns of a file: our own, or those of a hosted service's export.
enum ImportLayout: String, CaseIterable {
    case subledger
    /// The transactions feed of RevenueCat's scheduled data exports.
    case revenueCat = "RevenueCat"
    /// The event files that Adapty exports to a bucket.
    case adapty = "Adapty"

    /// The columns by which a header is recognised.
    private var marks: [String] {
        switch self {
        case .subledger: ["customerId"]
        case .revenueCat: ["rc_original_app_user_id", "store", "original_store_transaction_id"]
        case .adapty: ["profile_id", "store", "original_transaction_id"]
        }
    }

    /// Nil if the header is none of a known layout.
    init?(header names: some Collection<String>) {
        guard let layout = Self.allCases.first(where: { $0.marks.allSatisfy(names.contains) }) else { return nil }
        self = layout
    }

    static let expected = allCases.map { "\($0.marks.joined(separator: ", ")) (\($0.rawValue))" }
        .joined(separator: "; ")

    /// The fields of a row by our own names.
    ///
    /// - Parameter column: Returns a column by its name; empty if there is none.
    func fields(_ column: (String) -> String) throws(ImportRow.Malformed) -> [String: String] {
        switch self {
        case .subledger:
            return Dictionary(uniqueKeysWithValues: ImportRow.fields.map { ($0, column($0)) })
        case .revenueCat:
            let (original, lastSeen) = (column("rc_original_app_user_id"), column("rc_last_seen_app_user_id_alias"))
            // An anonymous id is the service's own. The backend knows the other one, if there is one.
            let customerId = lastSeen.isEmpty || lastSeen.hasPrefix("$RCAnonymousID:") ? original : lastSeen
            var fields = try Self.purchase(
                store: column("store"), original: column("original_store_transaction_id"),
                productId: column("product_identifier"))
            fields["customerId"] = customerId
            if let isSandbox = Self.isTrue(column("is_sandbox")) {
                fields["environment"] = isSandbox ? "sandbox" : "production"
            }
            return fields
        case .adapty:
            var fields = try Self.purchase(
                store: column("store"), original: column("original_transaction_id"),
                productId: column("product_id").isEmpty ? column("vendor_product_id") : column("product_id"))
            fields["customerId"] =
                column("customer_user_id").isEmpty ? column("profile_id") : column("customer_user_id")
            fields["environment"] = column("environment")
            return fields
        }
    }

    /// The purchase of a row that names it by the store's id of its first transaction: of Google Play, an order number.
    private static func purchase(
        store: String, original: String, productId: String
    ) throws(ImportRow.Malformed) -> [String: String] {
        switch store.lowercased() {
        case "app_store", "mac_app_store": ["originalTransactionId": original, "productId": productId]
        // Older exports name tokens where the order number was not known.
        case "play_store":
            [original.hasPrefix("GPA.") ? "orderId" : "purchaseToken": original, "productId": productId]
        default: throw ImportRow.Malformed("purchases of this store are not read: expected app_store or play_store")
        }
    }

    private static func isTrue(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "true", "t", "1": true
        case "false", "f", "0": false
        default: nil
        }
    }
}
