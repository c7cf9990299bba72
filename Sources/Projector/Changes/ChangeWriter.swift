import Encoding
import Postgres
import Subscriptions

/// Publishes changes of a stream, in a transaction that leads it.
///
/// Each stream has its own clock: all boundaries of periods and of ownership up to it have been published. A batch first
/// advances the clock to now by the rows as they are, then adds how its subscriptions differ at that instant. So no
/// change is published twice or lost, wherever a process stops.
struct ChangeWriter {
    let streamId: Int32
    let connection: PostgresConnection
    /// The new value of the stream's clock: now, or earlier if many boundaries are due.
    let instant: Instant
    private let now: Instant
    private var changes: [Change]
    /// The products by which the rows are computed.
    var products: ProductCatalog
    /// Of subscriptions that changes are about, where they are known.
    private var facts: [String: SubscriptionFacts] = [:]
    /// True if readers will see new changes once the transaction is committed.
    private(set) var hasWritten = false

    /// True if more boundaries are due by now. A batch must wait, since its changes would be published as of an earlier
    /// instant.
    var hasMoreDue: Bool { instant < now }

    /// Starts at the stream's clock, and adds the boundaries that are due.
    ///
    /// - Parameters:
    ///   - now: By this process's clock, held by the database's.
    ///   - products: Those by which the rows are computed.
    static func start(
        _ streamId: Int32, _ connection: PostgresConnection, now: Instant, products: ProductCatalog
    ) async throws(PostgresError) -> ChangeWriter {
        let head = try await connection.query(
            Step(
                ChangeStatements.head,
                [Parameter(streamId), Parameter(now), Parameter(Limits.boundariesAtOnceMax)]))
        guard head.count == 1 else {
            return ChangeWriter(
                streamId: streamId, connection: connection, instant: now, now: now, changes: [], products: products)
        }
        let publishedUntil: Instant = try head[0].value(at: 0)
        // The clock of another projector may be ahead of this one's.
        let instant = max(publishedUntil, try head[0].value(at: 1))
        var changeWriter = ChangeWriter(
            streamId: streamId, connection: connection, instant: instant, now: now, changes: [], products: products)
        if try head[0].value(Bool.self, at: 2) { try await changeWriter.addDueBoundaries(after: publishedUntil) }
        return changeWriter
    }

    private mutating func addDueBoundaries(after publishedUntil: Instant) async throws(PostgresError) {
        let span = [Parameter(streamId), Parameter(publishedUntil), Parameter(instant)]
        var access: [String: [AccessPeriod]] = [:]
        for row in try await connection.query(Step(ChangeStatements.duePeriods, span)) {
            let subscription: String = try row.value(at: 0)
            if let period = try AccessPeriod.read(row, at: 1) { access[subscription, default: []].append(period) }
        }
        var owners: [String: [Ownership]] = [:]
        for row in try await connection.query(Step(ChangeStatements.dueOwners, span)) {
            guard let owned = try Ownership.read(row) else { continue }
            owners[owned.originalTransactionId.text, default: []].append(owned)
        }
        var due: [Change] = []
        for subscription in Set(access.keys).union(owners.keys) {
            let owners = owners[subscription] ?? []
            due += SubscriptionSnapshot.clockChanges(
                of: subscription, (access[subscription] ?? []).inOrder, owners: owners,
                after: publishedUntil, through: instant
            ).map { $0.explained(by: owners) }
        }
        // Several changes of one subscription at one instant stay in their order.
        changes = due.enumerated().sorted { left, right in
            (left.element.at, ByteString(left.element.originalTransactionId), left.offset)
                < (right.element.at, ByteString(right.element.originalTransactionId), right.offset)
        }.map(\.element)
    }

    /// Adds the changes that a batch makes to subscriptions.
    mutating func add(_ differences: [SubscriptionDifference], cause: (SubscriptionDifference) -> Change.Cause) {
        for difference in differences {
            facts[difference.new.originalTransactionId] = difference.facts
            changes += difference.new.changes(
                from: difference.old, at: instant, cause: cause(difference), evidenceAfter: difference.start)
        }
    }

    /// Adds the subscriptions that have other owners, now or in the past.
    mutating func add(_ moved: [CustomerFold.Moved], _ products: ProductCatalog) {
        for one in moved {
            add(
                owners: one.new, after: one.old, of: SubscriptionSnapshot(Subscription(one.facts, products: products)),
                cause: one.cause)
        }
    }

    /// Adds a change of owners for each customer that it concerns.
    mutating func add(
        owners new: [Ownership], after old: [Ownership], of subscription: SubscriptionSnapshot, cause: Change.Cause
    ) {
        changes += subscription.ownerChanges(from: old, to: new, at: instant, cause: cause).map {
            $0.explained(by: new)
        }
    }

