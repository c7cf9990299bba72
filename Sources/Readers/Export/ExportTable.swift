import Postgres

/// A table of an export, in the order in which an export writes them.
package enum ExportTable: String, CaseIterable, Sendable {
    case events
    case changes
    case subscriptions
    case transactions
    case periods
    case refundedPeriods = "refunded_periods"
    case owners
    case customers
    case revenueCat = "revenuecat_transactions"

    /// The columns of its files, in order.
    package var columns: [ExportColumn] { hasStream ? ExportTable.stream + own : own }

    /// Whether its rows begin with the columns that the reader knows: a layout of others has none of ours.
    var hasStream: Bool { self != .revenueCat }

    /// Whether an export writes the current rows of what changed, which take the place of those of earlier exports. Rows of
    /// other tables never change.
    package var isVersioned: Bool { self != .events && self != .changes }

    /// App, environment and export.
    private static let stream = [ExportColumn("app"), ExportColumn("environment"), ExportColumn("export", .number)]

    var own: [ExportColumn] {
        switch self {
        case .events: Self.eventColumns
        case .changes: Self.changeColumns
        case .subscriptions: Self.subscriptionColumns
        case .transactions: Self.transactionColumns
        case .periods, .refundedPeriods: Self.periodColumns
        case .owners: Self.ownerColumns
        case .customers: Self.customerColumns
        case .revenueCat: Self.revenueCatColumns
        }
    }

    /// The values of the own columns of row `row`, as `text[]`.
    var values: SQL { "array[\(own.map(\.value).joined(separator: ", "))]::text[]" }

    private static let eventColumns = [
        ExportColumn("position", .number), ExportColumn("received_at", .instant), ExportColumn("occurred_at", .instant),
        ExportColumn("source"), ExportColumn("type"), ExportColumn("subtype"), ExportColumn("kind"),
        ExportColumn("facts", .json), ExportColumn("defects", .json), ExportColumn("body_sha256", .bytes),
        ExportColumn("chain", .bytes),
    ]

    private static let changeColumns = [
        ExportColumn("number", .number), ExportColumn("published_at", .instant), ExportColumn("kind"),
        ExportColumn("original_transaction_id"), ExportColumn("at", .instant), ExportColumn("cause"),
        ExportColumn("position", .number), ExportColumn("product_id"), ExportColumn("until", .instant),
        ExportColumn("auto_renew", .boolean), ExportColumn("next_product_id"), ExportColumn("customer_kind"),
        ExportColumn("customer_id"), ExportColumn("seats_before", .number), ExportColumn("seats", .number),
        ExportColumn("reason"),
    ]

    private static let subscriptionColumns = [
        ExportColumn("original_transaction_id"), ExportColumn("position", .number), ExportColumn("product_id"),
        ExportColumn("auto_renew", .boolean), ExportColumn("auto_renew_product_id"),
        ExportColumn("in_billing_retry", .boolean), ExportColumn("expiration_intent", .number),
        ExportColumn("access_ends_at", .instant), ExportColumn("renewal_date", .instant),
        ExportColumn("renewal_price", .number), ExportColumn("renewal_currency"),
        ExportColumn("price_increase_status", .number), ExportColumn("first_start", .instant),
        ExportColumn("last_ends_at", .instant), ExportColumn("last_paid_end", .instant),
        ExportColumn("last_cause"), ExportColumn("last_payer_state"), ExportColumn("last_churn_reason"),
        ExportColumn("part_of"), ExportColumn("commitment_ends_at", .instant),
    ]

    private static let transactionColumns = [
        ExportColumn("original_transaction_id"), ExportColumn("transaction_id"), ExportColumn("positions", .array),
        ExportColumn("web_order_line_item_id"), ExportColumn("product_id"),
        ExportColumn("subscription_group_identifier"), ExportColumn("quantity", .number),
        ExportColumn("purchase_date", .instant), ExportColumn("original_purchase_date", .instant),
        ExportColumn("expires_date", .instant), ExportColumn("revocation_date", .instant),
        ExportColumn("revocation_reason", .number), ExportColumn("revocation_type"),
        ExportColumn("revocation_percentage", .number), ExportColumn("is_upgraded", .boolean),
        ExportColumn("is_trial_period", .boolean), ExportColumn("is_in_intro_offer_period", .boolean),
        ExportColumn("in_app_ownership_type"), ExportColumn("type"), ExportColumn("promotional_offer_id"),
        ExportColumn("offer_code_ref_name"), ExportColumn("offer_type", .number), ExportColumn("offer_identifier"),
        ExportColumn("offer_discount_type"), ExportColumn("offer_period"), ExportColumn("storefront"),
        ExportColumn("transaction_reason"), ExportColumn("price", .number), ExportColumn("currency"),
        ExportColumn("tax", .number), ExportColumn("developer_revenue", .number),
        ExportColumn("refunded_price", .number), ExportColumn("refunds", .json), ExportColumn("app_account_token"),
        ExportColumn("app_transaction_id"), ExportColumn("previous_original_transaction_id"),
        ExportColumn("billing_plan_type"), ExportColumn("plan_price", .number), ExportColumn("paid_until", .instant),
        ExportColumn("additional", .json),
    ]

    private static let periodColumns = [
        ExportColumn("original_transaction_id"), ExportColumn("transaction_id"), ExportColumn("cause"),
        ExportColumn("starts_at", .instant), ExportColumn("ends_at", .instant), ExportColumn("cut"),
        ExportColumn("product_id"), ExportColumn("position", .number), ExportColumn("payer_state"),
        ExportColumn("price", .number), ExportColumn("currency"), ExportColumn("price_period"),
        ExportColumn("first_start", .instant), ExportColumn("previous_end", .instant), ExportColumn("previous_cut"),
        ExportColumn("previous_product_id"), ExportColumn("effective_start", .instant),
        ExportColumn("effective_end", .instant), ExportColumn("churned_at", .instant), ExportColumn("churn_reason"),
        ExportColumn("reason_stated", .boolean), ExportColumn("movement"), ExportColumn("run_start", .instant),
        ExportColumn("payment_number", .number), ExportColumn("renewal"),
    ]

    private static let ownerColumns = [
        ExportColumn("original_transaction_id"), ExportColumn("starts_at", .instant), ExportColumn("ends_at", .instant),
        ExportColumn("customer_kind"), ExportColumn("customer_id"), ExportColumn("reason"),
        ExportColumn("position", .number),
    ]

    private static let customerColumns = [
        ExportColumn("kind"), ExportColumn("id"), ExportColumn("starts_at", .instant),
        ExportColumn("ends_at", .instant), ExportColumn("customer_kind"), ExportColumn("customer_id"),
    ]
}

/// A column of an export's files.
package struct ExportColumn: Sendable {
    package enum Kind: Sendable {
        case text
        case number
        case boolean
        /// ISO 8601 with microseconds, in UTC; `infinity` and `-infinity` for no end and no beginning.
        case instant
        /// A date and a time of day in UTC, with a blank between them and without fractions; null for no end.
        case second
        case json
        /// A JSON array of numbers.
        case array
        /// Hexadecimal digits.
        case bytes
    }

    package let name: String
    package let kind: Kind
    /// Its value in row `row`, as text.
    let value: SQL

    init(_ name: SQL, _ kind: Kind = .text) {
        self.name = name.text
        self.kind = kind
        value =
            switch kind {
            case .text, .number, .boolean, .json: "row.\(name)::text"
            case .instant:
                """
                case when isfinite(row.\(name))
                  then to_char(row.\(name) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                  else row.\(name)::text end
                """
            case .second:
                "case when isfinite(row.\(name)) then to_char(row.\(name) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') end"
            case .array: "to_json(row.\(name))::text"
            case .bytes: "encode(row.\(name), 'hex')"
            }
    }
}
