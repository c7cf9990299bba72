import Encoding
import Postgres
import Subscriptions

/// The checks of a stream that are due, and the records of those that were made.
///
/// The projector owns the schedule. This type stands here because the client of a store may use the log but not the
/// projector, and because the records are kept like the log. Any number of processes may use it: each claims checks that no
/// other makes, and a claim ends soon after its process dies.
package struct CheckQueue: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// A scheduled check whose time has come. A check that this process claimed is made by no other until the claim ends.
    package struct DueCheck: Sendable, Hashable {
        package let originalTransactionId: String
        /// To be passed on to the record of the check.
        package let scheduled: StoreCheck
        /// Since when it is due: later than `scheduled.dueAt` if it was made already and is to be repeated.
        package let nextAt: Instant
    }

    /// A stream that the App Store can be asked about.
    package struct PolledStream: Sendable, Hashable {
        package let id: Int32
        package let key: StreamKey
        /// Whether the store can be asked about subscriptions without a receipt: it can with a key for its API.
        package let asksWithoutReceipt: Bool

        package init(id: Int32, key: StreamKey, asksWithoutReceipt: Bool) {
            self.id = id
            self.key = key
            self.asksWithoutReceipt = asksWithoutReceipt
        }
    }

    /// How much there is to ask.
    package struct Backlog: Sendable, Hashable {
        /// The number of checks that are due, at most ``Limits/dueChecksCountedMax``.
        package let due: Int64
        /// When the earliest check is or was due; nil if none is scheduled.
        package let nextAt: Instant?
    }

    /// The streams of some apps that the App Store can be asked about, in order of their ids.
    ///
    /// - Parameter withKey: Those of the apps that are asked about without receipts.
    package func streams(
        of apps: [String], withKey: Set<String> = []
    ) async throws(ReadError) -> [PolledStream] {
        try await pool.read(Statements.streams, [.array(apps)], within: Limits.readWaitMax) {
            (rows) throws(PostgresError) -> [PolledStream] in
            var streams: [PolledStream] = []
            for row in rows {
                guard let environment = Environment(rawValue: try row.value(at: 2)) else { continue }
                let key = StreamKey(app: try row.value(at: 1), environment: environment)
                streams.append(
                    PolledStream(
                        id: try row.value(at: 0), key: key, asksWithoutReceipt: withKey.contains(key.app)))
            }
            return streams
        }
    }

    /// Claims checks that are due and can be made, longest due first.
    ///
    /// - Parameter claimEnd: When other processes may make them, unless they are recorded before.
    package func claimDue(
        in stream: PolledStream, at now: Instant, until claimEnd: Instant, limit: Int64
    ) async throws(ReadError) -> [DueCheck] {
        try await pool.read(
            Statements.claimDue,
            [
                Parameter(stream.id), Parameter(now), Parameter(limit), Parameter(stream.asksWithoutReceipt),
                Parameter(claimEnd),
            ], within: Limits.commitWaitMax, Self.checks
        ).sorted { ($0.nextAt, $0.originalTransactionId) < ($1.nextAt, $1.originalTransactionId) }
    }

    /// Moves the end of this process's claims; nil ends them, and the checks stay as due as they are.
    package func claim(
        _ ids: some Collection<String>, in streamId: Int32, until claimEnd: Instant?
    ) async throws(ReadError) {
        guard !ids.isEmpty else { return }
        try await pool.run(
            Statements.claimUntil, [Parameter(streamId), .array(Array(ids)), Parameter(claimEnd)],
            within: Limits.commitWaitMax)
    }

    /// When the first of the claims ends whose checks are due; nil if there is none.
    package func nextClaimEnd(in streams: [PolledStream], after now: Instant) async throws(ReadError) -> Instant? {
        try await pool.read(
            Statements.nextClaimEnd,
            [.array(streams.map(\.id)), Parameter(now), Parameter(Limits.claimsCountedMax)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Instant? in try rows[0].optional(at: 0) }
    }

    /// Those of the subscriptions whose checks are due, longest due first.
    package func due(
        among ids: [String], in stream: PolledStream, at now: Instant
    ) async throws(ReadError) -> [DueCheck] {
        try await pool.read(
            Statements.dueAmong,
            [Parameter(stream.id), Parameter(now), .array(ids), Parameter(stream.asksWithoutReceipt)],
            within: Limits.readWaitMax, Self.checks)
    }

    /// When the next check of a subscription is or was due; nil if none is scheduled.
    package func nextAt(
        of originalTransactionId: String, in stream: PolledStream
    ) async throws(ReadError) -> Instant? {
        try await pool.read(
            Statements.nextAt,
            [Parameter(stream.id), Parameter(originalTransactionId), Parameter(stream.asksWithoutReceipt)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Instant? in try rows.first?.optional(at: 0) }
    }

    /// The earliest time after an instant at which a check of one of the streams becomes due; nil if there is none.
    package func nextDue(in streams: [PolledStream], after now: Instant) async throws(ReadError) -> Instant? {
        try await pool.read(
            Statements.nextDue,
            [.array(streams.map(\.id)), Parameter(now), .array(streams.filter(\.asksWithoutReceipt).map(\.id))],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Instant? in try rows[0].optional(at: 0) }
    }

    package func backlog(of stream: PolledStream, at now: Instant) async throws(ReadError) -> Backlog {
        try await pool.read(
            Statements.backlog,
            [
                Parameter(stream.id), Parameter(now), Parameter(Limits.dueChecksCountedMax),
                Parameter(stream.asksWithoutReceipt),
            ], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Backlog in
            Backlog(due: try rows[0].value(at: 0), nextAt: try rows[0].optional(at: 1))
        }
    }

    /// How many checks of a subscription have failed since one was answered, at most ``Limits/failedChecksCountedMax``.
    package func failuresInRow(of originalTransactionId: String, in streamId: Int32) async throws(ReadError) -> Int {
        try await pool.read(
            Statements.failures,
            [Parameter(streamId), Parameter(originalTransactionId), Parameter(Limits.failedChecksCountedMax)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Int in Int(try rows[0].value(Int64.self, at: 0)) }
    }

    /// Records a check, ends its claim and sets the time of the next one, all or nothing. If the schedule has changed since the check
    /// was read, it stays as it is.
    ///
    /// Safe to repeat: the same check of a subscription is recorded once.
    package func record(_ check: CheckRecord, in streamId: Int32) async throws(ReadError) {
        try await pool.run(
            Statements.record,
            [
                Parameter(streamId), Parameter(check.originalTransactionId), Parameter(check.askedAt),
                Parameter(check.scheduled?.dueAt), Parameter(check.scheduled?.reason.rawValue),
                Parameter(check.result.label), Parameter(check.status), Parameter(check.result.position),
                Parameter(check.nextAt),
            ],
            within: Limits.commitWaitMax)
    }

    private static func checks(_ rows: RowSet) throws(PostgresError) -> [DueCheck] {
        var checks: [DueCheck] = []
        for row in rows {
            guard let reason = StoreCheck.Reason(rawValue: try row.value(at: 2)) else { continue }
            checks.append(
                DueCheck(
                    originalTransactionId: try row.value(at: 0),
                    scheduled: StoreCheck(dueAt: try row.value(at: 1), reason: reason), nextAt: try row.value(at: 3)))
        }
        return checks
    }
}
