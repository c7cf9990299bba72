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
        let past = try await past(question, knownAt: knownAt)
        var grants: [Entitlement.Grant] = []
        do throws(PostgresError) {
            if case .found(let match) = past {
                for part in match.parts {
                    grants += Entitlement.grants(
                        of: part.subscriptions, entitlements: try await mapping(part.app),
                        joinedApp: part.app == match.identity.app ? nil : part.app)
                }
            }
        } catch {
            throw ReadError(error)
        }
        return past.map { match in
            Found(identity: match.identity, entitlements: Entitlement.all(of: grants, at: question.at))
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
                            app: apps[part.app].app,
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
                policy: (OwnershipRules(text: try row.optional(at: 3) ?? "") ?? .standard).policy)
            if let beside = apps.firstIndex(where: { $0[0].app == stream.joinedApp }) {
                apps[beside].append(stream)
            } else {
                apps.append([stream])
            }
        }
        var knowledge: [[Knowledge]] = []
        for joined in apps {
            let reached = try await reached(from: customer.keys, in: joined)
            var known: [Knowledge] = []
            for (stream, reached) in zip(joined, reached) {
                known.append(try await self.known(stream, customer.keys, reached, knownAt))
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
    }

    /// The keys that were ever tied to some keys in a stream, and the facts of those that are subscriptions.
    private struct Reached {
        var keys: Set<CustomerKey> = []
        var stored: [String: SubscriptionFacts] = [:]
    }

    /// Searches each stream. What names an app user or a backend's customer in one of two joined apps is searched in the
    /// other one, too.
    private func reached(from asked: [CustomerKey], in streams: [KnowingStream]) async throws -> [Reached] {
        var searched = Set(asked)
        while true {
            var reached: [Reached] = []
            for stream in streams {
                reached.append(try await self.reached(from: searched.sorted(), in: stream.streamId))
            }
            let found = reached.flatMap { $0.keys.filter { $0.kind == .link || $0.kind == .account } }
            if streams.count == 1 || searched.isSuperset(of: found) { return reached }
            searched.formUnion(found)
        }
    }

    private func reached(from keys: [CustomerKey], in streamId: Int32) async throws -> Reached {
        let rows = try await pool.query(
            CustomerReadStatements.everTied,
            [Parameter(streamId), .array(keys.map(\.kind.rawValue)), .array(keys.map(\.id.text))],
            deadline: .now + Limits.readWaitMax)
        var reached = Reached()
        for row in rows {
            guard let key = try row.customerKey(at: 0) else { continue }
            reached.keys.insert(key)
            guard let facts = try row.optional(JSONText.self, at: 2) else { continue }
            reached.stored[key.id.text] = try SubscriptionFacts(
                originalTransactionId: key.id.text, json: try JSONDocument(facts.utf8).root)
        }
        return reached
    }

    private func known(
        _ stream: KnowingStream, _ asked: [CustomerKey], _ reached: Reached, _ knownAt: Instant?
    ) async throws -> Knowledge {
        let streamId = stream.streamId
        let backendIds = reached.keys.filter { $0.kind == .link }.map(\.id.text)
        let stored = reached.stored
        var facts = Array(stored.values)
        if let knownAt {
            let positions = Set(facts.flatMap(\.positions))
            facts = Array(try await fold(positions.sorted(), Set(stored.keys), streamId, knownAt).values)
        }

        var links: [CustomerLinks.Link] = []
        for row in try await pool.query(
            CustomerReadStatements.linksKnownAt,
            [Parameter(streamId), .array(backendIds), Parameter(knownAt ?? .latest)],
            deadline: .now + Limits.readWaitMax)
        {
            guard let key = try row.customerKey(at: 1) else { continue }
            links.append(
                CustomerLinks.Link(
                    backendCustomerId: ByteString(try row.value(at: 0)), key: key, position: try row.value(at: 3),
                    replacedPosition: try row.optional(at: 4), basis: try row.linkBasis(at: 5)))
        }
        let evidence = facts.map { $0.ownershipEvidence() }
        let tokens = reached.keys.union(asked).filter { $0.kind == .account }
            .union(evidence.flatMap(\.purchases).map(\.token))
        return Knowledge(
            streamId: streamId, app: stream.app, joinedApp: stream.joinedApp, facts: facts, links: CustomerLinks(links),
            policy: stream.policy, sharedTokens: try await sharedTokens(among: tokens, streamId),
            products: stream.products)
    }

    private func sharedTokens(
        among tokens: Set<CustomerKey>, _ streamId: Int32
    ) async throws(PostgresError) -> Set<CustomerKey> {
        var shared: Set<CustomerKey> = []
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
            event.about(subscriptions).fold(into: &folded, among: &holders)
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
        } catch let error as PostgresError {
            throw ReadError(error)
        } catch let error as ReadError {
            throw error
        } catch {
            throw .damaged(detail: String(describing: error))
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
}

/// A customer as it was known.
private struct PastCustomer: CustomerMatch {
    struct Part: Sendable {
        let app: String
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
