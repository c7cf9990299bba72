import EventLog
import Logging
import Metrics
import Subscriptions
import Synchronization

/// A part of a led round that has failed at every attempt for a while.
package struct FailingPart: Sendable, Hashable {
    /// What is not done: `checks`, `purchases`, `notifications`, `voids`, `orders` or `histories`.
    package let work: String
    package let app: String
    package let environment: Environment?
    package let time: Duration
}

/// The parts of a round, one for each app or stream. What fails for one of them holds up no other. It is logged once until it
/// works again, counted, and known to the health check.
final class RoundParts: Sendable {
    /// What is made for each part.
    enum Work: String, CaseIterable {
        case checks, purchases, voids, orders, histories
        case intake = "notifications"

        fileprivate var problem: Logger.Message {
            switch self {
            case .checks: "checks of a stream not made"
            case .purchases: "purchases of an app not checked"
            case .intake: "notifications of an app not taken in"
            case .voids: "voided purchases of an app not compared"
            case .orders: "orders of an app not compared"
            case .histories: "histories of a stream not read"
            }
        }
    }

    /// An app, or a stream of it.
    struct Part: Sendable, Hashable {
        let app: String
        let environment: Environment?

        init(_ app: String) {
            self.app = app
            environment = nil
        }

        init(_ stream: StreamKey) {
            app = stream.app
            environment = stream.environment
        }

        fileprivate var metadata: Logger.Metadata {
            var metadata: Logger.Metadata = ["stream.app": "\(app)"]
            if let environment { metadata["stream.environment"] = "\(environment.rawValue)" }
            return metadata
        }
    }

    private let work: Work
    private let clock: @Sendable () -> ContinuousClock.Instant
    private let gauge: Gauge
    private let logger: Logger
    /// Since when each part has failed.
    private let failing = Mutex<[Part: ContinuousClock.Instant]>([:])

    init(_ work: Work, _ clock: StoreClock, factory: any MetricsFactory, logger: Logger) {
        self.work = work
        self.clock = clock.now
        self.logger = logger
        gauge = Gauge(label: "subledger_failing_parts", dimensions: [("work", work.rawValue)], factory: factory)
        gauge.record(0)
    }

    /// The parts that failed when they were last made.
    func failing(at now: ContinuousClock.Instant) -> [FailingPart] {
        failing.withLock { $0 }.map { part, since in
            FailingPart(work: work.rawValue, app: part.app, environment: part.environment, time: now - since)
        }
    }

    /// Forgets the failures of other parts: another process makes those now, and reports them.
    func keep(_ parts: [Part]) {
        change { failing in failing = failing.filter { parts.contains($0.key) } }
    }

    private func change(_ body: (inout [Part: ContinuousClock.Instant]) -> Void) {
        failing.withLock { failing in
            body(&failing)
            gauge.record(failing.count)
        }
    }

    /// Makes a part. Errors contain nothing of what is asked about.
    ///
    /// - Returns: Nil if it failed.
    /// - Throws: The error, if it concerns all parts: the database is unavailable.
    @discardableResult
    func make<Value: Sendable>(_ part: Part, _ work: () async throws -> Value) async throws -> Value? {
        do {
            let value = try await work()
            if failing.withLock({ $0[part] }) != nil { change { $0[part] = nil } }
            return value
        } catch {
            guard !error.isOfDatabase else { throw error }
            guard !Task.isCancelled, failing.withLock({ $0[part] }) == nil else { return nil }
            change { $0[part] = clock() }
            var detail = "\(error)"
            if case .damaged(let found) = error as? ReadError { detail = found }
            logger.warning(self.work.problem, metadata: part.metadata.merging(["error": "\(detail)"]) { $1 })
            return nil
        }
    }
}
