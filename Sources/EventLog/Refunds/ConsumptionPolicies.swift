import Encoding
import Postgres
import Subscriptions

/// The answer to Apple about every purchase of a product for which a refund is requested.
package struct ConsumptionPolicy: Sendable, Hashable {
    package let productId: String
    package let content: ConsumptionAnswer
    package let statedAt: Instant

    package init(productId: String, content: ConsumptionAnswer, statedAt: Instant) {
        self.productId = productId
        self.content = content
        self.statedAt = statedAt
    }

    /// `"productId":…,"statedAt":…,"customerConsented":true,…`
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("productId", productId)
        writer.member("statedAt", statedAt)
        content.writeMembers(to: &writer)
    }
}

/// The policies of products. A policy states that all customers of the product have consented.
package struct ConsumptionPolicies: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_products`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The policies of an app, sorted by the bytes of the product ids.
    package func policies(of app: String) async throws(ReadError) -> [ConsumptionPolicy] {
        try await pool.read(
            Statements.list, [Parameter(app)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var policies: [ConsumptionPolicy] = []
            for row in rows {
                guard let content = try ConsumptionAnswer.read(row, from: 2) else { throw PostgresError(.decoding) }
                policies.append(
                    ConsumptionPolicy(
                        productId: try row.value(at: 0), content: content, statedAt: try row.value(at: 1)))
            }
            return policies
        }
    }

    /// States a product's policy, in place of an earlier one. It also applies to requests without an answer. Durable when
    /// this returns; safe to repeat.
    package func state(_ policy: ConsumptionPolicy, of app: String) async throws(ReadError) {
        try await pool.run(
            Statements.state,
            [Parameter(app), Parameter(policy.productId), Parameter(policy.statedAt)] + policy.content.parameters,
            within: Limits.commitWaitMax)
    }

    /// Removes a product's policy. Answers that it has given already are still sent.
    ///
    /// - Returns: False if the product has none.
    package func remove(_ productId: String, of app: String) async throws(ReadError) -> Bool {
        try await pool.read(
            Statements.remove, [Parameter(app), Parameter(productId)], within: Limits.commitWaitMax
        ) { removed throws(PostgresError) in
            return removed.affectedRows > 0
        }
    }

    private enum Statements {
        static let list = Statement(
            "consumption_policy_list",
            """
            select product_id, stated_at, sample_content_provided, delivery_status, consumption_percentage,
              refund_preference
            from subledger.consumption_policy
            where app = $1
            order by product_id collate "C"
            """)

        static let state = Statement(
            "consumption_policy_state",
            """
            insert into subledger.consumption_policy (
              app, product_id, stated_at, sample_content_provided, delivery_status, consumption_percentage,
              refund_preference
            )
            values ($1, $2, $3, $4, $5, $6, $7)
            on conflict (app, product_id) do update
            set stated_at = excluded.stated_at,
              sample_content_provided = excluded.sample_content_provided,
              delivery_status = excluded.delivery_status,
              consumption_percentage = excluded.consumption_percentage,
              refund_preference = excluded.refund_preference
            """)

        static let remove = Statement(
            "consumption_policy_remove",
            """
            delete from subledger.consumption_policy
            where app = $1
              and product_id = $2
            """)
    }
}

extension ConsumptionAnswer {
    /// The columns `sample_content_provided`, `delivery_status`, `consumption_percentage` and `refund_preference`.
    var parameters: [Parameter] {
        [
            Parameter(isSampleProvided), Parameter(delivery.rawValue), Parameter(percentage),
            Parameter(preference?.rawValue),
        ]
    }

    /// Reads the same columns, from one on; nil if they are null.
    static func read(_ row: Row, from column: Int) throws(PostgresError) -> ConsumptionAnswer? {
        guard let isSampleProvided: Bool = try row.optional(at: column) else { return nil }
        let preference: String? = try row.optional(at: column + 3)
        let percentage: Int32? = try row.optional(at: column + 2)
        guard let delivery = Delivery(rawValue: try row.value(at: column + 1)),
            let answer = try? ConsumptionAnswer(
                isSampleProvided: isSampleProvided, delivery: delivery, percentage: percentage,
                preference: preference.flatMap(RefundPreference.init(rawValue:)))
        else { throw PostgresError(.decoding) }
        return answer
    }
}
