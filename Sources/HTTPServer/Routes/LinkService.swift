import Encoding
import EventLog
import Subscriptions

/// Customer links that an authenticated backend sent to the private listener. Only the link route creates them.
struct LinkEvent: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let evidence: Evidence
    let bodyDigest: [UInt8]
    /// Nil: links are authenticated by the private listener and not signed.
    var chain: SigningChain? { nil }

    fileprivate init(_ statement: LinkStatement, stream: StreamKey, receivedAt: Instant) {
        self.stream = stream
        event = statement.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt)
        evidence = Evidence(statement.canonicalText)
        bodyDigest = statement.digest
    }
}

/// Appends customer links to the log unless they equal the current ones.
package struct LinkService: Sendable {
    private let log: LogReader
    private let appender: Appender
    /// Bundle ids of the apps for which links are accepted.
    let apps: Set<String>

    package init(log: LogReader, appender: Appender, apps: Set<String>) {
        self.log = log
        self.appender = appender
        self.apps = apps
    }

    /// - Returns: The position of the current links and whether they are new.
    /// - Throws: ``ReadError``, ``AppendError``.
    func state(
        _ statement: LinkStatement, in stream: StreamKey, receivedAt: Instant
    ) async throws -> (position: Int64, isNew: Bool) {
        let customer = statement.backendCustomerId.text
        if let last = try await log.linkStatement(ofCustomer: customer, in: stream), last.statement == statement {
            return (last.position, false)
        }
        let appended = try await appender.append(
            PreparedEvent(LinkEvent(statement, stream: stream, receivedAt: receivedAt), receivedAt: receivedAt))
        return (appended.position, appended.isNew)
    }
}
