import Encoding
import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// Like ``entitlements(_:)``, but by the events received up to an instant only: their facts, and the links. The
    /// ownership policy, and which account tokens too many store accounts share, are today's.
    ///
    /// Slower, since it folds the events of all affected subscriptions again.
    package func entitlements(_ question: Question, knownAt: Instant) async throws(ReadError) -> Answer<Found> {
        try await past(question, knownAt: knownAt).map { match in
            let grants = match.parts.flatMap { part in
                Entitlement.grants(
                    of: part.subscriptions, entitlements: part.entitlements,
                    joinedApp: part.app == match.identity.app ? nil : part.app)
            }
            return Found(identity: match.identity, entitlements: Entitlement.all(of: grants, at: question.at))
        }
    }

    /// A subscription with its facts, by the events received up to an instant only; nil if none was about it.
    package func subscription(
        _ id: String, in stream: StreamKey, knownAt: Instant
    ) async throws(ReadError) -> SubscriptionReader.Known? {
        try await reading {
            let reference = Reference(app: stream.app, environment: stream.environment, id: id, kind: .subscription)
            for known in try await knowledge(around: reference, knownAt: knownAt).joined() {
                guard known.app == stream.app,
                    let facts = known.facts.first(where: { ByteString($0.originalTransactionId) == ByteString(id) })
                else { continue }
                return SubscriptionReader.Known(
                    facts: facts, subscription: Subscription(facts, products: known.products))
            }
            return nil
        }
    }

    private func past(_ question: Question, knownAt: Instant) async throws(ReadError) -> Answer<PastCustomer> {
        try await reading {
            var matches: [PastCustomer] = []
            for apps in try await knowledge(around: question.customer, knownAt: knownAt) {
                let customers = apps.map { known in
                    Customers(
                        of: known.facts.map { $0.ownershipEvidence() }, links: known.links, policy: known.policy,
                        sharedTokens: known.sharedTokens)
                }
                let all = apps.map { known in
                    known.facts.filter { $0.line == nil }.map { Subscription($0, products: known.products) }
                }
                for match in JoinedMatch.all(of: question, apps, customers) {
                    let parts = match.parts.map { part in
                        PastCustomer.Part(
                            app: apps[part.app].app, entitlements: apps[part.app].entitlements,
                            subscriptions: customers[part.app].subscriptions(of: part.customer, among: all[part.app]))
                    }
                    matches.append(PastCustomer(match: match, parts: parts))
                }
            }
            return Answer(matches, of: question.customer.app)
        }
    }

    /// What is known about all store accounts to which an id may lead in one stream.
    struct Knowledge {
        let streamId: Int32
        let app: String
        /// The app with which it is joined; nil if it is not.
        let joinedApp: String?
        let facts: [SubscriptionFacts]
        let links: CustomerLinks
        let policy: OwnershipPolicy
        /// See ``entitlements(_:knownAt:)``.
        let sharedTokens: Set<CustomerKey>
        let products: ProductCatalog
        /// Those that products grant, by product.
        let entitlements: [String: [String]]
        let skips: [ExplainedCustomers.SkippedEvent]
        /// What events say about one of the accounts besides their facts, oldest first.
        let notices: [CustomerNotice]
    }

    /// What is known in each app that knows the id, with the app that is joined with it beside it.
    ///
    /// - Parameter knownAt: Only events received up to this instant count, and are folded again; nil for all that the
    ///   projections have.
    func knowledge(around customer: Reference, knownAt: Instant?) async throws -> [[Knowledge]] {
        let streams = try await pool.query(
            CustomerReadStatements.streams,
            [
                Parameter(customer.environment.rawValue), Parameter(customer.app), Parameter(customer.id),
                Parameter(customer.id.lowercased()),
            ], deadline: .now + Limits.readWaitMax)
        var apps: [[KnowingStream]] = []
        for row in streams {
            let stream = KnowingStream(
                streamId: try row.value(at: 0), app: try row.value(at: 1), joinedApp: try row.optional(at: 4),
                products: ProductCatalog(configured: try row.optional(at: 2) ?? ""),
                policy: (OwnershipRules(text: try row.optional(at: 3) ?? "") ?? .standard).policy,
                entitlements: try Self.mapping(row, at: 5))
            if let beside = apps.firstIndex(where: { $0[0].app == stream.joinedApp }) {
                apps[beside].append(stream)
            } else {
                apps.append([stream])
            }
        }
        var knowledge: [[Knowledge]] = []
        for joined in apps {
            let all = try await around(customer.keys, in: joined, knownAt)
            var known: [Knowledge] = []
            for (stream, around) in zip(joined, all) {
                known.append(try await self.known(stream, around, knownAt))
            }
            knowledge.append(known)
        }
        return knowledge
    }

    private struct KnowingStream {
        let streamId: Int32
        let app: String
        let joinedApp: String?
        let products: ProductCatalog
        let policy: OwnershipPolicy
        let entitlements: [String: [String]]
    }

    /// What is known around some keys in a stream: see ``CustomerReadStatements/around``.
    private struct Around {
        var keys: Set<CustomerKey> = []
        var stored: [String: SubscriptionFacts] = [:]
        var sharedTokens: Set<CustomerKey> = []
        var links: [CustomerLinks.Link] = []
        var skips: [ExplainedCustomers.SkippedEvent] = []
        var notices: [CustomerNotice] = []

        /// - Parameter row: One of ``CustomerReadStatements/around``.
        mutating func add(_ row: Row) throws {
            guard let key = try row.customerKey(at: 1) else { return }
            switch try row.value(String.self, at: 0) {
            case "key":
                keys.insert(key)
                guard let facts = try row.optional(JSONText.self, at: 3) else { return }
                stored[key.id.text] = try SubscriptionFacts(
                    originalTransactionId: key.id.text, json: try JSONDocument(facts.utf8).root)
            case "token": sharedTokens.insert(key)
            case "link":
                links.append(
                    CustomerLinks.Link(
                        backendCustomerId: ByteString(try row.value(at: 6)), key: key, position: try row.value(at: 4),
                        replacedPosition: try row.optional(at: 5), basis: try row.linkBasis(at: 7)))
            case "skip":
                skips.append(
                    ExplainedCustomers.SkippedEvent(
                        position: try row.value(at: 4), originalTransactionId: key.id.text,
                        skippedAt: try row.value(at: 8)))
            default:
                let notice = try NoticeStatements.notice(
                    try row.optional(at: 6), key.id.text, try row.value(at: 4), try row.value(at: 8))
                if let notice { notices.append(notice) }
            }
        }
    }

    /// Searches each stream. What names an app user or a backend's customer in one of two joined apps is searched in the
    /// other one, too.
    private func around(
        _ asked: [CustomerKey], in streams: [KnowingStream], _ knownAt: Instant?
    ) async throws -> [Around] {
        var searched = Set(asked)
        while true {
            var found: [Around] = []
            for stream in streams { found.append(try await around(searched.sorted(), in: stream.streamId, knownAt)) }
            let shared = found.flatMap { $0.keys.filter { $0.kind == .link || $0.kind == .account } }
            if streams.count == 1 || searched.isSuperset(of: shared) { return found }
            searched.formUnion(shared)
        }
    }

    private func around(_ keys: [CustomerKey], in streamId: Int32, _ knownAt: Instant?) async throws -> Around {
        let rows = try await pool.query(
            CustomerReadStatements.around,
            [
                Parameter(streamId), .array(keys.map(\.kind.rawValue)), .array(keys.map(\.id.text)),
                Parameter(knownAt ?? .latest), Parameter(Limits.noticesMax),
            ], deadline: .now + Limits.readWaitMax)
        var around = Around()
        for row in rows { try around.add(row) }
        return around
    }

    private func known(_ stream: KnowingStream, _ around: Around, _ knownAt: Instant?) async throws -> Knowledge {
        var facts = around.stored
        if let knownAt {
            let positions = Set(facts.values.flatMap(\.positions))
            facts = try await fold(positions.sorted(), Set(facts.keys), stream.streamId, knownAt)
        }
        // A purchase may have had another token then.
        let tokens = Set(facts.values.flatMap { $0.ownershipEvidence().purchases.map(\.token) })
            .subtracting(around.keys)
        return Knowledge(
            streamId: stream.streamId, app: stream.app, joinedApp: stream.joinedApp, facts: Array(facts.values),
            links: CustomerLinks(around.links), policy: stream.policy,
            sharedTokens: around.sharedTokens.union(try await sharedTokens(among: tokens, stream.streamId)),
            products: stream.products, entitlements: stream.entitlements,
            skips: around.skips.filter { facts[$0.originalTransactionId] != nil }
                .sorted { ($0.position, $0.originalTransactionId) < ($1.position, $1.originalTransactionId) },
            notices: around.notices.sorted { $0.position < $1.position })
    }

    private func sharedTokens(
        among tokens: Set<CustomerKey>, _ streamId: Int32
    ) async throws(PostgresError) -> Set<CustomerKey> {
        var shared: Set<CustomerKey> = []
        guard !tokens.isEmpty else { return shared }
        for row in try await pool.query(
            CustomerReadStatements.sharedTokens, [Parameter(streamId), .array(tokens.map(\.id.text).sorted())],
            deadline: .now + Limits.readWaitMax)
        {
            let token: String = try row.value(at: 0)
            shared.insert(CustomerKey(.account, token))
        }
        return shared
    }

    private func fold(
        _ positions: [Int64], _ subscriptions: Set<String>, _ streamId: Int32, _ knownAt: Instant
    ) async throws -> [String: SubscriptionFacts] {
        var folded: [String: SubscriptionFacts] = [:]
        var holders = TransactionHolders()
        for event in try await events(positions, streamId, knownAt) {
            event.about { subscriptions.contains($0) }.fold(into: &folded, among: &holders)
        }
        return folded
    }

    /// Those of some events that were received up to an instant, in order of position.
    func events(_ positions: [Int64], _ streamId: Int32, _ knownAt: Instant) async throws -> [FoldableEvent] {
        try await pool.query(
            CustomerReadStatements.eventsKnownAt, [Parameter(streamId), .array(positions), Parameter(knownAt)],
            deadline: .now + Limits.readWaitMax
        ).map { row in
            switch try FoldableEvent.read(row) {
            case .success(let event): event
            case .failure(let failure): throw ReadError.damaged(detail: failure.description)
            }
        }
    }

    /// Runs a read whose errors are those of the database or of damaged rows.
    func reading<Value>(_ read: () async throws -> Value) async throws(ReadError) -> Value {
        do {
            return try await read()
        } catch {
            throw ReadError(reading: error)
        }
    }

    /// The configured entitlements by product.
    func mapping(_ app: String) async throws(PostgresError) -> [String: [String]] {
        var mapping: [String: [String]] = [:]
        for row in try await pool.query(
            CustomerReadStatements.mapping, [Parameter(app)], deadline: .now + Limits.readWaitMax)
        {
            mapping[try row.value(at: 0), default: []].append(try row.value(at: 1))
        }
        return mapping
    }

    /// The same in a column with pairs of a product and an entitlement.
    private static func mapping(_ row: Row, at column: Int) throws -> [String: [String]] {
        guard let text = try row.optional(JSONText.self, at: column) else { return [:] }
        var mapping: [String: [String]] = [:]
        for pair in try JSONDocument(text.utf8).root.elements {
            guard let product = pair.elements.first?.string, let entitlement = pair.elements.last?.string else {
                continue
            }
            mapping[product, default: []].append(entitlement)
        }
        return mapping
    }
}

/// A customer as it was known.
private struct PastCustomer: CustomerMatch {
    struct Part: Sendable {
        let app: String
        let entitlements: [String: [String]]
        let subscriptions: [Subscription]
    }

    let match: JoinedMatch
    let parts: [Part]

    var knownBy: String { match.knownBy }
    var joinedApp: String? { match.joinedApp }
    var kind: CustomerKey.Kind { match.kind }
    var customer: CustomerKey { match.customer }
    var identity: CustomerReader.Identity { match.identity }
}

extension CustomerReader.Reference {
    /// The keys that the id may be, in order of kind.
    var keys: [CustomerKey] { (kind.map { [$0] } ?? CustomerKey.Kind.allCases).map { CustomerKey($0, id) } }
}