    /// Adds what events say about customers that are known: a change for each customer that the named id leads to.
    mutating func add(_ notices: [CustomerNotice]) async throws(PostgresError) {
        let named = notices.compactMap { notice in notice.key.map { (notice: notice, key: $0) } }
        guard !named.isEmpty else { return }
        let rows = try await connection.query(
            Step(
                ChangeStatements.noticedCustomers,
                [
                    Parameter(streamId), .array(named.map(\.key.kind.rawValue)), .array(named.map(\.key.id.text)),
                    .array(named.map(\.notice.at)),
                ]))
        for row in rows {
            let place: Int64 = try row.value(at: 0)
            guard let customer = try row.customerKey(at: 2), named.indices.contains(Int(place - 1)) else { continue }
            let notice = named[Int(place - 1)].notice
            changes.append(
                Change(
                    notice.kind.change, of: try row.value(at: 1), at: instant,
                    cause: .event(position: notice.position), customer: customer))
        }
    }

    /// Writes the changes that were added since the last call, and the stream's clock.
    mutating func write() async throws(PostgresError) {
        try await explain()
        _ = try await connection.query(
            Step(
                ChangeStatements.write,
                [
                    Parameter(streamId), Parameter(instant), Parameter(Int64(changes.count)), Parameter(now),
                    .array(changes.map(\.kind.rawValue)), .array(changes.map(\.originalTransactionId)),
                    .array(changes.map(\.at)), .array(changes.map(\.cause.name)),
                    .array(changes.map(\.cause.position)), .array(changes.map(\.productId)),
                    .array(changes.map { $0.until.map { Timestamptz(end: $0) } }),
                    .array(changes.map(\.autoRenewStatus)), .array(changes.map(\.nextProductId)),
                    .array(changes.map { $0.customer?.kind.rawValue }), .array(changes.map { $0.customer?.id.text }),
                    .array(changes.map { $0.seats.map { Int32(clamping: $0.before) } }),
                    .array(changes.map { $0.seats.map { Int32(clamping: $0.now) } }), .array(changes.map(\.reason)),
                ]))
        hasWritten = hasWritten || !changes.isEmpty
        changes = []
        facts = [:]
    }

    /// Adds why the changes happened, by the facts of their subscriptions: those of the batch, or those of the rows. The
    /// reason stays what it was at the time of the change, whatever is learned later.
    private mutating func explain() async throws(PostgresError) {
        let explained = changes.filter { $0.kind.isExplained && $0.reason == nil }.map(\.originalTransactionId)
        let unknown = Set(explained).filter { facts[$0] == nil }.sorted()
        if !unknown.isEmpty {
            let rows = try await connection.query(
                Step(ProjectionStatements.loadLiveSubscriptions, [Parameter(streamId), .array(unknown)]))
            // Rows that only another release understands explain nothing, and hold up no change.
            if case .success(let states) = try ProjectedSubscription.read(rows) {
                for state in states { facts[state.facts.originalTransactionId] = state.facts }
            }
        }
        var subscriptions: [String: ExplainedChanges] = [:]
        for index in changes.indices where changes[index].kind.isExplained && changes[index].reason == nil {
            let id = changes[index].originalTransactionId
            guard let own = facts[id] else { continue }
            let subscription = subscriptions[id] ?? ExplainedChanges(own, products: products)
            subscriptions[id] = subscription
            changes[index].reason = subscription.reason(of: changes[index])
        }
    }
}

/// A subscription before and after a batch.
struct SubscriptionDifference: Sendable {
    let old: SubscriptionSnapshot
    let new: SubscriptionSnapshot
    /// The position after which the batch begins.
    let start: Int64
    /// The position of the last event about the subscription.
    let position: Int64
    /// From which the new state was computed; nil if they are not at hand.
    let facts: SubscriptionFacts?

    /// Nil if there is nothing to publish.
    init?(from old: Subscription?, to new: Subscription, of state: ProjectedSubscription, after start: Int64) {
        guard let old else { return nil }
        position = state.position
        facts = state.facts
        self.old = SubscriptionSnapshot(old)
        self.new = SubscriptionSnapshot(new)
        self.start = start
        if self.old == self.new { return nil }
    }

    /// - Parameter old: The state in the old rows.
    init(from old: SubscriptionSnapshot, to new: SubscriptionSnapshot, after start: Int64) {
        self.old = old
        self.new = new
        self.start = start
        position = .max
        facts = nil
    }
}

extension Change {
    /// The change with the reason why its customer owns the subscription.
    fileprivate func explained(by owners: [Ownership]) -> Change {
        var explained = self
        explained.reason = owners.reason(of: self)
        return explained
    }
}

extension AccessPeriod {
    /// Reads the columns from `starts_at` to `position`; nil if only a newer version knows the cause.
    static func read(_ row: Row, at column: Int) throws(PostgresError) -> AccessPeriod? {
        guard let cause = Cause(rawValue: try row.value(at: column + 2)) else { return nil }
        return AccessPeriod(
            start: try row.value(at: column), end: try row.value(Timestamptz.self, at: column + 1).end, cause: cause,
            cut: try row.optional(String.self, at: column + 3).flatMap(Cut.init),
            transactionId: try row.value(at: column + 4), productId: try row.optional(at: column + 5),
            position: try row.value(at: column + 6))
    }
}

extension [AccessPeriod] {
    /// In the order of ``Subscription/access``.
    var inOrder: Self {
        sorted { ($0.start, $0.end, $0.transactionId) < ($1.start, $1.end, $1.transactionId) }
    }
}
