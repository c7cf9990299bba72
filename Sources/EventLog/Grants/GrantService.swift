import Encoding
import Postgres
import Subscriptions

/// Gives access by hand and takes it back, by events like those of the stores; and seats of subscriptions, see
/// ``claimSeat(of:for:in:receivedAt:)``.
package struct GrantService: Sendable {
    let pool: PostgresPool
    let links: LinkService
    let appender: Appender

    /// - Parameters:
    ///   - pool: Has the rights of `subledger_reader`.
    ///   - links: Of the apps for which access can be given.
    package init(pool: PostgresPool, links: LinkService, appender: Appender) {
        self.pool = pool
        self.links = links
        self.appender = appender
    }

    package func accepts(_ app: String) -> Bool { links.apps.contains(app) }

    /// The latest statement about a grant.
    package struct Standing: Sendable, Hashable {
        package let grant: GrantStatement
        package let position: Int64
        package let receivedAt: Instant
    }

    package enum Outcome: Sendable, Hashable {
        /// The position of the statement in force, and whether it is new.
        case stated(position: Int64, isNew: Bool)
        /// The id is of a grant to another customer. Nothing was appended.
        case otherCustomer
        /// No product of the app gives the entitlement. Nothing was appended.
        case unknownEntitlement
        /// There is no such grant. Nothing was appended.
        case unknownGrant
    }

    /// The grant with an id, by all statements of the log, projected or not; nil if there is none.
    ///
    /// - Throws: ``ReadError``.
    package func standing(_ id: String, in stream: StreamKey) async throws(ReadError) -> Standing? {
        try await pool.read(
            Statements.standing,
            [
                Parameter(stream.app), Parameter(stream.environment.rawValue),
                Parameter(GrantStatement.key(of: id).id.text),
            ], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            guard let row = rows.first else { return nil }
            let body: JSONB = try row.value(at: 0)
            guard let document = try? JSONDocument(body.utf8), let grant = GrantStatement(body: document.root) else {
                throw PostgresError(.decoding)
            }
            return Standing(grant: grant, position: try row.value(at: 1), receivedAt: try row.value(at: 2))
        }
    }

    /// Gives access. Durable when this returns. Safe to repeat: the grant that stands is not stated again.
    ///
    /// A grant with the id of another one replaces it, such as one with another end.
    ///
    /// - Throws: ``ReadError``, ``AppendError``. The customer may be linked to a grant that does not exist yet.
    package func give(
        _ grant: GrantStatement, source: EventSource, in stream: StreamKey, receivedAt: Instant
    ) async throws -> Outcome {
        try await inTurn(grant.id, of: grant.customerId.text, in: stream) { standing, isLinked in
            if let standing {
                guard standing.grant.customerId == grant.customerId else { return .otherCustomer }
                if standing.grant.gives(sameAs: grant) { return .stated(position: standing.position, isNew: false) }
            }
            guard try await isGiven(grant.entitlement, by: stream.app) else { return .unknownEntitlement }
            if !isLinked {
                let link = Self.link(grant.id, grant.customerId.text)
                _ = try await links.append(link, in: stream, receivedAt: receivedAt).get()
            }
            return try await append(grant, source, stream, after: standing, receivedAt)
        }
    }

    /// Takes a grant back from now on. Durable when this returns. Safe to repeat.
    ///
    /// - Parameter customerId: Whose it must be; nil for anybody's.
    /// - Throws: ``GrantStatement/Malformed``, ``ReadError``, ``AppendError``.
    package func revoke(
        _ id: String, of customerId: String?, reason: String, by: String?, source: EventSource, in stream: StreamKey,
        receivedAt: Instant
    ) async throws -> Outcome {
        var owner = customerId
        if owner == nil { owner = try await standing(id, in: stream)?.grant.customerId.text }
        guard let owner else { return .unknownGrant }
        return try await inTurn(id, of: owner, in: stream) { standing, _ in
            guard let standing, standing.grant.customerId == ByteString(owner) else { return .unknownGrant }
            // It has ended, perhaps because it was taken back before.
            if let until = standing.grant.until, until <= receivedAt {
                return .stated(position: standing.position, isNew: false)
            }
            let revoked = try GrantStatement(
                id: id, customerId: owner, entitlement: standing.grant.entitlement, from: standing.grant.from,
                until: receivedAt, reason: reason, by: by, isRevocation: true)
            return try await append(revoked, source, stream, after: standing, receivedAt)
        }
    }

    /// Runs the body with the latest statement about a grant, and whether the customer is linked to it, while no other
    /// process states anything about customers of the stream: of two who act at once, the later one sees what the first did.
    private func inTurn(
        _ id: String, of customerId: String, in stream: StreamKey,
        _ body: @Sendable (Standing?, Bool) async throws -> Outcome
    ) async throws -> Outcome {
        let link = Self.link(id, customerId)
        return try await inTurn(of: link, in: stream) { placed in
            try await body(try await standing(id, in: stream), placed.keys.isSuperset(of: link.links))
        }
    }

    /// Runs the body with the links of the customer of a statement, while no other process states anything about customers of
    /// the stream.
    func inTurn<Value: Sendable>(
        of link: LinkStatement, in stream: StreamKey, _ body: @Sendable (PlacedLinks) async throws -> Value
    ) async throws -> Value {
        let policy = try await links.log.ownershipPolicy(of: stream.app)
        let result = try await links.log.withLinkClaims(of: link, in: stream, policy) {
            (_, placed) async -> Result<Value, any Error> in
            do {
                return .success(try await body(placed))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private static func link(_ id: String, _ customerId: String) -> LinkStatement {
        LinkStatement(
            backendCustomerId: customerId, links: [GrantStatement.key(of: id)], isComplete: false, basis: .transfer)
    }

    /// Whether customers of an app can have an entitlement: any, if no product is configured, for then each product gives
    /// an entitlement of its own name.
    ///
    /// - Throws: ``ReadError``.
    package func isGiven(_ entitlement: String, by app: String) async throws(ReadError) -> Bool {
        try await pool.read(
            Statements.isGiven, [Parameter(app), Parameter(entitlement)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try rows.first?.value(at: 0) ?? false
        }
    }

    /// Of two statements, the one with the later time counts, so it is later than the one before by the clock, too.
    private func append(
        _ grant: GrantStatement, _ source: EventSource, _ stream: StreamKey, after standing: Standing?,
        _ receivedAt: Instant
    ) async throws -> Outcome {
        let receivedAt = max(receivedAt, standing?.receivedAt.advanced(byMilliseconds: 1) ?? receivedAt)
        let stated = StatedEvent(
            grant.event(source: source, environment: stream.environment, app: stream.app, receivedAt: receivedAt),
            text: grant.canonicalText, stream: stream)
        let appended = try await appender.append(PreparedEvent(stated, receivedAt: receivedAt))
        return .stated(position: appended.position, isNew: appended.isNew)
    }

    private enum Statements {
        static let standing = Statement(
            "grant_standing",
            """
            with folded as materialized (
              select stream_head.stream_id, coalesce(checkpoint.position, 0) as position
              from subledger.stream
              join subledger.stream_head using (stream_id)
              left join subledger.checkpoint using (stream_id)
              where stream.app = $1
                and stream.environment = $2
            )
            select stated.facts #> '{transactions,0,additional}', stated.position, stated.received_at
            from (
              select event.facts, event.position, event.received_at
              from folded
              join subledger.transaction using (stream_id)
              join subledger.event
                on event.stream_id = folded.stream_id
                and event.position = any (transaction.positions)
              where transaction.original_transaction_id = $3
              union all
              select event.facts, event.position, event.received_at
              from folded
              join subledger.event using (stream_id)
              where event.position > folded.position
                and event.kind in ('grant', 'grant_revoked')
                and event.facts #>> '{transactions,0,originalTransactionId}' = $3
            ) as stated
            order by stated.received_at desc, stated.position desc
            limit 1
            """)

        static let isGiven = Statement(
            "grant_entitlement",
            """
            select
              case
                when exists (
                  select
                  from subledger.product_entitlement
                  where app = $1
                    and product_id = $2
                ) then exists (
                  select
                  from subledger.product_entitlement
                  where app = $1
                    and product_id = $2
                    and entitlement = $2
                )
                else not exists (
                  select
                  from subledger.product_entitlement
                  where app = $1
                ) or exists (
                  select
                  from subledger.product_entitlement
                  where app = $1
                    and entitlement = $2
                ) or exists (
                  select
                  from subledger.product
                  where app = $1
                    and product_id = $2
                )
              end
            """)
    }
}
