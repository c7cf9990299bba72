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
        var granted: [String: [String]] = [:]
        do throws(PostgresError) {
            if case .found(let match) = past { granted = try await mapping(match.app) }
        } catch {
            throw ReadError(error)
        }
        return past.map { match in
            Found(
                app: match.app, knownAs: match.kind,
                entitlements: Entitlement.all(of: match.subscriptions, entitlements: granted, at: question.at))
        }
    }

    /// The customer to which an id leads at an instant, with its subscriptions, by the events received up to another
    /// instant only. See ``entitlements(_:knownAt:)``.
    package func customer(_ question: Question, knownAt: Instant) async throws(ReadError) -> Answer<Customer> {
        try await past(question, knownAt: knownAt).map { match in
            Customer(app: match.app, knownAs: match.kind, subscriptions: match.subscriptions)
        }
    }

    /// A subscription with its facts, by the events received up to an instant only; nil if none was about it.
    package func subscription(
        _ id: String, in stream: StreamKey, knownAt: Instant
    ) async throws(ReadError) -> SubscriptionReader.Known? {
        try await reading {
            let reference = Reference(app: stream.app, environment: stream.environment, id: id, kind: .subscription)
            for known in try await knowledge(around: reference, knownAt: knownAt) {
                guard let facts = known.facts.first(where: { ByteString($0.originalTransactionId) == ByteString(id) })
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
            for known in try await knowledge(around: question.customer, knownAt: knownAt) {
                let customers = Customers(
                    of: known.facts.map { $0.ownershipEvidence() }, links: known.links, policy: known.policy,
                    sharedTokens: known.sharedTokens)
                let all = known.facts.filter { $0.line == nil }
                    .map { Subscription($0, products: known.products) }
                for key in question.customer.keys {
                    guard let customer = customers.customer(key, at: question.at) else { continue }
                    matches.append(
                        PastCustomer(
                            app: known.app, kind: key.kind, customer: customer,
                            subscriptions: customers.subscriptions(of: customer, among: all)))
                }
            }
            return Answer(matches)
        }
    }

    /// What is known about all store accounts to which an id may lead in one stream.
    struct Knowledge {
        let streamId: Int32
        let app: String
        let facts: [SubscriptionFacts]
        let links: CustomerLinks
        let policy: OwnershipPolicy
        /// See ``entitlements(_:knownAt:)``.
        let sharedTokens: Set<CustomerKey>
        let products: ProductCatalog
    }

    /// - Parameter knownAt: Only events received up to this instant count, and are folded again; nil for all that the
    ///   projections have.
    func knowledge(around customer: Reference, knownAt: Instant?) async throws -> [Knowledge] {
        let streams = try await pool.query(
            CustomerReadStatements.streams,
            [
                Parameter(customer.environment.rawValue), Parameter(customer.app), Parameter(customer.id),
                Parameter(customer.id.lowercased()),
            ], deadline: .now + Limits.readWaitMax)
        var knowledge: [Knowledge] = []
        for stream in streams {
            knowledge.append(
                try await known(
                    try stream.value(at: 0), app: try stream.value(at: 1), customer.keys, knownAt,
                    ProductCatalog(configured: try stream.optional(at: 2) ?? ""),
                    (OwnershipRules(text: try stream.optional(at: 3) ?? "") ?? .standard).policy))
        }
        return knowledge
    }

    private func known(
        _ streamId: Int32, app: String, _ asked: [CustomerKey], _ knownAt: Instant?, _ products: ProductCatalog,
        _ policy: OwnershipPolicy
    ) async throws -> Knowledge {
        let reached = try await pool.query(
            CustomerReadStatements.everTied,
            [Parameter(streamId), .array(asked.map(\.kind.rawValue)), .array(asked.map(\.id.text))],
            deadline: .now + Limits.readWaitMax)
        var backendIds: [String] = []
        var stored: [String: SubscriptionFacts] = [:]
        for row in reached {
            guard let key = try row.customerKey(at: 0) else { continue }
            if key.kind == .link { backendIds.append(key.id.text) }
            guard let facts = try row.optional(JSONText.self, at: 2) else { continue }
            stored[key.id.text] = try SubscriptionFacts(
                originalTransactionId: key.id.text, json: try JSONDocument(facts.utf8).root)
        }
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
                    replacedPosition: try row.optional(at: 4)))
        }
        let evidence = facts.map { $0.ownershipEvidence() }
        let tokens = Set(evidence.flatMap(\.purchases).map(\.token) + asked.filter { $0.kind == .account })
        return Knowledge(
            streamId: streamId, app: app, facts: facts, links: CustomerLinks(links), policy: policy,
            sharedTokens: try await sharedTokens(among: tokens, streamId), products: products)
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
        for event in try await events(positions, streamId, knownAt) {
            event.about(subscriptions).fold(into: &folded)
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

/// A customer as it was known, by one of the kinds that the requested id may be of.
private struct PastCustomer: CustomerMatch {
    let app: String
    let kind: CustomerKey.Kind
    let customer: CustomerKey
    let subscriptions: [Subscription]
}

extension CustomerReader.Reference {
    /// The keys that the id may be, in order of kind.
    var keys: [CustomerKey] { (kind.map { [$0] } ?? CustomerKey.Kind.allCases).map { CustomerKey($0, id) } }
}
