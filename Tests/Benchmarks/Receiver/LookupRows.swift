import Postgres
import TestSupport

/// Projected customers, each with a backend's id, an account token, and a subscription that was renewed once.
enum LookupRows {
    /// A point select of the row that identifies a customer.
    static let select = """
        select customer_id
        from subledger.customer_identity
        where stream_id = 1
          and kind = 'link'
          and id = (:customer)::text
        """

    static func fill(_ database: SharedDatabase, subscriptions: Int) async throws {
        let connection = try await TestCluster.connect(database.configuration)
        for step in [
            """
            insert into subledger.stream (stream_id, app, environment) values (1, '\(V1Body.app)', 'production');
            insert into subledger.checkpoint (stream_id, position, products) values (1, 0, '');
            insert into subledger.product_entitlement (app, product_id, entitlement)
            values ('\(V1Body.app)', 'monthly', 'plus')
            """,
            """
            insert into subledger.subscription (
              stream_id, original_transaction_id, product_id, auto_renew, access_ends_at, position, facts
            )
            select 1, (2000000000000000 + number)::text, 'monthly', true, now() + interval '20 days', number, '{}'
            from generate_series(1, \(subscriptions)) as number
            """,
            """
            insert into subledger.access_period (
              stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, product_id, position
            )
            select 1, (2000000000000000 + number)::text, now() + (period - 1) * interval '30 days' - interval '10 days',
              now() + period * interval '30 days' - interval '10 days', 'paid',
              (3000000000000000 + number * 2 + period)::text, 'monthly', number
            from generate_series(1, \(subscriptions)) as number
            cross join generate_series(0, 1) as period
            """,
            """
            insert into subledger.customer_identity (
              stream_id, kind, id, starts_at, ends_at, customer_kind, customer_id
            )
            select 1, identity.kind, identity.id, '-infinity', 'infinity', 'link', number::text
            from generate_series(1, \(subscriptions)) as number
            cross join lateral (
              values
                ('link', number::text), ('subscription', (2000000000000000 + number)::text),
                ('account', overlay(md5(number::text)::uuid::text placing '4' from 15 for 1))
            ) as identity (kind, id)
            """,
            """
            insert into subledger.ownership (
              stream_id, original_transaction_id, starts_at, ends_at, customer_kind, customer_id, reason, position
            )
            select 1, (2000000000000000 + number)::text, '-infinity', 'infinity', 'link', number::text, 'link', number
            from generate_series(1, \(subscriptions)) as number
            """,
            """
            vacuum analyze subledger.subscription, subledger.access_period, subledger.ownership,
              subledger.customer_identity, subledger.product_entitlement, subledger.stream
            """,
            "checkpoint",
        ] {
            try await connection.script(step, deadline: .now + .seconds(1800))
        }
        await connection.close()
    }
}
