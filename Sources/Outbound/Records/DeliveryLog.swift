import Encoding
import EventLog
import Postgres
import Subscriptions

/// What the process that delivers reads and records.
package struct DeliveryLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// An endpoint that is to be served.
    struct Task: Sendable, Hashable {
        let endpoint: Endpoint
        let streamId: Int32
        /// See the column.
        let generation: Int64
    }

    /// The active endpoints of apps that have events.
    func tasks() async throws(ReadError) -> [Task] {
        try await pool.read(DeliveryStatements.tasks, within: Limits.databaseWaitMax) { rows throws(PostgresError) in
            try rows.map { (row) throws(PostgresError) -> Task in
                Task(endpoint: try Endpoint(row), streamId: try row.value(at: 10), generation: try row.value(at: 11))
            }
        }
    }

    /// Where an endpoint was left.
    struct Place: Sendable {
        /// The task, in its own generation.
        let task: Task
        let number: Int64
        let failingSince: Instant?
        let waiting: [DeliveryLines.Message]
    }

    /// Takes over an endpoint.
    ///
    /// - Returns: Nil if another process has changed the endpoint meanwhile.
    func takeOver(_ task: Task) async throws(ReadError) -> Place? {
        do throws(PostgresError) {
            let cursor = try await pool.query(
                DeliveryStatements.take, [Parameter(task.endpoint.id), Parameter(task.generation)],
                deadline: .now + Limits.databaseWaitMax)
            guard cursor.count == 1 else { return nil }
            var waiting: [DeliveryLines.Message] = []
            for row in try await pool.query(
                DeliveryStatements.waiting,
                [Parameter(task.endpoint.id), Parameter(Int64(2 * Limits.waitingMax))],
                deadline: .now + Limits.databaseWaitMax)
            {
                waiting.append(
                    DeliveryLines.Message(
                        number: try row.value(at: 0), line: try row.value(at: 1),
                        attempts: Int(try row.value(Int32.self, at: 2)), dueAt: try row.optional(at: 3),
                        isRecorded: true))
            }
            return Place(
                task: Task(
                    endpoint: task.endpoint, streamId: task.streamId, generation: try cursor[0].value(at: 2)),
                number: try cursor[0].value(at: 0), failingSince: try cursor[0].optional(at: 1), waiting: waiting)
        } catch {
            throw ReadError(error)
        }
    }

    /// What happened since the last record.
    struct Progress: Sendable {
        var cursor: Int64
        var failingSince: Instant?
        var succeededAt: Instant?
        var records = DeliveryLines.Records()
        var attempts: [Attempt] = []
        /// Whether and why the endpoint is disabled with it.
        var disabled: Endpoint.Reason?
    }

    /// Records all of it, or nothing.
    ///
    /// - Returns: False if an operator has changed the endpoint meanwhile, or another process has taken it over.
    func record(_ progress: Progress, of task: Task, at now: Instant) async throws(ReadError) -> Bool {
        let rows =
            progress.records.waiting.values.map { ($0, "waiting") }
            + progress.records.exhausted.values.map { ($0, $0.isLost ? "lost" : "exhausted") }
        let attempts = progress.attempts
        return try await pool.read(
            DeliveryStatements.record,
            [
                Parameter(task.endpoint.id), Parameter(task.generation), Parameter(progress.cursor),
                Parameter(progress.failingSince), Parameter(progress.succeededAt),
                .array(progress.records.removed.sorted()),
                .array(rows.map(\.0.number)), .array(rows.map(\.0.line)), .array(rows.map(\.1)),
                .array(rows.map { Int32($0.0.attempts) }), .array(rows.map(\.0.dueAt)), Parameter(now),
                .array(attempts.map(\.at)), .array(attempts.map(\.number)), .array(attempts.map(\.result)),
                .array(attempts.map { $0.status.map(Int32.init) }),
                .array(attempts.map { Int32(clamping: $0.milliseconds) }),
                Parameter(progress.disabled?.rawValue),
            ], within: Limits.databaseWaitMax
        ) { result throws(PostgresError) in
            return try result[0].value(Int64.self, at: 0) == 1
        }
    }

    /// Removes attempts before an instant.
    ///
    /// - Returns: Whether there may be more.
    func prune(before instant: Instant) async throws(ReadError) -> Bool {
        try await pool.run(
            DeliveryStatements.prune, [Parameter(instant), Parameter(Limits.prunedMax)], within: Limits.databaseWaitMax
        ).affectedRows == Int(Limits.prunedMax)
    }

    /// The state of all endpoints.
    package struct Figures: Sendable, Hashable {
        /// When the oldest change or event was published or received that an active endpoint has not got; nil if there is
        /// none.
        package var oldest: Instant?
        /// Endpoints that were disabled without an operator.
        package var disabled: Int64 = 0
        /// Active endpoints whose last attempt failed.
        package var failing: Int64 = 0
        /// One of the failing or disabled ones.
        package var example: String?
        /// Notifications that were not passed on because their bodies are lost.
        package var lost: Int64 = 0
        /// The endpoint and the position of one of them.
        package var lostExample: String?
    }

    func figures() async throws(ReadError) -> Figures {
        try await pool.read(DeliveryStatements.figures, within: Limits.databaseWaitMax) { rows throws(PostgresError) in
            let row = rows[0]
            return Figures(
                oldest: try row.optional(at: 0), disabled: try row.value(at: 1), failing: try row.value(at: 2),
                example: try row.optional(at: 3), lost: try row.value(at: 4), lostExample: try row.optional(at: 5))
        }
    }
}
