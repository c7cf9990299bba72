import EventLog
import Subscriptions

/// Links as a backend stated them to the private listener, which is their proof. Only the route makes one.
struct StatedLinks: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let body: [UInt8]
    let bodyDigest: [UInt8]
    /// Nobody signs them: whoever reaches the private listener may state them.
    var chain: SigningChain? { nil }

    fileprivate init(_ statement: LinkStatement, stream: StreamKey, receivedAt: Instant) {
        self.stream = stream
        event = statement.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt)
        body = statement.canonicalText
        bodyDigest = statement.digest
    }
}

/// Appends what a backend states, unless it holds already.
package struct CustomerLinkRoute: Sendable {
    private let log: LogReader
    private let appender: Appender
    /// Bundle ids of the apps that links may be stated for.
    let apps: Set<String>

    package init(log: LogReader, appender: Appender, apps: Set<String>) {
        self.log = log
        self.appender = appender
        self.apps = apps
    }

    /// - Returns: The position of the statement in force, and whether it is new.
    /// - Throws: ``ReadError``, ``AppendError``.
    func state(
        _ statement: LinkStatement, in stream: StreamKey, receivedAt: Instant
    ) async throws -> (position: Int64, isNew: Bool) {
        let customer = statement.customerId.text
        if let last = try await log.linkStatement(ofCustomer: customer, in: stream), last.statement == statement {
            return (last.position, false)
        }
        let appended = try await appender.append(
            StatedLinks(statement, stream: stream, receivedAt: receivedAt), receivedAt: receivedAt)
        return (appended.position, appended.isNew)
    }
}
