import Encoding
import Postgres
import Subscriptions

/// Who owns what a link statement names, as far as that is known before it is appended.
///
/// Whether a link counts is decided by the fold, which knows all evidence. So a statement that should have been refused
/// and was not, because an event before it was not folded yet, is in the log and counts for nothing.
package struct LinkClaims: Sendable {
    let policy: OwnershipPolicy
    /// The owners of each key at any time, by the projections and by the link statements that are not folded yet. A
    /// shared account token has none.
    package let owners: [CustomerKey: Set<CustomerKey>]
    /// The account tokens that too many store accounts share. A link on one has no effect.
    let sharedTokens: Set<CustomerKey>
    /// The customer that named each key last, in the link statements that are not folded yet.
    let latest: [CustomerKey: CustomerKey]

    /// Whether every link of a statement still counts. Each must be one of the customer's.
    package func areHeld(by statement: LinkStatement) -> Bool {
        statement.links.allSatisfy { isHeld($0, by: statement.backendCustomerId.text) }
    }

    /// The first link of a statement on what another customer owns, although what the statement rests on does not take it.
    ///
    /// - Parameter tokens: The account tokens of the purchases that were handed in.
    func contested(by statement: LinkStatement, handingIn tokens: Set<CustomerKey>) -> CustomerKey? {
        guard !statement.basis.takes(under: policy) else { return nil }
        return statement.links.first { link in
            (owners[link] ?? []).contains { owner in
                switch owner.kind {
                case .link: owner.id != statement.backendCustomerId
                // Who hands in a purchase is its app user, unless a backend says otherwise.
                case .account:
                    policy == .firstBuyer && !statement.links.contains(owner)
                        && !(statement.basis == .purchase && tokens.isSubset(of: [owner]))
                case .appTransaction, .subscription: false
                }
            }
        }
    }

    /// Whether the customer's link on a key still counts. Always true if customers share what they link.
    ///
    /// - Parameter key: Must be among those that the claims are about.
    func isHeld(_ key: CustomerKey, by backendCustomerId: String) -> Bool {
        if policy == .shared || sharedTokens.contains(key) { return true }
        let customer = CustomerKey(.link, backendCustomerId)
        return latest[key].map { $0 == customer } ?? owners[key]?.contains(customer) ?? false
    }
}

extension LogReader {
    /// The ownership policy of an app.
    ///
    /// - Throws: ``ReadError``.
    package func ownershipPolicy(of app: String) async throws(ReadError) -> OwnershipPolicy {
        try await pool.read(ClaimStatements.policy, [Parameter(app)], within: Limits.readWaitMax) {
            (configured) throws(PostgresError) -> OwnershipPolicy in
            let policy: String? = try configured.first?.value(at: 0)
            return policy.flatMap(OwnershipPolicy.init(rawValue:)) ?? .standard
        }
    }

    /// Runs the body with the links of the customer of a statement, and the claims on what it names, while no other
    /// process runs such a body for the stream. A statement that the body appends is among the claims of the next one.
    ///
    /// - Throws: ``ReadError``. The body may have run.
    package func withLinkClaims<Value: Sendable>(
        of statement: LinkStatement, in stream: StreamKey, _ policy: OwnershipPolicy,
        _ body: @Sendable (LinkClaims, PlacedLinks) async -> Value
    ) async throws(ReadError) -> Value {
        try await pool.holding(.links, in: stream) { connection async throws(PostgresError) -> Value in
            let (claims, links) = try await Self.known(about: statement, in: stream, policy, connection)
            return await body(claims, links)
        }
    }

    /// Like ``withLinkClaims(of:in:_:_:)``, while other processes may append statements.
    ///
    /// - Throws: ``ReadError``.
    func linkClaims(
        of statement: LinkStatement, in stream: StreamKey, _ policy: OwnershipPolicy
    ) async throws(ReadError) -> (LinkClaims, PlacedLinks) {
        try await pool.using(within: Limits.readWaitMax) {
            (connection) async throws(PostgresError) -> (LinkClaims, PlacedLinks) in
            try await Self.known(about: statement, in: stream, policy, connection)
        }
    }

