import EventLog
import Postgres
import Subscriptions

extension ProjectionAudit {
    /// Compares the links of a stream with the link statements in the log.
    func checkLinks(_ stream: Int32) async throws {
        try await atOneMoment(of: stream) { folded, _ in
            let rows = try await query(
                Step(CustomerAuditStatements.firstDifferingLink, [Parameter(stream), Parameter(folded)]),
                Limits.tableWaitMax)
            guard rows.count > 0 else { return }
            throw Problem(description: "customer_link \(try rows[0].value(String.self, at: 0))")
        }
    }

    /// Checks that exactly those account tokens are recorded as shared with which too many people buy.
    func checkSharedTokens(_ stream: Int32) async throws {
        try await atOneMoment(of: stream) { _, rules in
            let rows = try await query(
                Step(
                    CustomerAuditStatements.firstDifferingToken,
                    [Parameter(stream), Parameter(Int64(rules.storeAccountsPerTokenMax))]), Limits.tableWaitMax)
            guard rows.count > 0 else { return }
            throw Problem(description: "shared_account_token \(try rows[0].value(String.self, at: 0))")
        }
    }

    /// Checks that every subscription has exactly the owners, and every id leads to exactly the customers, that edges,
    /// links and rules give.
    ///
    /// - Parameter isWanted: Decides by an id whether its store account is checked.
    func checkCustomers(_ stream: Int32, isWanted: (String) -> Bool) async throws {
        let missing = try await query(
            Step(CustomerAuditStatements.firstWithoutIdentity, [Parameter(stream)]), Limits.tableWaitMax)
        if missing.count > 0 {
            throw Problem(description: "customer_identity \(try missing[0].value(String.self, at: 0)): is missing")
        }
        var after: CustomerKey? = CustomerKey(.account, "")
        while let last = after {
            try Task.checkCancellation()
            after = nil
            try await atOneMoment(of: stream) { _, rules in
                let keys = try await query(
                    Step(
                        CustomerAuditStatements.pageKeys,
                        [
                            Parameter(stream), Parameter(last.kind.rawValue), Parameter(last.id.text),
                            Parameter(Limits.auditCustomersMax),
                        ]),
                    Limits.statementWaitMax
                ).compactMap { row throws(PostgresError) -> CustomerKey? in try row.customerKey(at: 0) }
                after = keys.last
                let wanted = Set(keys.filter { isWanted($0.id.text) })
                guard !wanted.isEmpty else { return }
                switch try await StoredCustomers.load(stream, around: wanted, known: [:], connection) {
                case .success(let stored): if let problem = Self.problem(of: stored, rules.policy) { throw problem }
                case .failure(let failure): throw Problem(description: "\(failure)")
                }
            }
        }
    }

    private static func problem(of stored: StoredCustomers, _ policy: OwnershipPolicy) -> Problem? {
        let fresh = stored.computed(by: policy)
        let owned = Set(fresh.ownership).symmetricDifference(stored.ownership)
        if let id = owned.map(\.originalTransactionId).min() {
            let isStored = stored.ownership.contains { $0.originalTransactionId == id }
            return Problem(
                description: "ownership of subscription \(id): \(isStored ? "differs from a fresh fold" : "is missing")"
            )
        }
        let leading = Set(fresh.identities).symmetricDifference(stored.identities)
        return leading.map(\.key).min().map { key in
            let isStored = stored.identities.contains { $0.key == key }
            return Problem(
                description: "customer_identity \(key.kind.rawValue) \(key.id): "
                    + (isStored ? "differs from a fresh fold" : "is missing"))
        }
    }

    /// Runs the body in a read-only transaction with one snapshot. The body receives the position up to which the
    /// stream was folded then, and the ownership rules of its rows.
    private func atOneMoment(
        of stream: Int32, _ body: (Int64, OwnershipRules) async throws -> Void
    ) async throws {
        try await connection.begin(deadline: .now + Limits.statementWaitMax)
        do {
            _ = try await query(Step(AuditStatements.beginSnapshot), Limits.statementWaitMax)
            // Temporary tables would come first if the path did not name them.
            let tables = "\(ProjectionTables.live.rawValue), \(ProjectionTables.temporary.rawValue)"
            _ = try await query(
                Step(AuditStatements.selectTables, [Parameter(tables)]), Limits.statementWaitMax)
            let place = try await query(
                Step(AuditStatements.streamPosition, [Parameter(stream)]), Limits.statementWaitMax)
            let rules = OwnershipRules(text: try place[0].optional(at: 4) ?? "") ?? .standard
            try await body(try place[0].optional(at: 1) ?? 0, rules)
            try await connection.rollback(deadline: .now + Limits.statementWaitMax)
        } catch {
            try? await connection.rollback(deadline: .now + Limits.statementWaitMax)
            throw error
        }
    }
}

