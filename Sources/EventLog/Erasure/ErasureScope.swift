import Encoding
import Postgres
import Subscriptions

/// What is a person's in the log: ids, subscriptions, and the events that name them.
package struct ErasureScope: Sendable {
    /// The part in one stream.
    package struct Part: Sendable {
        package let streamId: Int32
        package let stream: StreamKey
        /// Whether it is of the app that the operator named.
        let isOfApp: Bool
        /// Whether the stores' own ids of the person's purchases are replaced, too.
        package let replacesTransactions: Bool
        /// Everything that leads to the person.
        fileprivate var known: Set<CustomerKey> = []
        /// What is the person's alone, in all streams. Of subscriptions, only purchase tokens: Apple's numbers name no person.
        /// All of them if ``replacesTransactions``.
        package internal(set) var keys: Set<CustomerKey> = []
        /// The stores' own ids of the person's purchases in all streams, if ``replacesTransactions``: of subscriptions,
        /// transactions and order lines of Apple, and of orders of Google.
        package internal(set) var transactions: Set<String> = []
        /// Ids that led to the person and are somebody else's now, or have always been.
        package internal(set) var kept: Set<CustomerKey> = []
        /// By the id before the erasure.
        package internal(set) var subscriptions: [String: Owned] = [:]
        /// The events that name any of it, in ascending order.
        package internal(set) var positions: [Int64] = []

        /// Those subscriptions that nobody else owns now, and that are not part of another one, as purchases on Google Play
        /// can be.
        package var lines: [String] { subscriptions.filter { $0.value.isLine && $0.value.isAlone }.map(\.key).sorted() }

        /// The subscriptions whose ids are replaced, by their ids before.
        var renamed: Set<String> { Set(keys.filter { $0.kind == .subscription }.map(\.id.text)) }

        init(streamId: Int32, stream: StreamKey, isOfApp: Bool, replacesTransactions: Bool) {
            self.streamId = streamId
            self.stream = stream
            self.isOfApp = isOfApp
            self.replacesTransactions = replacesTransactions
        }
    }

    /// A subscription that is the person's, or was.
    package struct Owned: Sendable, Hashable {
        var intervals: [ClosedRange<Instant>] = []
        /// Whether it is the person's now, and nobody else's.
        let isAlone: Bool
        let isLine: Bool
        /// Whether it was another customer's at any time, or one has a seat of it.
        let isShared: Bool
    }

    /// In the order of the streams' ids. Empty if nobody is known by the id.
    package internal(set) var parts: [Part]
    /// Why the stores' own ids cannot be replaced; nil if they can, or are not asked for.
    package internal(set) var obstacle: Erasure.Failure?

    package var isEmpty: Bool { parts.allSatisfy { $0.keys.isEmpty && $0.subscriptions.isEmpty } }

    /// Whether both are about the same ids and subscriptions.
    func names(thoseOf other: ErasureScope) -> Bool {
        parts.elementsEqual(other.parts) { $0.keys == $1.keys && $0.subscriptions == $1.subscriptions }
    }
}

