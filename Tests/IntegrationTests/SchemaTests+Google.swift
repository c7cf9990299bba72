extension SchemaTests {
    private static func purchase(
        app: String = "'a'", digest: String = "sha256('t')", resource: String = "null", environment: String = "null",
        type: String = "null", states: String = "null", notified: String = "null", rank: String = "0",
        due: String = "now()", result: String = "null", answer: String = "null"
    ) -> String {
        """
        insert into subledger.google_purchase (
          app, token_sha256, purchase_token, resource, environment, noticed_at, notification_type, expected_states,
          notified_at, rank, due_at, result, answer_position
        )
        values (\(app), \(digest), 't', \(resource), \(environment), now(), \(type), \(states), \(notified), \(rank),
          \(due), \(result), \(answer))
        """
    }

    private static func audit(app: String = "'a'", seen: String = "'2018-03-21'", appended: String = "1") -> String {
        """
        insert into subledger.google_void_audit (app, audited_at, seen_until, listed, appended)
        values (\(app), '2018-03-21', \(seen), 2, \(appended))
        """
    }

    private static let intake = "insert into subledger.google_intake (stream_id, position) values (1, 0)"
    private static let notification = """
        insert into subledger.google_notification (app, token_sha256, stream_id, position)
        values ('a', sha256('t'), 1, 1)
        """

    private static func void(_ digest: String = "sha256('r')") -> String {
        "insert into subledger.google_void (app, row_sha256, listed_at) values ('a', \(digest), now())"
    }

    static let brokenGoogle = [
        Broken(constraint: "google_intake_pkey", sqlstate: "23505", statement: "\(intake); \(intake)"),
        Broken(
            constraint: "google_intake_position_check", sqlstate: "23514",
            statement: "insert into subledger.google_intake (stream_id, position) values (1, -1)"),
        Broken(constraint: "google_purchase_pkey", sqlstate: "23505", statement: "\(purchase()); \(purchase())"),
        Broken(constraint: "google_purchase_app_check", sqlstate: "23514", statement: purchase(app: "''")),
        Broken(
            constraint: "google_purchase_token_sha256_check", sqlstate: "23514",
            statement: purchase(digest: "sha256('u')")),
        Broken(constraint: "google_purchase_resource_check", sqlstate: "23514", statement: purchase(resource: "'x'")),
        Broken(
            constraint: "google_purchase_environment_check", sqlstate: "23514",
            statement: purchase(environment: "'unknown'")),
        Broken(
            constraint: "google_purchase_notification_check", sqlstate: "23514", statement: purchase(type: "'x'")),
        Broken(
            constraint: "google_purchase_notification_check", sqlstate: "23514",
            statement: purchase(type: "'x'", notified: "now()")),
        Broken(constraint: "google_purchase_rank_check", sqlstate: "23514", statement: purchase(rank: "3")),
        Broken(constraint: "google_purchase_due_at_check", sqlstate: "23514", statement: purchase(due: "null")),
        Broken(constraint: "google_purchase_result_check", sqlstate: "23514", statement: purchase(result: "'luck'")),
        Broken(
            constraint: "google_purchase_account_ids_check", sqlstate: "23514",
            statement: "\(purchase()); update subledger.google_purchase set account_ids = '[]'"),
        Broken(
            constraint: "google_purchase_answer_position_check", sqlstate: "23514", statement: purchase(answer: "0")),
        Broken(
            constraint: "google_notification_pkey", sqlstate: "23505", statement: "\(notification); \(notification)"),
        Broken(constraint: "google_void_pkey", sqlstate: "23505", statement: "\(void()); \(void())"),
        Broken(constraint: "google_void_row_sha256_check", sqlstate: "23514", statement: void("'x'")),
        Broken(constraint: "google_void_audit_pkey", sqlstate: "23505", statement: "\(audit()); \(audit())"),
        Broken(constraint: "google_void_audit_app_check", sqlstate: "23514", statement: audit(app: "''")),
        Broken(
            constraint: "google_void_audit_seen_until_check", sqlstate: "23514", statement: audit(seen: "'2018-03-22'")),
        Broken(
            constraint: "google_void_audit_appended_check", sqlstate: "23514", statement: audit(appended: "3")),
    ]
}