/// SQL for checking customers.
enum CustomerAuditStatements {
    /// The first link that differs from the statements in the log, as the end of a line.
    static let firstDifferingLink = Statement(
        "audit_first_differing_link",
        """
        with stated as (
          select facts #>> '{link,backendCustomerId}' as backend_customer_id, position,
            facts #> '{link,links}' as links,
            coalesce(facts #>> '{link,basis}', 'transfer') as basis,
            min(position) filter (where facts #> '{link,adds}' is null) over (
              partition by facts #>> '{link,backendCustomerId}'
              order by position
              rows between 1 following and unbounded following
            ) as replaced_position
          from subledger.event
          left join subledger.projector_skip using (stream_id, position)
          where event.stream_id = $1
            and event.kind = 'link'
            and event.position <= $2
            and projector_skip.position is null
        ),
        fresh as (
          select backend_customer_id, position,
            case entry.key
              when 'appAccountToken' then 'account'
              when 'appTransactionId' then 'app_transaction'
              else 'subscription'
            end as kind,
            entry.value as id,
            case when entry.value not like 'grant:%' and basis <> 'seat' then replaced_position end as replaced_position,
            basis
          from stated
          cross join jsonb_array_elements(links) as link
          cross join jsonb_each_text(link) as entry
        ),
        live as (
          select backend_customer_id, position, kind, id, replaced_position, basis
          from subledger.customer_link
          where stream_id = $1
        )
        select concat_ws(' ', kind, id, 'of', backend_customer_id) || ': differs from a fresh fold'
        from (table live except table fresh) as differing
        union all
        select concat_ws(' ', kind, id, 'of', backend_customer_id) || ': is missing'
        from (table fresh except table live) as missing
        limit 1
        """)

    /// The first account token that is recorded as shared but with which at most a number of people buy, or the other way
    /// round, as the end of a line.
    static let firstDifferingToken = Statement(
        "audit_first_differing_token",
        """
        with many as materialized (
          select id
          from subledger.customer_edge
          where stream_id = $1
            and kind = 'account'
          group by id
          having count(*) > $2
        ),
        fresh as (
          select id as account_token
          from many
          where \(CustomerStatements.isShared("many.id", in: "subledger.", max: "$2"))
        ),
        live as (
          select account_token
          from subledger.shared_account_token
          where stream_id = $1
        )
        select account_token || ': differs from a fresh fold'
        from (table live except table fresh) as differing
        union all
        select account_token || ': is missing'
        from (table fresh except table live) as missing
        limit 1
        """)

    /// The first subscription, or backend id with links, that leads to no customer.
    static let firstWithoutIdentity = Statement(
        "audit_first_without_identity",
        """
        select kind || ' ' || id
        from (
          select 'subscription' as kind, original_transaction_id as id
          from subledger.subscription
          where stream_id = $1
          union all
          select 'link', backend_customer_id
          from subledger.customer_link
          where stream_id = $1
            and replaced_position is null
        ) as wanted
        where not exists (
          select
          from subledger.customer_identity
          where customer_identity.stream_id = $1
            and customer_identity.kind = wanted.kind
            and customer_identity.id = wanted.id
        )
        order by kind, id
        limit 1
        """)

    /// A page of ids that lead to a customer, after an id. Ids that a subscription has are left out: its store account
    /// is checked with them.
    static let pageKeys = Statement(
        "audit_page_customer_keys",
        """
        select distinct kind, id
        from subledger.customer_identity
        where stream_id = $1
          and (kind, id) > ($2, $3)
          and (
            kind in ('link', 'subscription')
            or not exists (
              select
              from subledger.customer_edge
              where customer_edge.stream_id = $1
                and customer_edge.kind = customer_identity.kind
                and customer_edge.id = customer_identity.id
            )
          )
        order by kind, id
        limit $4
        """)
}
