extension SchemaTests {
    private static func ownership(
        start: String = "-infinity", end: String = "infinity", kind: String = "account", reason: String = "account",
        position: String = "1"
    ) -> String {
        """
        insert into subledger.ownership (
          stream_id, original_transaction_id, starts_at, ends_at, customer_kind, customer_id, reason, position
        )
        values (1, 'o', '\(start)', '\(end)', '\(kind)', 'c', '\(reason)', \(position))
        """
    }

    private static func identity(kind: String = "account", end: String = "infinity", customer: String = "link")
        -> String
    {
        """
        insert into subledger.customer_identity (stream_id, kind, id, starts_at, ends_at, customer_kind, customer_id)
        values (1, '\(kind)', 'i', '-infinity', '\(end)', '\(customer)', 'c')
        """
    }

    private static func policy(_ name: String) -> String {
        "insert into subledger.app_ownership (app, policy) values ('a', '\(name)')"
    }

    private static func tokens(of limit: Int) -> String {
        "insert into subledger.app_ownership (app, policy, store_accounts_per_token_max) values ('a', 'shared', \(limit))"
    }

    private static func join(_ app: String, _ joinedApp: String) -> String {
        "insert into subledger.app_join (app, joined_app) values ('\(app)', '\(joinedApp)')"
    }

    private static func edge(_ kind: String, storeAccount: String) -> String {
        """
        insert into subledger.customer_edge (stream_id, original_transaction_id, kind, id, position, store_account)
        values (1, 'o', '\(kind)', 'i', 1, \(storeAccount))
        """
    }

    private static let sharedToken =
        "insert into subledger.shared_account_token (stream_id, account_token) values (1, 't')"

    private static func change(
        _ kind: String, customerKind: String = "null", customerId: String = "null", seatsBefore: String = "null",
        seats: String = "null"
    ) -> String {
        """
        insert into subledger.change (
          stream_id, number, published_at, kind, original_transaction_id, at, cause, customer_kind, customer_id,
          seats_before, seats
        )
        values (
          1, 1, now(), '\(kind)', 'o', now(), 'clock', \(customerKind), \(customerId), \(seatsBefore), \(seats)
        )
        """
    }

    static let brokenCustomers = [
        Broken(
            constraint: "app_ownership_pkey", sqlstate: "23505", statement: "\(policy("shared")); \(policy("shared"))"),
        Broken(constraint: "app_ownership_policy_check", sqlstate: "23514", statement: policy("everybody")),
        Broken(constraint: "app_ownership_store_accounts_check", sqlstate: "23514", statement: tokens(of: 0)),
        Broken(constraint: "app_ownership_store_accounts_check", sqlstate: "23514", statement: tokens(of: 1001)),
        Broken(
            constraint: "app_join_pkey", sqlstate: "23505", statement: "\(join("a", "b")); \(join("a", "c"))"),
        Broken(constraint: "app_join_joined_app_check", sqlstate: "23514", statement: join("a", "a")),
        Broken(
            constraint: "customer_edge_store_account_check", sqlstate: "23514",
            statement: edge("account", storeAccount: "null")),
        Broken(
            constraint: "customer_edge_store_account_check", sqlstate: "23514",
            statement: edge("app_transaction", storeAccount: "'7'")),
        Broken(
            constraint: "shared_account_token_pkey", sqlstate: "23505", statement: "\(sharedToken); \(sharedToken)"),
        Broken(constraint: "ownership_pkey", sqlstate: "23505", statement: "\(ownership()); \(ownership())"),
        Broken(
            constraint: "ownership_ends_at_check", sqlstate: "23514",
            statement: ownership(start: "2026-05-10", end: "2026-05-10")),
        Broken(
            constraint: "ownership_customer_kind_check", sqlstate: "23514",
            statement: ownership(kind: "app_transaction")),
        Broken(constraint: "ownership_reason_check", sqlstate: "23514", statement: ownership(reason: "luck")),
        Broken(constraint: "ownership_position_check", sqlstate: "23514", statement: ownership(position: "null")),
        Broken(
            constraint: "ownership_position_check", sqlstate: "23514",
            statement: ownership(kind: "subscription", reason: "unclaimed")),
        Broken(constraint: "customer_identity_pkey", sqlstate: "23505", statement: "\(identity()); \(identity())"),
        Broken(constraint: "customer_identity_kind_check", sqlstate: "23514", statement: identity(kind: "email")),
        Broken(
            constraint: "customer_identity_ends_at_check", sqlstate: "23514", statement: identity(end: "-infinity")),
        Broken(
            constraint: "customer_identity_customer_kind_check", sqlstate: "23514",
            statement: identity(customer: "app_transaction")),
        Broken(
            constraint: "change_customer_check", sqlstate: "23514",
            statement: change("customer_changed", customerKind: "null", customerId: "null")),
        Broken(
            constraint: "change_customer_check", sqlstate: "23514",
            statement: change("opened", customerKind: "'link'", customerId: "'u-1'")),
        Broken(
            constraint: "change_customer_check", sqlstate: "23514",
            statement: change("customer_changed", customerKind: "'link'", customerId: "null")),
        Broken(constraint: "change_seats_check", sqlstate: "23514", statement: change("seats_changed")),
        Broken(
            constraint: "change_seats_check", sqlstate: "23514",
            statement: change("opened", seatsBefore: "1", seats: "2")),
        Broken(constraint: "change_seats_check", sqlstate: "23514", statement: change("seats_changed", seats: "2")),
    ]
}
