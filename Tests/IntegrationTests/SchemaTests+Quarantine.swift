extension SchemaTests {
    private static func quarantined(
        number: String = "default", digest: String = "sha256('\\x7b7d')", app: String = "'a'",
        environment: String = "'sandbox'"
    ) -> String {
        """
        insert into subledger.quarantine (number, received_at, app, environment, body_sha256, body)
        overriding system value
        values (\(number), now(), \(app), \(environment), \(digest), '\\x7b7d')
        """
    }

    static let brokenQuarantine = [
        Broken(
            constraint: "quarantine_pkey", sqlstate: "23505",
            statement: """
                \(quarantined(number: "1")); insert into subledger.quarantine (
                  number, received_at, app, environment, body_sha256, body
                )
                overriding system value
                values (1, now(), 'a', 'sandbox', sha256('\\x5b5d'), '\\x5b5d')
                """),
        Broken(
            constraint: "quarantine_body_sha256_key", sqlstate: "23505",
            statement: "\(quarantined()); \(quarantined())"),
        Broken(constraint: "quarantine_app_check", sqlstate: "23514", statement: quarantined(app: "''")),
        Broken(
            constraint: "quarantine_environment_check", sqlstate: "23514",
            statement: quarantined(environment: "'xcode'")),
        Broken(
            constraint: "quarantine_body_sha256_check", sqlstate: "23514", statement: quarantined(digest: "sha256('')")),
        Broken(
            constraint: "quarantine_size_pkey", sqlstate: "23505",
            statement: "insert into subledger.quarantine_size (bytes) values (0)"),
        Broken(
            constraint: "quarantine_size_singleton_check", sqlstate: "23514",
            statement: "insert into subledger.quarantine_size (singleton, bytes) values (false, 0)"),
        Broken(
            constraint: "quarantine_size_bytes_check", sqlstate: "23514",
            statement: "update subledger.quarantine_size set bytes = -1"),
    ]
}