extension ErasureScope {
    /// Finds the person by an id, in the app's stream of an environment and in that of the app with which it shares customers;
    /// and in those streams of what names no environment, as pushes of Google do.
    ///
    /// - Parameter transactions: Whether the stores' own ids are replaced, too.
    /// - Throws: ``PostgresError``.
    static func find(
        _ key: CustomerKey, app: String, environment: Environment, transactions: Bool,
        on connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> ErasureScope {
        var scope = ErasureScope(parts: [])
        guard !Pseudonyms.isName(key.id.text) else { return scope }
        for row in try await connection.query(
            Statements.streams, [Parameter(app), Parameter(environment.rawValue)], deadline: deadline)
        {
            let own: String = try row.value(at: 1)
            guard let environment = Environment(rawValue: try row.value(at: 2)) else { continue }
            let stream = StreamKey(app: own, environment: environment)
            scope.parts.append(
                Part(
                    streamId: try row.value(at: 0), stream: stream, isOfApp: own == app,
                    replacesTransactions: transactions))
        }
        var known: Set<CustomerKey> = [key]
        // An id of one app can lead to another id of the other.
        while true {
            let before = known
            for index in scope.parts.indices {
                try await scope.parts[index].find(&known, on: connection, deadline: deadline)
            }
            if known == before { break }
        }
        // Also if events name it that are no purchase yet.
        if key.kind != .subscription {
            for index in scope.parts.indices { scope.parts[index].keys.insert(key) }
        }
        scope.share()
        return scope
    }

    /// Gives all parts the ids of all, without those that are another customer's in any of them.
    mutating func share() {
        let known = parts.reduce(into: Set<CustomerKey>()) { $0.formUnion($1.known) }
        let kept = parts.reduce(into: Set<CustomerKey>()) { $0.formUnion($1.kept) }
        let keys = parts.reduce(into: Set<CustomerKey>()) { $0.formUnion($1.keys) }.subtracting(kept)
        for index in parts.indices {
            parts[index].keys = keys
            parts[index].kept = kept
            parts[index].known = known
            if parts[index].replacesTransactions { parts[index].transactions = parts[index].renamed }
        }
    }
}

extension ErasureScope.Part {
    /// - Parameter known: Ids of the person; those that are found here are added.
    fileprivate mutating func find(
        _ known: inout Set<CustomerKey>, on connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) {
        (keys, kept, subscriptions) = ([], [], [:])
        let asked = parameters(known)
        for row in try await connection.query(ErasureScope.Statements.identities, asked, deadline: deadline) {
            guard let kind = CustomerKey.Kind(rawValue: try row.value(at: 0)) else { continue }
            let key = CustomerKey(kind, try row.value(at: 1))
            guard !Pseudonyms.isName(key.id.text) else { continue }
            if try row.value(Bool.self, at: 2) {
                kept.insert(key)
                continue
            }
            if kind != .subscription || replacesTransactions && !key.isGrant { keys.insert(key) }
            known.insert(key)
        }
        for row in try await connection.query(ErasureScope.Statements.subscriptions, asked, deadline: deadline) {
            let id: String = try row.value(at: 0)
            guard !Pseudonyms.isName(id) else { continue }
            let start = try row.value(Timestamptz.self, at: 1).start
            let isAlone: Bool = try row.value(at: 4)
            let key = CustomerKey(.subscription, id)
            let isToken: Bool = try row.value(at: 3)
            let owned = ErasureScope.Owned(
                isAlone: isAlone, isLine: try row.value(at: 5),
                isShared: try row.value(Bool.self, at: 6) && !key.isGrant)
            subscriptions[id, default: owned].intervals.append(start...(try row.value(Timestamptz.self, at: 2).end))
            // Of a subscription that is somebody else's now, the name stays.
            if isAlone, isToken || replacesTransactions && !key.isGrant { keys.insert(key) }
        }
        // Of long tokens, the id is a digest.
        for row in try await connection.query(
            ErasureScope.Statements.longTokens,
            [Parameter(stream.app), .array(keys.filter { $0.kind == .subscription }.map(\.id.text))],
            deadline: deadline)
        {
            keys.insert(CustomerKey(.subscription, try row.value(at: 0)))
        }
        self.known = known
        kept.formUnion(try await others(known, on: connection, deadline: deadline))
    }

