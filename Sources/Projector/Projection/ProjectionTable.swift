import Postgres

/// A projection table whose rows are compared with those of a fresh fold.
struct ProjectionTable {
    let name: SQL
    /// The columns of the primary key after `stream_id`.
    private let key: [SQL]
    /// Whether the first of these columns is the subscription of the row.
    private let isBySubscription: Bool
    /// Whether the poller claims and records checks in the rows.
    let isWrittenByPoller: Bool

    private init(name: SQL, key: [SQL], isBySubscription: Bool = true, isWrittenByPoller: Bool = false) {
        self.name = name
        self.key = key
        self.isBySubscription = isBySubscription
        self.isWrittenByPoller = isWrittenByPoller
    }

    static let subscription = ProjectionTable(name: "subscription", key: ["original_transaction_id"])
    static let transaction = ProjectionTable(name: "transaction", key: ["original_transaction_id", "transaction_id"])
    static let accessPeriod = ProjectionTable(
        name: "access_period", key: ["original_transaction_id", "transaction_id", "cause"])
    static let refundedPeriod = ProjectionTable(
        name: "refunded_period", key: ["original_transaction_id", "transaction_id"])
    static let checkSchedule = ProjectionTable(
        name: "check_schedule", key: ["original_transaction_id"], isWrittenByPoller: true)
    static let customerEdge = ProjectionTable(name: "customer_edge", key: ["original_transaction_id", "kind", "id"])
    static let customerLink = ProjectionTable(
        name: "customer_link", key: ["backend_customer_id", "position", "kind", "id"], isBySubscription: false)
    static let ownership = ProjectionTable(
        name: "ownership", key: ["original_transaction_id", "starts_at", "customer_kind", "customer_id"])
    static let customerIdentity = ProjectionTable(
        name: "customer_identity", key: ["kind", "id", "starts_at"], isBySubscription: false)
    static let sharedAccountToken = ProjectionTable(
        name: "shared_account_token", key: ["account_token"], isBySubscription: false)

    static let all = [
        subscription, transaction, accessPeriod, refundedPeriod, checkSchedule, customerEdge, customerLink, ownership,
        customerIdentity, sharedAccountToken,
    ]
    /// All tables that a fold writes.
    static let foldedNames: [SQL] = ["checkpoint"] + all.map(\.name)

    /// The subscription of a pair of rows `live` and `fresh`, one of which may be missing; empty for rows about none.
    var subscription: SQL {
        guard isBySubscription, let column = key.first else { return "''" }
        return "coalesce(live.\(column), fresh.\(column))"
    }

    /// The key of such a pair apart from its subscription, as text.
    var row: SQL {
        let columns = key.dropFirst(isBySubscription ? 1 : 0).map { column -> SQL in
            "coalesce(live.\(column), fresh.\(column))"
        }
        return columns.isEmpty ? "''" : "concat_ws(' ', \(columns.joined(separator: ", ")))"
    }

    /// The condition that `fresh` and `live`, two rows of the same stream, have the same key.
    var sameKey: SQL {
        key.map { column -> SQL in "fresh.\(column) = live.\(column)" }.joined(separator: " and ")
    }
}
