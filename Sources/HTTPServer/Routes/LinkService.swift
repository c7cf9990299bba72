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

/// Appends customer links to the log unless they equal the current ones, or name what another customer owns and may
/// keep.
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

    enum Outcome: Sendable {
        /// The position of the current links, and whether they are new.
        case stated(position: Int64, isNew: Bool)
        /// Another customer owns what this link names, and the app's policy lets it keep it. Nothing was appended.
        case contested(CustomerKey)
    }

    /// - Parameter transfer: Whether links may take what another customer owns, if the app's policy asks for it.
    /// - Throws: ``ReadError``, ``AppendError``.
    func state(
        _ statement: LinkStatement, in stream: StreamKey, transfer: Bool, receivedAt: Instant
    ) async throws -> Outcome {
        let customer = statement.backendCustomerId.text
        let last = try await log.linkStatement(ofCustomer: customer, in: stream)
        let claims = try await log.linkClaims(of: statement, in: stream)
        if let last, last.statement == statement, claims.areHeld(by: statement) {
            return .stated(position: last.position, isNew: false)
        }
        guard claims.policy == .firstBuyer, !transfer else {
            return try await append(statement, in: stream, receivedAt: receivedAt).get()
        }
        return try await log.withLinkClaims(of: statement, in: stream) {
            (claims) async -> Result<Outcome, AppendError> in
            if let key = statement.contested(owners: { claims.owners[$0] ?? [] }) {
                return .success(.contested(key))
            }
            return await append(statement, in: stream, receivedAt: receivedAt)
        }.get()
    }

    private func append(
        _ statement: LinkStatement, in stream: StreamKey, receivedAt: Instant
    ) async -> Result<Outcome, AppendError> {
        do throws(AppendError) {
            let appended = try await appender.append(
                PreparedEvent(LinkEvent(statement, stream: stream, receivedAt: receivedAt), receivedAt: receivedAt))
            return .success(.stated(position: appended.position, isNew: appended.isNew))
        } catch {
            return .failure(error)
        }
    }
}