    /// Those of some ids that are a customer's in this stream who is not the person.
    func others(
        _ keys: Set<CustomerKey>, on connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Set<CustomerKey> {
        var others: Set<CustomerKey> = []
        let ordered = keys.sorted()
        let checked = [
            Parameter.array(ordered.map(\.kind.rawValue)), Parameter.array(ordered.map(\.id.text)),
        ]
        for row in try await connection.query(
            ErasureScope.Statements.others, parameters(known) + checked, deadline: deadline)
        {
            guard let kind = CustomerKey.Kind(rawValue: try row.value(at: 0)) else { continue }
            others.insert(CustomerKey(kind, try row.value(at: 1)))
        }
        return others
    }

    private func parameters(_ keys: Set<CustomerKey>) -> [Parameter] {
        let ordered = keys.sorted()
        return [
            Parameter(streamId), .array(ordered.map(\.kind.rawValue)), .array(ordered.map(\.id.text)),
            Parameter(isOfApp),
        ]
    }

    /// Whether an event is the person's because it is about a subscription that was theirs when it was received.
    func isOwned(_ subscriptionIds: some Sequence<String>, at receivedAt: Instant) -> Bool {
        subscriptionIds.contains { id in
            subscriptions[id]?.intervals.contains { $0.contains(receivedAt) } ?? false
        }
    }
}

extension ErasureScope {
    fileprivate enum Statements {
        static let streams = Statement(
            "erasure_streams",
            """
            select stream.stream_id, stream.app, stream.environment
            from subledger.stream
            where stream.environment in ($2, 'unknown')
              and (
                stream.app = $1
                or stream.app in (select joined_app from subledger.app_join where app_join.app = $1)
              )
            order by stream.stream_id
            """)

        /// The customers that the ids lead to; or the ids themselves, if no purchase has them yet. In the stream of another
        /// app, a token that a link gives to somebody leads nowhere, as in `joined_customer`.
        private static let customers: SQL = """
            asked as (
              select kind, id
              from unnest($2::text[], $3::text[]) as asked (kind, id)
            ),
            customer as (
              select distinct customer_kind, customer_id
              from subledger.customer_identity
              join asked using (kind, id)
              where stream_id = $1
                and ends_at = 'infinity'
                and ($4::boolean or kind = 'link' or kind = 'account' and customer_kind = 'account')
              union
              select kind, id
              from asked
              where kind = 'link'
                or kind = 'account'
                  and not exists (
                    select
                    from subledger.customer_identity as given
                    where given.stream_id = $1
                      and given.kind = 'account'
                      and given.id = asked.id
                      and given.ends_at = 'infinity'
                  )
            ),
            -- Ids that are nobody's alone.
            shared as (
              select account_token
              from subledger.shared_account_token
              where stream_id = $1
            )
            """

        /// All ids of these customers, and whether each is another customer's now.
        static let identities = Statement(
            "erasure_identities",
            """
            with \(customers)
            select kind, id,
              bool_or(
                exists (
                  select
                  from subledger.customer_identity as now
                  where now.stream_id = $1
                    and now.kind = found.kind
                    and now.id = found.id
                    and now.ends_at = 'infinity'
                    and (now.customer_kind, now.customer_id) not in (select customer_kind, customer_id from customer)
                )
                or found.kind = 'account' and found.id in (select account_token from shared)
              )
            from (
              select identity.kind, identity.id
              from subledger.customer_identity as identity
              join customer using (customer_kind, customer_id)
              where identity.stream_id = $1
              union
              select link.kind, link.id
              from subledger.customer_link as link
              join customer on customer.customer_kind = 'link' and customer.customer_id = link.backend_customer_id
              where link.stream_id = $1
              union
              select 'link', link.backend_customer_id
              from subledger.customer_link as link
              join customer on customer.customer_kind = 'link' and customer.customer_id = link.backend_customer_id
              where link.stream_id = $1
            ) as found
            group by kind, id
            """)

        /// Those of the ids `$5` and `$6` that lead to other customers, or to nobody alone.
        static let others = Statement(
            "erasure_others",
            """
            with \(customers)
            select checked.kind, checked.id
            from unnest($5::text[], $6::text[]) as checked (kind, id)
            where exists (
                select
                from subledger.customer_identity as identity
                where identity.stream_id = $1
                  and identity.kind = checked.kind
                  and identity.id = checked.id
                  and identity.ends_at = 'infinity'
                  and (identity.customer_kind, identity.customer_id)
                    not in (select customer_kind, customer_id from customer)
              )
              or checked.kind = 'account' and checked.id in (select account_token from shared)
            """)

        static let longTokens = Statement(
            "erasure_long_tokens",
            """
            select purchase_token
            from subledger.google_purchase
            where app = $1
              and 'sha256:' || encode(token_sha256, 'hex') = any ($2::text[])
            """)

        /// The subscriptions that were ever one of these customers', not those of which they had a seat, the purchases on
        /// Google Play of which they consist included; whether the id is a purchase token; whether it is theirs alone now;
        /// whether it is a subscription of its own; and whether another customer ever had it, or has a seat of it.
        static let subscriptions = Statement(
            "erasure_subscriptions",
            """
            with \(customers),
            owned as (
              select original_transaction_id, starts_at, ends_at
              from subledger.ownership
              join customer using (customer_kind, customer_id)
              where stream_id = $1
                and reason <> 'seat'
            ),
            named as (
              select original_transaction_id, original_transaction_id as line, starts_at, ends_at
              from owned
              union all
              select part.original_transaction_id, owned.original_transaction_id, starts_at, ends_at
              from owned
              join subledger.subscription as part on part.stream_id = $1 and part.part_of = owned.original_transaction_id
            )
            select named.original_transaction_id, named.starts_at, named.ends_at,
              exists (
                select
                from subledger.subscription
                where subscription.stream_id = $1
                  and subscription.original_transaction_id = named.original_transaction_id
                  and (subscription.part_of is not null or subscription.facts::jsonb ? 'purchases')
              ),
              not exists (
                select
                from subledger.ownership as now
                where now.stream_id = $1
                  and now.original_transaction_id = named.line
                  and now.ends_at = 'infinity'
                  and now.reason <> 'seat'
                  and (now.customer_kind, now.customer_id) not in (select customer_kind, customer_id from customer)
              ),
              named.original_transaction_id = named.line,
              exists (
                select
                from subledger.ownership as other
                where other.stream_id = $1
                  and other.original_transaction_id = named.line
                  -- An erased person has no other ids.
                  and other.customer_id not like 'erased-%'
                  and (other.customer_kind, other.customer_id) not in (
                    select customer_kind, customer_id from customer
                    union all
                    select kind, id from asked
                  )
              )
            from named
            order by 1, 2
            """)
    }
}
