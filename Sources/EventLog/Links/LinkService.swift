import Encoding
import Subscriptions

/// Customer links that an authenticated backend sent to the private listener. Only ``LinkService`` creates them.
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
    package let apps: Set<String>

    package init(log: LogReader, appender: Appender, apps: Set<String>) {
        self.log = log
        self.appender = appender
        self.apps = apps
    }

    package enum Outcome: Sendable {
        /// The position of the current links, and whether they are new.
        case stated(position: Int64, isNew: Bool)
        /// Another customer owns what this link names, and the app's policy lets it keep it. Nothing was appended.
        case contested(CustomerKey)
    }

    /// - Parameter transfer: Whether links may take what another customer owns, if the app's policy asks for it.
    /// - Throws: ``ReadError``, ``AppendError``.
    package func state(
        _ statement: LinkStatement, in stream: StreamKey, transfer: Bool, receivedAt: Instant
    ) async throws -> Outcome {
        let customer = statement.backendCustomerId.text
        let policy = try await log.ownershipPolicy(of: stream.app)
        if let last = try await log.linkStatement(ofCustomer: customer, in: stream), last.statement == statement,
            try await log.linkClaims(of: statement, in: stream, policy).areHeld(by: statement)
        {
            return .stated(position: last.position, isNew: false)
        }
        guard policy == .firstBuyer, !transfer else {
            return try await append(statement, in: stream, receivedAt: receivedAt).get()
        }
        return try await log.withLinkClaims(of: statement, in: stream, policy) {
            (claims, _) async -> Result<Outcome, AppendError> in
            if let key = statement.contested(owners: { claims.owners[$0] ?? [] }) {
                return .success(.contested(key))
            }
            return await append(statement, in: stream, receivedAt: receivedAt)
        }.get()
    }

    /// Links purchases to a customer in addition to what is linked to it.
    ///
    /// Safe to repeat. Concurrent calls for one customer do not lose each other's links. Links that another customer has
    /// taken over are not repeated, which would take them back. If the customer has no room for all purchases, the first
    /// ones are linked.
    ///
    /// - Parameters:
    ///   - subscriptions: `originalTransactionId`s, the most important ones first.
    ///   - taking: Whether the app's policy decides about what another backend customer owns or owned. Otherwise it stays
    ///     with that customer: what proves nothing takes nothing.
    /// - Throws: ``ReadError``, ``AppendError``.
    package func add(
        _ subscriptions: [String], to backendCustomerId: String, in stream: StreamKey, taking: Bool, receivedAt: Instant
    ) async throws -> Outcome {
        let keys = subscriptions.prefix(LinkStatement.linksMax).map { CustomerKey(.subscription, $0) }
        let policy = try await log.ownershipPolicy(of: stream.app)
        let named = LinkStatement(backendCustomerId: backendCustomerId, links: keys)
        if let last = try await log.linkStatement(ofCustomer: backendCustomerId, in: stream),
            Set(last.statement.links).isSuperset(of: keys),
            try await log.linkClaims(of: named, in: stream, policy).areHeld(by: named)
        {
            return .stated(position: last.position, isNew: false)
        }
        return try await log.withLinkClaims(of: named, in: stream, policy) {
            (claims, last) async -> Result<Outcome, AppendError> in
            let customer = CustomerKey(.link, backendCustomerId)
            let isOthers = { (key: CustomerKey) in
                claims.owners[key]?.contains { $0.kind == .link && $0 != customer } ?? false
            }
            if !taking, let key = keys.first(where: isOthers) { return .success(.contested(key)) }
            let linked = last?.statement.links ?? []
            let others = linked.filter { !keys.contains($0) && claims.isHeld($0, by: backendCustomerId) }
            let added = LinkStatement(
                backendCustomerId: backendCustomerId, links: keys.prefix(LinkStatement.linksMax - others.count))
            if let last, Set(linked).isSuperset(of: added.links), claims.areHeld(by: added) {
                return .success(.stated(position: last.position, isNew: false))
            }
            let statement = LinkStatement(backendCustomerId: backendCustomerId, links: others + added.links)
            if policy == .firstBuyer, let key = statement.contested(owners: { claims.owners[$0] ?? [] }) {
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
