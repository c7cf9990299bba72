import Logging
import Postgres
import Subscriptions

/// Keeps the projections of all streams up with the log.
///
/// Any number of projectors may run: each stream is led by whoever takes its lock first, batch by batch.
package struct Projector: Sendable {
    /// What a pool must lend for batches to be written, folded and read at the same time.
    package static let connectionsMax = StreamProjector.connectionsMax

    private let pool: PostgresPool
    /// A connection of its own, since listening ties it up.
    private let listener: ConnectionConfiguration
    private let logger: Logger
    private let metrics = ProjectorMetrics()

    package init(pool: PostgresPool, listener: ConnectionConfiguration, logger: Logger) {
        self.pool = pool
        self.listener = listener
        self.logger = logger
    }

    /// Runs until its task is cancelled. Failures are logged and tried again; none ends it.
    package func run() async {
        var connection: PostgresConnection?
        while !Task.isCancelled {
            if connection == nil { connection = await listen() }
            let isHealthy = await foldAllStreams()
            guard isHealthy, let listening = connection else {
                try? await Task.sleep(for: Limits.failurePause)
                continue
            }
            if await waitForEvents(on: listening) == false {
                await listening.close()
                connection = nil
            }
        }
        await connection?.close()
    }

    /// Folds whatever is behind, stream by stream. A stream that cannot go on does not hold up the others.
    ///
    /// - Returns: False if something failed.
    @discardableResult
    package func foldAllStreams() async -> Bool {
        do throws(PostgresError) {
            let rows = try await pool.query(
                ProjectionStatements.streamsBehind, [], deadline: .now + Limits.readWaitMax)
            var isHealthy = true
            var lag: Int64 = 0
            for row in rows { lag += try row.value(Int64.self, at: 3) }
            metrics.lag.record(lag)
            for row in rows {
                let id: Int32 = try row.value(at: 0)
                let app: String = try row.value(at: 1)
                let environment: String = try row.value(at: 2)
                if await fold(streamId: id, app: app, environment: environment) {
                    lag -= try row.value(Int64.self, at: 3)
                    metrics.lag.record(lag)
                } else {
                    metrics.failures.increment()
                    isHealthy = false
                }
            }
            return isHealthy
        } catch {
            metrics.failures.increment()
            logger.warning(
                "projector cannot read the log",
                metadata: ["db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "")"])
            return false
        }
    }

    private func fold(streamId: Int32, app: String, environment: String) async -> Bool {
        let projector = StreamProjector(pool: pool, streamId: streamId)
        do throws(ProjectionError) {
            while case .folded = try await projector.fold(batchesMax: Limits.batchesAtOnceMax) {
                if Task.isCancelled { return true }
            }
            return true
        } catch {
            if Task.isCancelled { return true }
            var metadata: Logger.Metadata = [
                "stream.app": "\(app)", "stream.environment": "\(environment)", "error": "\(error)",
            ]
            if case .database(let cause) = error {
                metadata["db.error"] = "\(cause.label)"
                metadata["db.sqlstate"] = "\(cause.sqlstate ?? "none")"
                metadata["db.statement"] = "\(cause.statement ?? "none")"
            }
            logger.error("projector stopped", metadata: metadata)
            return false
        }
    }

    private func listen() async -> PostgresConnection? {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.connect(listener, deadline: .now + Limits.readWaitMax)
            try await connection.listen(to: "subledger_event", deadline: .now + Limits.readWaitMax)
            return connection
        } catch {
            logger.warning("projector cannot listen for events", metadata: ["db.error": "\(error.label)"])
            return nil
        }
    }

    /// Returns when there may be something to fold; false if the connection is lost.
    private func waitForEvents(on connection: PostgresConnection) async -> Bool {
        await withTaskCancellationHandler {
            do throws(PostgresError) {
                _ = try await connection.notifications(until: .now + Limits.pollInterval)
                return true
            } catch {
                return false
            }
        } onCancel: {
            connection.interrupt()
        }
    }
}
