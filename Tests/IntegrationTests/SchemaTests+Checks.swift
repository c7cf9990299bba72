extension SchemaTests {
    private static func schedule(due: String = "2018-03-20", reason: String = "renewal", next: String = "2018-03-20")
        -> String
    {
        """
        insert into subledger.check_schedule (
          stream_id, original_transaction_id, due_at, reason, has_receipt, next_at
        )
        values (1, 'o', '\(due)', '\(reason)', true, '\(next)')
        """
    }

    private static func lead(_ lead: String) -> String {
        "insert into subledger.app_checks (app, check_lead) values ('a', '\(lead)')"
    }

    private static func check(
        due: String = "'2018-03-20'", reason: String = "'renewal'", result: String = "unchanged",
        position: String = "null", next: String = "null"
    ) -> String {
        """
        insert into subledger.store_check (
          stream_id, original_transaction_id, asked_at, due_at, reason, result, position, next_at
        )
        values (1, 'o', '2018-03-21', \(due), \(reason), '\(result)', \(position), \(next))
        """
    }

    private static func backfill(_ position: Int) -> String {
        "insert into subledger.history_backfill (stream_id, position) values (1, \(position))"
    }

    private static func audit(_ counts: String, results: String = "{}", lags: String = "{}") -> String {
        """
        insert into subledger.delivery_audit (
          stream_id, day, audited_at, made, delivered, arrived, fetched, refused, lost, answered_late, only_in_log,
          attempts, results, lags
        )
        values (1, '2018-03-21', '2018-03-22', \(counts), '\(results)', '\(lags)')
        """
    }

    private static func response(
        digest: String = "sha256('r')", of certificate: String = "sha256('c')", status: String = "good"
    ) -> String {
        """
        insert into subledger.ocsp_response (
          certificate_sha256, response_sha256, status, this_update, next_update, answered_at, response
        )
        values (\(certificate), \(digest), '\(status)', '2018-03-20', '2018-03-22', '2018-03-21', 'r')
        """
    }

    private static func lease(_ holder: String = "'h'") -> String {
        "insert into subledger.lease (work, stream_id, holder, until) values ('checks', 1, \(holder), now())"
    }

    private static let turn = "insert into subledger.turn (work, app, environment) values ('links', 'a', 'production')"

    static let brokenChecks = [
        Broken(constraint: "lease_pkey", sqlstate: "23505", statement: "\(lease()); \(lease())"),
        Broken(constraint: "lease_holder_check", sqlstate: "23514", statement: lease("''")),
        Broken(constraint: "turn_pkey", sqlstate: "23505", statement: "\(turn); \(turn)"),
        Broken(constraint: "ocsp_response_pkey", sqlstate: "23505", statement: "\(response()); \(response())"),
        Broken(
            constraint: "ocsp_response_certificate_sha256_check", sqlstate: "23514", statement: response(of: "'c'")),
        Broken(
            constraint: "ocsp_response_response_sha256_check", sqlstate: "23514",
            statement: response(digest: "sha256('s')")),
        Broken(
            constraint: "ocsp_response_status_check", sqlstate: "23514", statement: response(status: "unknown")),
        Broken(constraint: "check_schedule_pkey", sqlstate: "23505", statement: "\(schedule()); \(schedule())"),
        Broken(constraint: "check_schedule_reason_check", sqlstate: "23514", statement: schedule(reason: "luck")),
        Broken(constraint: "check_schedule_next_at_check", sqlstate: "23514", statement: schedule(next: "2018-03-19")),
        Broken(constraint: "app_checks_pkey", sqlstate: "23505", statement: "\(lead("PT6H")); \(lead("PT6H"))"),
        Broken(constraint: "app_checks_check_lead_check", sqlstate: "23514", statement: lead("P1D")),
        Broken(constraint: "app_checks_check_lead_check", sqlstate: "23514", statement: lead("PT0H")),
        Broken(constraint: "store_check_pkey", sqlstate: "23505", statement: "\(check()); \(check())"),
        Broken(constraint: "store_check_due_at_check", sqlstate: "23514", statement: check(due: "null")),
        Broken(constraint: "store_check_reason_check", sqlstate: "23514", statement: check(reason: "'luck'")),
        Broken(constraint: "store_check_result_check", sqlstate: "23514", statement: check(result: "luck")),
        Broken(constraint: "store_check_position_check", sqlstate: "23514", statement: check(result: "appended")),
        Broken(constraint: "store_check_position_check", sqlstate: "23514", statement: check(position: "1")),
        Broken(constraint: "store_check_next_at_check", sqlstate: "23514", statement: check(next: "'2018-03-21'")),
        Broken(
            constraint: "store_check_next_at_check", sqlstate: "23514",
            statement: check(due: "'2018-03-23'", next: "'2018-03-22'")),
        Broken(constraint: "history_backfill_pkey", sqlstate: "23505", statement: "\(backfill(1)); \(backfill(2))"),
        Broken(constraint: "history_backfill_position_check", sqlstate: "23514", statement: backfill(0)),
        Broken(
            constraint: "delivery_audit_pkey", sqlstate: "23505",
            statement: "\(audit("3, 2, 1, 1, 1, 0, 0, 0, 4")); \(audit("3, 2, 1, 1, 1, 0, 0, 0, 4"))"),
        Broken(
            constraint: "delivery_audit_made_check", sqlstate: "23514", statement: audit("4, 2, 1, 1, 1, 0, 0, 0, 4")),
        Broken(
            constraint: "delivery_audit_delivered_check", sqlstate: "23514",
            statement: audit("3, 4, 1, 1, 1, 0, 0, 0, 4")),
        Broken(
            constraint: "delivery_audit_lost_check", sqlstate: "23514", statement: audit("3, 2, 1, 1, 1, 2, 0, 0, 4")),
        Broken(
            constraint: "delivery_audit_before_check", sqlstate: "23514",
            statement: audit("3, 2, 1, 1, 1, 0, 0, 0, 4") + "; update subledger.delivery_audit set before = 2"),
        Broken(
            constraint: "delivery_audit_answered_late_check", sqlstate: "23514",
            statement: audit("3, 2, 1, 1, 1, 0, 2, 0, 4")),
        Broken(
            constraint: "delivery_audit_only_in_log_check", sqlstate: "23514",
            statement: audit("3, 2, 1, 1, 1, 0, 0, -1, 4")),
        Broken(
            constraint: "delivery_audit_attempts_check", sqlstate: "23514",
            statement: audit("3, 2, 1, 1, 1, 0, 0, 0, 1")),
        Broken(
            constraint: "delivery_audit_results_check", sqlstate: "23514",
            statement: audit("3, 2, 1, 1, 1, 0, 0, 0, 4", results: "[]")),
        Broken(
            constraint: "delivery_audit_lags_check", sqlstate: "23514",
            statement: audit("3, 2, 1, 1, 1, 0, 0, 0, 4", lags: "[]")),
    ]
}
