import EventLog
import Logging
import Subscriptions
import Synchronization

/// The parts of a round, one for each app or stream. What fails for one of them holds up no other, and is logged once until it
/// works again.
final class RoundParts: Sendable {
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

    private let problem: Logger.Message
    private let logger: Logger
    private let failing = Mutex<Set<Part>>([])

    /// - Parameter problem: The log line about a part that fails.
    init(_ problem: Logger.Message, logger: Logger) {
        self.problem = problem
        self.logger = logger
    }

    /// Makes a part. Errors contain nothing of what is asked about.
    ///
    /// - Returns: Nil if it failed.
    /// - Throws: The error, if it concerns all parts: the database is unavailable.
    @discardableResult
    func make<Value: Sendable>(_ part: Part, _ work: () async throws -> Value) async throws -> Value? {
        do {
            let value = try await work()
            _ = failing.withLock { $0.remove(part) }
            return value
        } catch {
            guard !error.isOfDatabase else { throw error }
            guard !Task.isCancelled, failing.withLock({ $0.insert(part).inserted }) else { return nil }
            var detail = "\(error)"
            if case .damaged(let found) = error as? ReadError { detail = found }
            logger.warning(problem, metadata: part.metadata.merging(["error": "\(detail)"]) { $1 })
            return nil
        }
    }
}
