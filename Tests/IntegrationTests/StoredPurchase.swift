import Foundation

/// A purchase as a row of the projection, without the events that reported it.
struct StoredPurchase: Encodable {
    struct Refund: Encodable {
        let at: String
        /// In thousandths of the currency unit.
        let amount: Int64
    }

    let originalTransactionId: String
    let transactionId: String
    var productId = "pro"
    let purchaseDate: String
    /// Such as `1 month`.
    var period = "1 month"
    let storefront: String?
    let price: Int64?
    let currency: String?
    var tax: Int64?
    var quantity: Int?
    var revocationDate: String?
    var revocationType: String?
    var revocationPercentage: Int?
    var refundedPrice: Int64?
    var refunds: [Refund]?

    /// An order of Google Play, with a purchase token of its own.
    static func google(
        _ number: Int, _ at: String, country: String = "DE", price: Int64 = 9990, currency: String = "EUR",
        tax: Int64? = nil
    ) -> StoredPurchase {
        var purchase = StoredPurchase(
            originalTransactionId: "token-that-is-longer-than-any-number-of-apple-\(number)",
            transactionId: "GPA.3300-0000-0000-0000\(number)", purchaseDate: at, storefront: country, price: price,
            currency: currency)
        purchase.tax = tax
        return purchase
    }

    /// A subscription of the App Store.
    ///
    /// - Parameters:
    ///   - country: Nil, like the price, if only a receipt is known.
    static func apple(
        _ number: Int, _ at: String, product: String = "pro", country: String? = "DEU", price: Int64? = 9990
    ) -> StoredPurchase {
        StoredPurchase(
            originalTransactionId: "\(number)", transactionId: "\(number)", productId: product, purchaseDate: at,
            storefront: country, price: price, currency: price == nil ? nil : "EUR")
    }

    func with(_ change: (inout StoredPurchase) -> Void) -> StoredPurchase {
        var changed = self
        change(&changed)
        return changed
    }

    func refunded(_ at: String, _ type: String? = "REFUND_FULL") -> StoredPurchase {
        with { ($0.revocationDate, $0.revocationType) = (at, type) }
    }

    /// The statements that insert the purchases into a database without streams, into an app in production.
    static func insertion(_ purchases: [StoredPurchase]) throws -> String {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let json = String(decoding: try encoder.encode(purchases), as: UTF8.self)
        return """
            insert into subledger.stream (stream_id, app, environment) values (1, 'com.example.reader', 'production');
            insert into subledger.transaction (
              stream_id, original_transaction_id, transaction_id, product_id, purchase_date, expires_date, revocation_date,
              revocation_type, revocation_reason, revocation_percentage, refunded_price, refunds, is_upgraded, positions,
              type, storefront, price, currency, tax, quantity
            )
            select
              1, original_transaction_id, transaction_id, product_id, purchase_date, purchase_date + period,
              revocation_date, revocation_type, case when revocation_date is not null then 0 end, revocation_percentage,
              refunded_price, refunds, false, '{1}', 'Auto-Renewable Subscription', storefront, price, currency, tax,
              quantity
            from jsonb_to_recordset('\(json.replacing("'", with: "''"))') as bought (
              original_transaction_id text, transaction_id text, product_id text, purchase_date timestamptz,
              period interval, revocation_date timestamptz, revocation_type text, revocation_percentage integer,
              refunded_price bigint, refunds jsonb, storefront text, price bigint, currency text, tax bigint,
              quantity integer
            );
            """
    }
}