    private static func known(
        about statement: LinkStatement, in stream: StreamKey, _ policy: OwnershipPolicy,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> (LinkClaims, PlacedLinks) {
        let links = try await links(
            ofCustomer: statement.backendCustomerId.text, among: statement.links, isComplete: statement.isComplete,
            in: stream, connection)
        return (try await claims(of: statement, in: stream, policy, connection), links)
    }

    private static func claims(
        of statement: LinkStatement, in stream: StreamKey, _ policy: OwnershipPolicy, _ connection: PostgresConnection
    ) async throws(PostgresError) -> LinkClaims {
        let deadline = ContinuousClock.now + Limits.readWaitMax
        let rows = try await connection.query(
            Step(
                ClaimStatements.owners,
                [
                    Parameter(stream.app), Parameter(stream.environment.rawValue),
                    .array(statement.links.map(\.kind.rawValue)), .array(statement.links.map(\.id.text)),
                ]), deadline: deadline)
        var owners: [CustomerKey: Set<CustomerKey>] = [:]
        var latest: [CustomerKey: CustomerKey] = [:]
        for row in rows {
            guard let key = try row.customerKey(at: 0), let owner = try row.customerKey(at: 2) else { continue }
            owners[key, default: []].insert(owner)
            if try row.optional(Int64.self, at: 4) != nil { latest[key] = owner }
        }
        var sharedTokens: Set<CustomerKey> = []
        let tokens = statement.links.filter { $0.kind == .account }.map(\.id.text)
        for row in try await connection.query(
            Step(
                ClaimStatements.sharedTokens,
                [Parameter(stream.app), Parameter(stream.environment.rawValue), .array(tokens)]), deadline: deadline)
        {
            let token: String = try row.value(at: 0)
            sharedTokens.insert(CustomerKey(.account, token))
        }
        for token in sharedTokens { owners[token] = nil }
        return LinkClaims(policy: policy, owners: owners, sharedTokens: sharedTokens, latest: latest)
    }

    private enum ClaimStatements {
        static let policy = Statement(
            "log_ownership_policy",
            """
            select policy
            from subledger.app_ownership
            where app = $1
            """)

        /// Those of some account tokens that too many store accounts share.
        static let sharedTokens = Statement(
            "log_shared_account_tokens",
            """
            select shared_account_token.account_token
            from subledger.stream
            join subledger.shared_account_token using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and shared_account_token.account_token = any ($3::text[])
            """)

        static let owners = Statement(
            "log_link_owners",
            """
            select input.kind, input.id, owner.customer_kind, owner.customer_id, owner.position
            from subledger.stream
            join subledger.stream_head using (stream_id)
            cross join unnest($3::text[], $4::text[]) as input (kind, id)
            cross join lateral (
              select ownership.customer_kind, ownership.customer_id, null::bigint as position
              from subledger.ownership
              where ownership.stream_id = stream_head.stream_id
                and ownership.original_transaction_id = input.id
                and ownership.reason <> 'seat'
                and input.kind = 'subscription'
              union
              select customer_identity.customer_kind, customer_identity.customer_id, null
              from subledger.customer_identity
              where customer_identity.stream_id = stream_head.stream_id
                and customer_identity.kind = input.kind
                and customer_identity.id = input.id
              union
              select 'link', event.facts #>> '{link,backendCustomerId}', event.position
              from subledger.event
              where event.stream_id = stream_head.stream_id
                and event.position > coalesce((
                  select checkpoint.position
                  from subledger.checkpoint
                  where checkpoint.stream_id = stream_head.stream_id
                ), 0)
                and event.kind = 'link'
                and event.facts #>> '{link,basis}' is distinct from 'seat'
                and event.facts #> '{link,links}' @> jsonb_build_array(jsonb_build_object(
                  case input.kind
                    when 'account' then 'appAccountToken'
                    when 'app_transaction' then 'appTransactionId'
                    else 'originalTransactionId'
                  end, input.id))
            ) as owner
            where stream.app = $1
              and stream.environment = $2
            order by owner.position nulls first
            """)
    }
}
