extension SchemaTests {
    private static func endpoint(
        id: String = "end_00000000000000aa", purpose: String = "changes", app: String = "a",
        environment: String = "production", url: String = "https://a.example", kinds: String = "null",
        signature: String = "v1a", state: String = "active", disabledFor: String = "null"
    ) -> String {
        """
        insert into subledger.endpoint (
          endpoint_id, purpose, app, environment, url, kinds, signature, state, disabled_for, created_at
        )
        values (
          '\(id)', '\(purpose)', '\(app)', '\(environment)', '\(url)', \(kinds), '\(signature)', '\(state)',
          \(disabledFor), now()
        )
        """
    }

    private static func cursor(number: Int = 0, generation: Int = 0) -> String {
        """
        insert into subledger.endpoint_cursor (endpoint_id, number, generation)
        values ('end_00000000000000aa', \(number), \(generation))
        """
    }

    private static func delivery(
        number: Int = 1, state: String = "waiting", attempts: Int = 0, ended: String = "null"
    ) -> String {
        """
        insert into subledger.endpoint_delivery (endpoint_id, number, line, state, attempts, ended_at)
        values ('end_00000000000000aa', \(number), 'a', '\(state)', \(attempts), \(ended))
        """
    }

    private static func attempt(milliseconds: Int = 1) -> String {
        """
        insert into subledger.endpoint_attempt (endpoint_id, attempted_at, number, result, milliseconds)
        values ('end_00000000000000aa', '2026-06-01', 1, 'success', \(milliseconds))
        """
    }

    private static func check(_ name: String, _ statement: String) -> Broken {
        Broken(constraint: "\(name)_check", sqlstate: "23514", statement: statement)
    }

    static let brokenEndpoints = [
        Broken(constraint: "endpoint_pkey", sqlstate: "23505", statement: "\(endpoint()); \(endpoint())"),
        check("endpoint_endpoint_id", endpoint(id: "end_1")),
        check("endpoint_purpose", endpoint(purpose: "events")),
        check("endpoint_app", endpoint(app: "")),
        check("endpoint_environment", endpoint(environment: "PROD")),
        check("endpoint_url", endpoint(url: "ftp://a")),
        check("endpoint_kinds", endpoint(kinds: "'{}'")),
        check("endpoint_signature", endpoint(signature: "v2")),
        check("endpoint_state", endpoint(state: "x")),
        check("endpoint_disabled", endpoint(state: "disabled")),
        Broken(constraint: "endpoint_cursor_pkey", sqlstate: "23505", statement: "\(cursor()); \(cursor())"),
        check("endpoint_cursor_number", cursor(number: -1)),
        check("endpoint_cursor_generation", cursor(generation: -1)),
        Broken(constraint: "endpoint_delivery_pkey", sqlstate: "23505", statement: "\(delivery()); \(delivery())"),
        check("endpoint_delivery_number", delivery(number: 0)),
        check("endpoint_delivery_state", delivery(state: "x", ended: "now()")),
        check("endpoint_delivery_attempts", delivery(attempts: -1)),
        check("endpoint_delivery_ended_at", delivery(state: "exhausted")),
        check("endpoint_delivery_ended_at", delivery(state: "lost")),
        check("endpoint_delivery_ended_at", delivery(ended: "now()")),
        Broken(constraint: "endpoint_attempt_pkey", sqlstate: "23505", statement: "\(attempt()); \(attempt())"),
        check("endpoint_attempt_milliseconds", attempt(milliseconds: -1)),
    ]
}
