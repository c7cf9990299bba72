import Encoding
import Subscriptions

/// Appends customer links to the log unless they equal the current ones, or name what another customer owns and may
/// keep.
package struct LinkService: Sendable {
    let log: LogReader
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

    /// Appends a statement of a backend.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    package func state(
        _ statement: LinkStatement, in stream: StreamKey, receivedAt: Instant
    ) async throws -> Outcome {
        try await append(statement, handingIn: [], in: stream, receivedAt: receivedAt)
    }

    /// Links purchases that were handed in to a customer, in addition to what is linked to it.
    ///
    /// Safe to repeat. Concurrent calls for one customer do not lose each other's links. Links that another customer has
    /// taken over are not repeated, which would take them back.
    ///
    /// - Parameters:
    ///   - keys: Of kind `subscription`. Any number.
    ///   - account: The account token of all of them that the backend gave the app for the customer; nil if it names none. It is
    ///     linked as well, and the fold alone decides whether the links count: it knows whose the token is.
    ///   - basis: ``LinkStatement/Basis/purchase`` if the customer has shown what only the buyer has.
    ///   - tokens: The account tokens of the purchases.
    /// - Throws: ``ReadError``, ``AppendError``. Some of the purchases may be linked.
    package func add(
        _ keys: [CustomerKey], of account: CustomerKey? = nil, to backendCustomerId: String, basis: LinkStatement.Basis,
        handingIn tokens: Set<CustomerKey>,
        in stream: StreamKey, receivedAt: Instant
    ) async throws -> Outcome {
        var last = Outcome.stated(position: 0, isNew: false)
        let size = LinkStatement.linksMax - (account == nil ? 0 : 1)
        for start in stride(from: 0, to: keys.count, by: size) {
            let statement = LinkStatement(
                backendCustomerId: backendCustomerId,
                links: [account].compactMap(\.self) + keys[start..<min(keys.count, start + size)], isComplete: false,
                basis: basis)
            let outcome = try await append(
                statement, handingIn: account == nil ? tokens : nil, in: stream, receivedAt: receivedAt)
            switch (last, outcome) {
            case (_, .contested(let key)): return .contested(key)
            case (.stated(let position, let isNew), .stated(let next, let isNextNew)):
                last = .stated(position: max(position, next), isNew: isNew || isNextNew)
            case (.contested, _): break
            }
        }
        return last
    }

    /// Links keys of many customers of which the log has nothing yet, after one look at it. Safe to repeat, like
    /// ``add(_:of:to:basis:handingIn:in:receivedAt:)``, which the others need.
    ///
    /// - Parameter links: Each with another key or customer.
    /// - Returns: For each link, whether it was stated.
    /// - Throws: ``ReadError``, ``AppendError``. Some of them may be stated.
    package func addUnseen(
        _ links: [(key: CustomerKey, backendCustomerId: String)], basis: LinkStatement.Basis, in stream: StreamKey,
        receivedAt: Instant
    ) async throws -> [Bool] {
        guard basis.takes(under: try await log.ownershipPolicy(of: stream.app)) else {
            return links.map { _ in false }
        }
        let seen = try await log.seen(links, in: stream)
        try await withThrowingTaskGroup(of: Void.self) { group in
            var running = 0
            for (place, link) in links.enumerated() where !seen.contains(place) {
                // As many as share a commit.
                if running >= Limits.batchEventsMax { _ = try await group.next() } else { running += 1 }
                let statement = LinkStatement(
                    backendCustomerId: link.backendCustomerId, links: [link.key], isComplete: false, basis: basis)
                group.addTask { _ = try await append(statement, in: stream, receivedAt: receivedAt).get() }
            }
            try await group.waitForAll()
        }
        return links.indices.map { !seen.contains($0) }
    }

    /// - Parameter tokens: The account tokens of the purchases that are handed in; nil if the fold alone decides.
    private func append(
        _ statement: LinkStatement, handingIn tokens: Set<CustomerKey>?, in stream: StreamKey, receivedAt: Instant
    ) async throws -> Outcome {
        let policy = try await log.ownershipPolicy(of: stream.app)
        let (claims, links) = try await log.linkClaims(of: statement, in: stream, policy)
        if let known = Self.known(statement, links, claims) { return known }
        guard let tokens else {
            // What does not take is refused again if it is stated again.
            if !statement.basis.takes(under: policy), links.keys.isSuperset(of: statement.links) {
                return .stated(position: links.position, isNew: false)
            }
            return try await append(statement, in: stream, receivedAt: receivedAt).get()
        }
        if statement.basis.takes(under: policy) {
            return try await append(statement, in: stream, receivedAt: receivedAt).get()
        }
        return try await log.withLinkClaims(of: statement, in: stream, policy) {
            (claims, links) async -> Result<Outcome, AppendError> in
            if let key = claims.contested(by: statement, handingIn: tokens) { return .success(.contested(key)) }
            if let known = Self.known(statement, links, claims) { return .success(known) }
            return await append(statement, in: stream, receivedAt: receivedAt)
        }.get()
    }

    /// The outcome of a statement that states nothing new; nil if it does.
    private static func known(_ statement: LinkStatement, _ links: PlacedLinks, _ claims: LinkClaims) -> Outcome? {
        let stated = Set(statement.links)
        let isKnown =
            statement.isComplete ? links.keys == stated && links.position > 0 : links.keys.isSuperset(of: stated)
        guard isKnown, claims.areHeld(by: statement) else { return nil }
        return .stated(position: links.position, isNew: false)
    }

    func append(
        _ statement: LinkStatement, in stream: StreamKey, receivedAt: Instant
    ) async -> Result<Outcome, AppendError> {
        do throws(AppendError) {
            let stated = StatedEvent(
                statement.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt),
                text: statement.canonicalText, stream: stream)
            let appended = try await appender.append(PreparedEvent(stated, receivedAt: receivedAt))
            return .success(.stated(position: appended.position, isNew: appended.isNew))
        } catch {
            return .failure(error)
        }
    }
}
