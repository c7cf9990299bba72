extension SchemaTests {
    private static func policy(
        app: String = "a", product: String = "p", status: String = "DELIVERED", percentage: String = "null",
        preference: String = "null"
    ) -> String {
        """
        insert into subledger.consumption_policy (
          app, product_id, stated_at, sample_content_provided, delivery_status, consumption_percentage, refund_preference
        )
        values ('\(app)', '\(product)', '2026-06-01', true, '\(status)', \(percentage), \(preference))
        """
    }

    private static func answer(
        by author: String = "backend", sample: String = "true", status: String = "'DELIVERED'",
        percentage: String = "null", preference: String = "null", state: String = "pending", attempts: Int = 0,
        next: String = "'2026-06-01'", asked: String = "null", problem: String = "null"
    ) -> String {
        """
        insert into subledger.consumption_answer (
          stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
          delivery_status, consumption_percentage, refund_preference, state, attempts, next_at, asked_at, problem
        )
        values (
          1, 1, 't', '2026-06-02', '\(author)', '2026-06-01', \(sample), \(status), \(percentage), \(preference),
          '\(state)', \(attempts), \(next), \(asked), \(problem)
        )
        """
    }

    private static func policyCheck(_ name: String, _ statement: String) -> Broken {
        Broken(constraint: "consumption_policy_\(name)_check", sqlstate: "23514", statement: statement)
    }

    private static func answerCheck(_ name: String, _ statement: String) -> Broken {
        Broken(constraint: "consumption_answer_\(name)_check", sqlstate: "23514", statement: statement)
    }

    static let brokenRefunds = [
        Broken(constraint: "consumption_policy_pkey", sqlstate: "23505", statement: "\(policy()); \(policy())"),
        policyCheck("app", policy(app: "")),
        policyCheck("product_id", policy(product: "")),
        policyCheck("delivery_status", policy(status: "LOST")),
        policyCheck("consumption_percentage", policy(percentage: "100001")),
        policyCheck("consumption_percentage", policy(percentage: "-1")),
        policyCheck("undelivered", policy(status: "UNDELIVERED_OTHER", percentage: "1")),
        policyCheck("refund_preference", policy(preference: "'MAYBE'")),
        Broken(constraint: "consumption_answer_pkey", sqlstate: "23505", statement: "\(answer()); \(answer())"),
        answerCheck("stated_by", answer(by: "luck")),
        answerCheck("operator_name", answer(by: "operator")),
        answerCheck("consent", answer(state: "no_consent", next: "null")),
        answerCheck("consent", answer(sample: "null")),
        answerCheck("consent", answer(status: "null")),
        answerCheck(
            "consent", answer(sample: "null", status: "null", percentage: "0", state: "no_consent", next: "null")),
        answerCheck(
            "consent",
            answer(sample: "null", status: "null", preference: "'DECLINE'", state: "no_consent", next: "null")),
        answerCheck("delivery_status", answer(status: "'LOST'")),
        answerCheck("consumption_percentage", answer(percentage: "100001")),
        answerCheck("undelivered", answer(status: "'UNDELIVERED_OTHER'", percentage: "1")),
        answerCheck("refund_preference", answer(preference: "'MAYBE'")),
        answerCheck("state", answer(state: "luck", next: "null")),
        answerCheck("attempts", answer(attempts: -1)),
        answerCheck("next_at", answer(next: "null")),
        answerCheck("next_at", answer(state: "late")),
        answerCheck("asked_at", answer(state: "accepted", next: "null")),
        answerCheck("problem", answer(state: "refused", next: "null", asked: "'2026-06-01'")),
    ]
}
