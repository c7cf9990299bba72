import Encoding
import Postgres
import Subscriptions

/// Tells changes of a stream, in a transaction that leads it.
///
/// Each stream has a clock of its own, which stands where all beginnings and ends of periods have been told. A batch
/// first moves it to now by the rows as they are, and then says how the lines that it folds differ at that instant: so
/// nothing is told twice or never, whatever stops in between.
struct ChangeTelling {
    let streamId: Int32
    let connection: PostgresConnection
    /// What the clock of the stream is set to: now, or less when there is much to tell.
    let instant: Instant
    private let now: Instant
    private var changes: [Change]
    /// There are changes for readers once the transaction is committed.
    private(set) var hasWritten = false

    /// There is more to tell until now. What is folded must wait: it would be seen at an instant that is over.
    var isBehind: Bool { instant < now }

    /// Moves the stream's clock.
    ///
    /// - Parameter now: By our clock, held by the database's.
    static func start(
        _ streamId: Int32, _ connection: PostgresConnection, now: Instant
    ) async throws(PostgresError) -> ChangeTelling {
        let head = try await connection.query(
            Step(
                ChangeStatements.head,
                [Parameter(streamId), Parameter(now), Parameter(Limits.boundariesAtOnceMax)]))
        guard head.count == 1 else {
            return ChangeTelling(streamId: streamId, connection: connection, instant: now, now: now, changes: [])
        }
        let toldUntil: Instant = try head[0].value(at: 0)
        // The clock of another projector may be ahead of this one's.
        let instant = max(toldUntil, try head[0].value(at: 1))
        var telling = ChangeTelling(
            streamId: streamId, connection: connection, instant: instant, now: now, changes: [])
        if try head[0].value(Bool.self, at: 2) { try await telling.addClock(after: toldUntil) }
        return telling
    }

    private mutating func addClock(after toldUntil: Instant) async throws(PostgresError) {
        let rows = try await connection.query(
            Step(ChangeStatements.duePeriods, [Parameter(streamId), Parameter(toldUntil), Parameter(instant)]))
        var lines: [String: [AccessPeriod]] = [:]
        for row in rows {
            let line: String = try row.value(at: 0)
            if let period = try AccessPeriod.read(row, at: 1) { lines[line, default: []].append(period) }
        }
        for (line, access) in lines {
            changes += SubscriptionSnapshot.clockChanges(of: line, access.inOrder, after: toldUntil, through: instant)
        }
        changes.sort {
            ($0.at, ExactText($0.originalTransactionId)) < ($1.at, ExactText($1.originalTransactionId))
        }
    }

    /// How lines differ by what was folded.
    mutating func add(_ differences: [LineDifference], because cause: (LineDifference) -> Change.Cause) {
        for difference in differences {
            changes += difference.new.changes(
                from: difference.old, at: instant, because: cause(difference), evidenceAfter: difference.start)
        }
    }

    mutating func add(_ moved: CustomerFold.Moved) {
        for (line, position) in moved.sorted(by: { ($0.value, ExactText($0.key)) < ($1.value, ExactText($1.key)) }) {
            addCustomer(of: line, because: .event(position: position))
        }
    }

    mutating func addCustomer(of line: String, because cause: Change.Cause) {
        changes.append(Change(.customerChanged, of: line, at: instant, because: cause))
    }

    /// Writes what was added since the last time, and where the stream's clock stands.
    mutating func write() async throws(PostgresError) {
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
                ]))
        hasWritten = hasWritten || !changes.isEmpty
        changes = []
    }
}

/// What a batch makes of a line.
struct LineDifference: Sendable {
    let old: SubscriptionSnapshot
    let new: SubscriptionSnapshot
    /// The position behind which the batch begins.
    let start: Int64
    /// The last event about the line.
    let position: Int64

    /// Nil if readers have nothing to be told of.
    init?(from old: Subscription?, to new: Subscription, after start: Int64, position: Int64) {
        guard let old else { return nil }
        self.old = SubscriptionSnapshot(old)
        self.new = SubscriptionSnapshot(new)
        self.start = start
        self.position = position
        if self.old == self.new { return nil }
    }

    /// - Parameter old: As the rows had it.
    init(from old: SubscriptionSnapshot, to new: SubscriptionSnapshot, after start: Int64) {
        self.old = old
        self.new = new
        self.start = start
        position = .max
    }
}

extension AccessPeriod {
    /// Reads the columns from `starts_at` to `position`; nil for a cause that a newer version knows.
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
    /// As ``Subscription/access`` has them.
    var inOrder: Self {
        sorted { ($0.start, $0.end, $0.transactionId) < ($1.start, $1.end, $1.transactionId) }
    }
}
