import Encoding
import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// Like ``entitlements(_:)``, but by the events received up to an instant only: their facts and the ties between
    /// keys.
    ///
    /// Slower, since it folds the events of all affected subscriptions again.
    package func entitlements(_ question: Question, knownAt: Instant) async throws(ReadError) -> [Found] {
        do {
            let id = question.customerId
            let streams = try await pool.query(
                CustomerReadStatements.streams,
                [
                    Parameter(question.environment.rawValue), Parameter(question.app), Parameter(id),
                    Parameter(id.lowercased()),
                ], deadline: .now + Limits.readWaitMax)
            var found: [Found] = []
            for stream in streams {
                let app: String = try stream.value(at: 1)
                guard let past = try await past(try stream.value(at: 0), id, knownAt, try stream.optional(at: 2)) else {
                    continue
                }
                found.append(
                    Found(
                        app: app, knownAs: past.knownAs,
                        entitlements: Entitlement.all(
                            of: past.subscriptions, entitlements: try await mapping(app), at: question.at)))
            }
            return found
        } catch let error as PostgresError {
            throw ReadError(error)
        } catch let error as ReadError {
            throw error
        } catch {
            throw .damaged(detail: String(describing: error))
        }
    }

    /// The customer as it was known in one stream; nil if it was not known.
    private func past(
        _ streamId: Int32, _ id: String, _ knownAt: Instant, _ products: String?
    ) async throws -> (knownAs: CustomerKey.Kind, subscriptions: [Subscription])? {
        let asked = CustomerKey.Kind.allCases.map { CustomerKey($0, id) }
        let reached = try await pool.query(
            CustomerReadStatements.everTied,
            [Parameter(streamId), .array(asked.map(\.kind.rawValue)), .array(asked.map(\.id.text))],
            deadline: .now + Limits.readWaitMax)
        var customers: [String] = []
        var subscriptions: Set<String> = []
        var positions: Set<Int64> = []
        for row in reached {
            guard let key = try row.customerKey(at: 0) else { continue }
            if key.kind == .link { customers.append(key.id.text) }
            guard let facts = try row.optional(JSONText.self, at: 2) else { continue }
            subscriptions.insert(key.id.text)
            positions.formUnion(
                try SubscriptionFacts(originalTransactionId: key.id.text, json: try JSONDocument(facts.utf8).root)
                    .positions)
        }
        let folded = try await fold(positions.sorted(), subscriptions, streamId, knownAt)

        var groups = CustomerGroups()
        var known = Set(folded.keys.map { CustomerKey(.subscription, $0) })
        func tie(_ left: CustomerKey, _ right: CustomerKey) {
            groups.join(left, right)
            known.formUnion([left, right])
        }
        for (subscription, facts) in folded {
            for key in facts.customerKeys().keys { tie(CustomerKey(.subscription, subscription), key) }
        }
        for row in try await pool.query(
            CustomerReadStatements.linksKnownAt, [Parameter(streamId), .array(customers), Parameter(knownAt)],
            deadline: .now + Limits.readWaitMax)
        {
            if let key = try row.customerKey(at: 1) { tie(CustomerKey(.link, try row.value(at: 0)), key) }
        }
        guard let key = asked.first(where: known.contains) else { return nil }
        let group = groups.name(of: CustomerGroupID(key))
        let catalog = ProductCatalog(configured: products ?? "")
        let own = folded.filter { groups.name(of: CustomerGroupID(CustomerKey(.subscription, $0.key))) == group }
        return (key.kind, own.values.map { Subscription($0, products: catalog) })
    }

    private func fold(
        _ positions: [Int64], _ subscriptions: Set<String>, _ streamId: Int32, _ knownAt: Instant
    ) async throws -> [String: SubscriptionFacts] {
        let rows = try await pool.query(
            CustomerReadStatements.eventsKnownAt, [Parameter(streamId), .array(positions), Parameter(knownAt)],
            deadline: .now + Limits.readWaitMax)
        var folded: [String: SubscriptionFacts] = [:]
        for row in rows {
            switch try FoldableEvent.read(row) {
            case .success(let event):
                for (id, facts) in event.factsBySubscription where subscriptions.contains(id) {
                    event.fold(facts, into: &folded[id, default: SubscriptionFacts(originalTransactionId: id)])
                }
            case .failure(let failure): throw ReadError.damaged(detail: failure.description)
            }
        }
        return folded
    }

    private func mapping(_ app: String) async throws(PostgresError) -> [String: [String]] {
        var mapping: [String: [String]] = [:]
        for row in try await pool.query(
            CustomerReadStatements.mapping, [Parameter(app)], deadline: .now + Limits.readWaitMax)
        {
            mapping[try row.value(at: 0), default: []].append(try row.value(at: 1))
        }
        return mapping
    }
}
