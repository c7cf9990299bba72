extension SchemaTests {
    private static func receipt(
        id: String = "gen_random_uuid()", digest: String = "sha256('\\x3080')", customer: String = "'u-1'",
        state: String = "pending", attempts: String = "1", nextAt: String = "now()", askingUntil: String = "null",
        askedAt: String = "null", problem: String = "null", registered: String = "null", position: String = "null"
    ) -> String {
        """
        insert into subledger.receipt (
          receipt_id, app, received_at, receipt_sha256, receipt, customer_id, state, attempts, next_at, asking_until,
          asked_at, problem, registered, position
        )
        values (
          \(id), 'a', now(), \(digest), '\\x3080', \(customer), '\(state)', \(attempts), \(nextAt), \(askingUntil),
          \(askedAt), \(problem), \(registered), \(position)
        )
        """
    }

    private static let oneId = "'5f0c3a3e-6a0e-4c0e-9a53-0d2f4a7c1b11'"

    static let brokenReceipts = [
        Broken(
            constraint: "receipt_pkey", sqlstate: "23505",
            statement: "\(receipt(id: oneId)); \(receipt(id: oneId, customer: "'u-2'"))"),
        Broken(
            constraint: "receipt_app_receipt_sha256_customer_id_key", sqlstate: "23505",
            statement: "\(receipt()); \(receipt())"),
        // Two receipts without a customer are the same one, too.
        Broken(
            constraint: "receipt_app_receipt_sha256_customer_id_key", sqlstate: "23505",
            statement: "\(receipt(customer: "null")); \(receipt(customer: "null"))"),
        Broken(
            constraint: "receipt_receipt_sha256_check", sqlstate: "23514", statement: receipt(digest: "sha256('')")),
        Broken(constraint: "receipt_customer_id_check", sqlstate: "23514", statement: receipt(customer: "''")),
        Broken(
            constraint: "receipt_customer_id_check", sqlstate: "23514",
            statement: receipt(customer: "repeat('u', 257)")),
        Broken(
            constraint: "receipt_account_id_check", sqlstate: "23514",
            statement: "\(receipt()); update subledger.receipt set account_id = ''"),
        Broken(
            constraint: "receipt_account_id_check", sqlstate: "23514",
            statement: "\(receipt(customer: "null")); update subledger.receipt set account_id = 'a'"),
        Broken(
            constraint: "receipt_state_check", sqlstate: "23514",
            statement: receipt(state: "lost", nextAt: "null", askedAt: "now()")),
        Broken(constraint: "receipt_attempts_check", sqlstate: "23514", statement: receipt(attempts: "0")),
        Broken(constraint: "receipt_next_at_check", sqlstate: "23514", statement: receipt(nextAt: "null")),
        Broken(
            constraint: "receipt_next_at_check", sqlstate: "23514",
            statement: receipt(state: "answered", askedAt: "now()")),
        Broken(
            constraint: "receipt_asking_until_check", sqlstate: "23514",
            statement: receipt(state: "answered", nextAt: "null", askingUntil: "now()", askedAt: "now()")),
        Broken(
            constraint: "receipt_asked_at_check", sqlstate: "23514",
            statement: receipt(state: "answered", nextAt: "null")),
        Broken(
            constraint: "receipt_problem_check", sqlstate: "23514",
            statement: receipt(state: "refused", nextAt: "null", askedAt: "now()")),
        Broken(
            constraint: "receipt_problem_check", sqlstate: "23514",
            statement: receipt(state: "answered", nextAt: "null", askedAt: "now()", problem: "'status'")),
        Broken(constraint: "receipt_registered_check", sqlstate: "23514", statement: receipt(registered: "'mine'")),
        Broken(constraint: "receipt_position_check", sqlstate: "23514", statement: receipt(position: "1")),
    ]
}
