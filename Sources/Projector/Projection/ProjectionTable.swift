import Postgres

/// A projection table whose rows are compared with those of a fresh fold.
struct ProjectionTable {
    let name: SQL
    /// The columns of the primary key after `stream_id`.
    private let key: [SQL]

    static let subscription = ProjectionTable(name: "subscription", key: ["original_transaction_id"])
    static let transaction = ProjectionTable(name: "transaction", key: ["original_transaction_id", "transaction_id"])
    static let accessPeriod = ProjectionTable(
        name: "access_period", key: ["original_transaction_id", "transaction_id", "cause"])
    static let refundedPeriod = ProjectionTable(
        name: "refunded_period", key: ["original_transaction_id", "transaction_id"])
    static let checkSchedule = ProjectionTable(name: "check_schedule", key: ["original_transaction_id"])
    static let customerEdge = ProjectionTable(name: "customer_edge", key: ["original_transaction_id", "kind", "id"])
    static let customerLink = ProjectionTable(
        name: "customer_link", key: ["backend_customer_id", "position", "kind", "id"])
    static let ownership = ProjectionTable(
        name: "ownership", key: ["original_transaction_id", "starts_at", "customer_kind", "customer_id"])
    static let customerIdentity = ProjectionTable(name: "customer_identity", key: ["kind", "id", "starts_at"])
    static let sharedAccountToken = ProjectionTable(name: "shared_account_token", key: ["account_token"])

    static let all = [
        subscription, transaction, accessPeriod, refundedPeriod, checkSchedule, customerEdge, customerLink, ownership,
        customerIdentity, sharedAccountToken,
    ]
    /// All tables that a fold writes.
    static let foldedNames: [SQL] = ["checkpoint"] + all.map(\.name)

    /// The condition that `fresh` and `live`, two rows of the same stream, have the same key.
    var sameKey: SQL {
        key.map { column -> SQL in "fresh.\(column) = live.\(column)" }.joined(separator: " and ")
    }
}
