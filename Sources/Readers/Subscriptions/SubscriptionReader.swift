import Encoding
import EventLog
import Postgres
import Subscriptions

/// Reads folded subscriptions.
package struct SubscriptionReader: Sendable {
    let pool: PostgresPool
    private let asked: AskedApps

    package init(pool: PostgresPool, asked: AskedApps = AskedApps()) {
        self.pool = pool
        self.asked = asked
    }

    package struct Found: Sendable {
        package let app: String
        /// The position of the last event about the subscription.
        package let position: Int64
        package let subscription: Subscription
        /// The seats that a backend gave to its customers.
        package let seats: SeatClaims
        /// Nil if the store was not asked about the subscription and will not be.
        package let checks: SubscriptionChecks?
        /// The account tokens of its purchases that too many store accounts share, in order.
        package let sharedAccountTokens: [String]
        /// The log has all transactions since then; nil if the store's history was not read.
        package let coveredSince: Instant?
        /// The latest changes at the store that operators asked for, oldest first.
        package let writes: [SubscriptionWrite]
    }

    /// Whether a customer of the backend owns each of some subscriptions, or purchases that are part of one, at an instant.
    ///
    /// - Throws: ``ReadError``.
    package func areOwned(
        _ ids: [String], by backendCustomerId: String, in stream: StreamKey, at instant: Instant
    ) async throws(ReadError) -> Bool {
        try await pool.read(
            Self.ownedSubscriptions,
            [
                Parameter(stream.app), Parameter(stream.environment.rawValue), .array(Array(Set(ids))),
                Parameter(backendCustomerId), Parameter(instant),
            ], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Bool in
            try rows[0].value(Int64.self, at: 0) == Int64(Set(ids).count)
        }
    }

    private static let ownedSubscriptions = Statement(
        "subscriptions_owned_by_customer",
        """
        select count(*)
        from subledger.stream
        cross join unnest($3::text[]) as input (id)
        left join subledger.subscription
          on subscription.stream_id = stream.stream_id
          and subscription.original_transaction_id = input.id
        where stream.app = $1
          and stream.environment = $2
          and exists (
            select
            from subledger.ownership
            where ownership.stream_id = stream.stream_id
              and ownership.original_transaction_id = coalesce(subscription.part_of, input.id)
              and ownership.customer_kind = 'link'
              and ownership.customer_id = $4
              and ownership.reason <> 'seat'
              and ownership.starts_at <= $5
              and ownership.ends_at > $5
          )
        """)

    /// A customer of the backend, and how many purchases it owns in the environment.
    package struct Owner: Sendable, Hashable {
        package let customerId: String
        package let purchases: Int
    }

    /// The customers of the backend, others than one, from whom it would take some of the subscriptions, or purchases that are
    /// part of one, if it proved them at an instant. Members of a seat own nothing, and customers who share lose nothing.
    ///
    /// - Throws: ``ReadError``.
    package func otherOwners(
        of ids: [String], than backendCustomerId: String, app: String, at instant: Instant
    ) async throws(ReadError) -> [Owner] {
        try await pool.read(
            Self.otherOwnersOfSubscriptions,
            [Parameter(app), .array(Array(Set(ids))), Parameter(backendCustomerId), Parameter(instant)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            try rows.map { (row) throws(PostgresError) -> Owner in
                Owner(customerId: try row.value(at: 0), purchases: Int(try row.value(Int64.self, at: 1)))
            }
        }
    }

    private static let otherOwnersOfSubscriptions = Statement(
        "subscriptions_other_owners",
        """
        select owner.customer_id, count(*)
        from (
          select distinct asked.stream_id, asked.customer_id
          from subledger.stream
          cross join unnest($2::text[]) as input (id)
          left join subledger.subscription
            on subscription.stream_id = stream.stream_id
            and subscription.original_transaction_id = input.id
          join subledger.ownership as asked
            on asked.stream_id = stream.stream_id
            and asked.original_transaction_id = coalesce(subscription.part_of, input.id)
          where stream.app = $1
            and asked.customer_kind = 'link'
            and asked.reason <> 'seat'
            and asked.customer_id <> $3
            and asked.starts_at <= $4
            and asked.ends_at > $4
            and not exists (
              select
              from subledger.app_ownership
              where app_ownership.app = $1
                and app_ownership.policy = 'shared'
            )
        ) as owner
        join subledger.ownership as owned
          on owned.stream_id = owner.stream_id
          and owned.customer_id = owner.customer_id
        where owned.customer_kind = 'link'
          and owned.reason <> 'seat'
          and owned.ends_at > $4
        group by owner.customer_id
        """)

    /// The subscriptions with this id in an environment: one for each app that has it, in order of bundle id.
    ///
    /// Every purchase on Google Play that is part of a subscription leads to it.
    ///
    /// - Parameter app: Only this app's subscriptions; nil for all apps.
    package func subscriptions(
        originalTransactionId: String, environment: Environment, app: String?
    ) async throws(ReadError) -> [Found] {
        do {
            let rows = try await pool.query(
                Self.findSubscriptions,
                [
                    Parameter(environment.rawValue), Parameter(originalTransactionId), Parameter(app),
                    .array(asked.withoutReceipt.sorted()),
                    asked.withReceipt.map { .array($0.sorted()) } ?? Parameter(String?.none),
                    .array(asked.ofGooglePlay.sorted()),
                ],
                deadline: .now + Limits.readWaitMax)
            var found: [Found] = []
            for index in 0..<rows.count {
                let document = try JSONDocument(try rows[index].value(JSONText.self, at: 2).utf8)
                let facts = try SubscriptionFacts(
                    originalTransactionId: originalTransactionId, json: document.root)
                let foundApp: String = try rows[index].value(at: 0)
                if let line = facts.line {
                    // A purchase on Google Play that continues an earlier one.
                    found += try await subscriptions(
                        originalTransactionId: line.originalTransactionId, environment: environment, app: foundApp)
                    continue
                }
                var tokens: [String] = []
                if let shared = try rows[index].optional(JSONText.self, at: 4) {
                    tokens = try JSONDocument(shared.utf8).root.elements.compactMap(\.string)
                }
                let products = ProductCatalog(configured: try rows[index].optional(at: 3) ?? "")
                let subscription = Subscription(facts, products: products)
                var checks = try SubscriptionChecks(rows[index], at: 5)
                if !subscription.purchases.isEmpty {
                    let stream = StreamKey(app: foundApp, environment: environment)
                    checks = try await self.checks(
                        of: subscription.purchases.map(\.purchaseToken), in: stream, planned: checks?.next)
                }
                found.append(
                    Found(
                        app: foundApp, position: try rows[index].value(at: 1), subscription: subscription,
                        seats: SeatClaims(of: facts), checks: checks, sharedAccountTokens: tokens,
                        coveredSince: try rows[index].optional(at: 11),
                        writes: try SubscriptionWrite.read(rows[index], at: 12)))
            }
            return found
        } catch {
            throw ReadError(reading: error)
        }
    }

    private static let findSubscriptions = Statement(
        "subscription_find",
        """
        select stream.app, subscription.position, subscription.facts,
          (
            select product_catalog.products
            from subledger.product_catalog
            where product_catalog.app = stream.app
          ),
          (
            select json_agg(customer_edge.id order by customer_edge.id collate "C")::text
            from subledger.customer_edge
            where customer_edge.stream_id = subscription.stream_id
              and customer_edge.original_transaction_id = subscription.original_transaction_id
              and customer_edge.kind = 'account'
              and exists (
                select
                from subledger.shared_account_token
                where shared_account_token.stream_id = customer_edge.stream_id
                  and shared_account_token.account_token = customer_edge.id
                offset 0
              )
          ),
          case
            when check_schedule.purchase_token is not null and stream.app = any ($6::text[])
              or check_schedule.purchase_token is null
                and (
                  stream.app = any ($4::text[])
                  or check_schedule.has_receipt and ($5::text[] is null or stream.app = any ($5::text[]))
                )
              then check_schedule.next_at
          end,
          check_schedule.reason, last.asked_at, last.result, last.status, last.position, store_history.covered_since,
          \(SubscriptionWrite.query)
        from subledger.stream
        join subledger.subscription using (stream_id)
        left join subledger.check_schedule
          on check_schedule.stream_id = subscription.stream_id
          and check_schedule.original_transaction_id = subscription.original_transaction_id
        left join subledger.store_history
          on store_history.stream_id = subscription.stream_id
          and store_history.original_transaction_id = subscription.original_transaction_id
        left join lateral (
          select store_check.asked_at, store_check.result, store_check.status, store_check.position
          from subledger.store_check
          where store_check.stream_id = subscription.stream_id
            and store_check.original_transaction_id = subscription.original_transaction_id
          order by store_check.asked_at desc
          limit 1
        ) as last on true
        where stream.environment = $1
          and subscription.original_transaction_id = $2
          and stream.app = coalesce($3, stream.app)
        order by stream.app
        """)
}
