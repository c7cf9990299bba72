import EventLog
import Logging
import Metrics
import Postgres
import Subscriptions

/// Puts events into the tiles of their stream's tree, and signs a checkpoint when the log has grown.
///
/// It works beside the projector, after the append, which it never delays. Any number of processes may run one: each
/// stream's tree is locked by the one that works on it.
package actor TreeKeeper {
    private let pool: PostgresPool
    /// Nil to make tiles only.
    private let signer: CheckpointSigner?
    private let logger: Logger
    private let lag: Gauge
    private let failing: Gauge
    private var found: [StreamKey: TreeProblem] = [:]
    /// The streams whose last checkpoint this process has compared with the log.
    private var compared: Set<Int32> = []
    private var isReading = true

    /// - Parameter pool: With the rights of `subledger_projector`.
    package init(
        pool: PostgresPool, signer: CheckpointSigner?, metrics factory: any MetricsFactory = MetricsSystem.factory,
        logger: Logger
    ) {
        lag = Gauge(label: "subledger_tree_lag_events", factory: factory)
        failing = Gauge(label: "subledger_tree_problems", factory: factory)
        self.pool = pool
        self.signer = signer
        self.logger = logger
        lag.record(0)
        failing.record(0)
    }

    /// The streams of which nothing is signed, and why, as of the last round.
    package var problems: [(stream: StreamKey, problem: TreeProblem)] {
        found.map { (stream: $0.key, problem: $0.value) }
            .sorted {
                ($0.stream.app, $0.stream.environment.rawValue) < ($1.stream.app, $1.stream.environment.rawValue)
            }
    }

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run.
    package func run() async {
        while !Task.isCancelled {
            await round()
            try? await Task.sleep(for: EventLog.Limits.treePause)
        }
    }

    /// Brings the trees of all streams up to date, once.
    package func round() async {
        do throws(PostgresError) {
            let streams = try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) in
                try await TreeStore(connection: connection).streams()
            }
            lag.record(streams.reduce(0) { $0 + $1.waiting / Int64(TreeTile.width) * Int64(TreeTile.width) })
            for stream in streams where !Task.isCancelled { note(try await keep(stream), stream.key) }
            failing.record(found.count)
            isReading = true
        } catch {
            if isReading, !Task.isCancelled {
                logger.warning(
                    "trees not brought up to date",
                    metadata: ["db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "none")"])
            }
            isReading = false
        }
    }

    /// - Returns: Why nothing can be signed of the stream; nil if there is no problem.
    private func keep(_ stream: TreeStream) async throws(PostgresError) -> TreeProblem? {
        let isSigned = signer == nil || stream.signed == stream.last && compared.contains(stream.id)
        if stream.agrees, stream.waiting < TreeTile.width, isSigned { return nil }
        var progress = TreeBuilder.Progress.unfinished
        while progress == .unfinished, !Task.isCancelled {
            let made = try await work { (store) async throws(TreeError) in
                try await TreeBuilder(store).step(stream, waits: false)
            }
            switch made {
            case .success(let made): progress = made
            case .failure(let problem): return problem
            }
        }
        guard progress == .done, let signer else { return nil }
        let signed = try await work { (store) async throws(TreeError) in try await signer.sign(stream, in: store) }
        switch signed {
        case .success(let checkpoint): if checkpoint != nil { compared.insert(stream.id) }
        case .failure(let problem): return problem
        }
        return nil
    }

    /// Borrows a connection for one step only, so that batches of the projector do not wait for a long log.
    private func work<Value: Sendable>(
        _ step: @escaping @Sendable (TreeStore) async throws(TreeError) -> Value
    ) async throws(PostgresError) -> Result<Value, TreeProblem> {
        try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
            (connection) async throws(PostgresError) -> Result<Value, TreeProblem> in
            do throws(TreeError) {
                return .success(try await step(TreeStore(connection: connection)))
            } catch {
                switch error {
                case .problem(let problem): return .failure(problem)
                case .database(let error):
                    // What the database refuses for one stream does not hold up the others.
                    guard case .server(let sqlstate) = error.kind, !error.isTransient else { throw error }
                    return .failure(.refused(sqlstate: sqlstate))
                }
            }
        }
    }

    private func note(_ problem: TreeProblem?, _ stream: StreamKey) {
        guard found[stream] != problem else { return }
        found[stream] = problem
        let place: Logger.Metadata = [
            "stream.app": "\(stream.app)", "stream.environment": "\(stream.environment.rawValue)",
        ]
        if let problem {
            logger.error("no checkpoint is signed", metadata: place.merging(["error": "\(problem)"]) { $1 })
        } else {
            logger.notice("checkpoints are signed again", metadata: place)
        }
    }
}
