import EventLog
import Postgres
import Subscriptions

extension ProjectionAudit {
    /// Compares the links of a stream with the link statements in the log.
    func checkLinks(_ stream: Int32) async throws {
        try await atOneMoment(of: stream) { folded in
            let rows = try await query(
                Step(CustomerAuditStatements.firstDifferingLink, [Parameter(stream), Parameter(folded)]),
                Limits.tableWaitMax)
            guard rows.count > 0 else { return }
            throw Problem(description: "customer_link \(try rows[0].value(String.self, at: 0))")
        }
    }

    /// Checks that customers are exactly the groups that edges and links tie together, and have the right names.
    ///
    /// - Parameter isWanted: Decides by its name whether a customer is checked.
    func checkGroups(_ stream: Int32, isWanted: (String) -> Bool) async throws {
        let missing = try await query(
            Step(CustomerAuditStatements.firstWithoutIdentity, [Parameter(stream)]), Limits.tableWaitMax)
        if missing.count > 0 {
            throw Problem(description: "customer_identity \(try missing[0].value(String.self, at: 0)): is missing")
        }
        var after: String? = ""
        while let last = after {
            try Task.checkCancellation()
            after = nil
            try await atOneMoment(of: stream) { _ in
                let names = try await query(
                    Step(
                        CustomerAuditStatements.pageNames,
                        [Parameter(stream), Parameter(last), Parameter(Limits.auditCustomersMax)]),
                    Limits.statementWaitMax
                ).map { row throws(PostgresError) -> String in try row.value(at: 0) }
                after = names.last
                let wanted = names.filter(isWanted)
                guard !wanted.isEmpty else { return }
                let groups = try await StoredGroups.load(stream, names: wanted, connection)
                if let problem = Self.problem(of: groups) { throw problem }
            }
        }
    }

    private static func problem(of groups: StoredGroups) -> Problem? {
        let wanted = groups.wanted()
        func problem(_ key: CustomerKey, _ what: String) -> Problem {
            Problem(description: "customer_identity \(key.kind.rawValue) \(key.id): \(what)")
        }
        if let key = groups.identities.filter({ wanted[$0.key] != $0.value }).keys.min() {
            return problem(key, "differs from a fresh fold")
        }
        return wanted.keys.filter { groups.identities[$0] == nil }.min().map {
            problem($0, "belongs to another customer")
        }
    }

    /// Runs the body in a read-only transaction with one snapshot. The body receives the position up to which the
    /// stream was folded then.
    private func atOneMoment(of stream: Int32, _ body: (Int64) async throws -> Void) async throws {
        try await connection.begin(deadline: .now + Limits.statementWaitMax)
        do {
            _ = try await query(Step(AuditStatements.beginSnapshot), Limits.statementWaitMax)
            // Temporary tables would come first if the path did not name them.
            let tables = "\(ProjectionTables.live.rawValue), \(ProjectionTables.temporary.rawValue)"
            _ = try await query(
                Step(AuditStatements.selectTables, [Parameter(tables)]), Limits.statementWaitMax)
            let place = try await query(
                Step(AuditStatements.streamPosition, [Parameter(stream)]), Limits.statementWaitMax)
            try await body(try place[0].optional(at: 1) ?? 0)
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
            lead(position) over (
              partition by facts #>> '{link,backendCustomerId}'
              order by position
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
            entry.value as id, replaced_position
          from stated
          cross join jsonb_array_elements(links) as link
          cross join jsonb_each_text(link) as entry
        ),
        live as (
          select backend_customer_id, position, kind, id, replaced_position
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

    /// The first subscription, or backend id with links, that belongs to no customer.
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

    static let pageNames = Statement(
        "audit_page_customers",
        """
        select distinct customer_group_id
        from subledger.customer_identity
        where stream_id = $1
          and customer_group_id > $2
        order by customer_group_id
        limit $3
        """)
}
