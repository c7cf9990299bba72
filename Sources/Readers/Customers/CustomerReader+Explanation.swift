import Encoding
import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// Explanations for a customer.
    package struct Explained: Sendable {
        package let identity: Identity
        /// In byte order of their entitlements.
        package let explanations: [Explanation]
    }

    /// Why the customer to which an id leads at the instant has entitlements or does not.
    ///
    /// - Parameters:
    ///   - entitlement: Only this one, whether or not a purchase grants it; nil for all that purchases of the customer
    ///     grant or would grant.
    ///   - knownAt: Only events received up to this instant count, see ``entitlements(_:knownAt:)``; nil for all.
    package func explanations(
        _ question: Question, of entitlement: String?, knownAt: Instant?
    ) async throws(ReadError) -> Answer<Explained> {
        let answer = try await explained(question, knownAt: knownAt)
        let explanations: [Explanation]
        if case .found(let match) = answer {
            explanations = try await self.explanations(of: entitlement.map { [$0] } ?? match.entitlements(), match)
        } else {
            explanations = []
        }
        return answer.map { Explained(identity: $0.identity, explanations: explanations) }
    }

    /// Explains entitlements of a customer, with the sources of the events that are the evidence.
    package func explanations(
        of entitlements: some Sequence<String>, _ customer: ExplainedCustomer
    ) async throws(ReadError) -> [Explanation] {
        try await reading {
            let explanations = entitlements.map { customer.explanation(of: $0) }
            let evidence = explanations.reduce(into: Set<Explanation.Evidence>()) { $0.formUnion($1.evidence) }
            var statements: [Explanation.Evidence: Explanation.Statement] = [:]
            for (joinedApp, streamId) in customer.streams {
                let positions = evidence.filter { $0.joinedApp == joinedApp }.map(\.position).sorted()
                guard !positions.isEmpty else { continue }
                for row in try await pool.query(
                    CustomerReadStatements.sources, [Parameter(streamId), .array(positions)],
                    deadline: .now + Limits.readWaitMax)
                {
                    let position: Int64 = try row.value(at: 0)
                    statements[Explanation.Evidence(joinedApp: joinedApp, position: position)] = Explanation.Statement(
                        position: position, source: try row.value(at: 1), type: try row.optional(at: 2),
                        subtype: try row.optional(at: 3), receivedAt: try row.value(at: 4))
                }
            }
            return explanations.map { $0.stated(by: statements) }
        }
    }

    /// The customer to which an id leads at the instant, ready to be explained.
    ///
    /// Folds the facts again, with the code of the projections, and collects the rules that it applies.
    ///
    /// - Parameter knownAt: Only events received up to this instant count, see ``entitlements(_:knownAt:)``; nil for
    ///   all.
    package func explained(
        _ question: Question, knownAt: Instant?
    ) async throws(ReadError) -> Answer<ExplainedCustomer> {
        try await reading {
            var matches = try await matches(question, knownAt: knownAt)
            if knownAt != nil {
                let today = try await self.matches(question, knownAt: nil)
                for index in matches.indices {
                    let match = matches[index]
                    matches[index].today = today.first { $0.knownBy == match.knownBy && $0.kind == match.kind }
                        .map { (customer: $0.customer, explained: $0.explained) }
                }
            }
            return Answer(matches, of: question.customer.app)
        }
    }

    private func matches(_ question: Question, knownAt: Instant?) async throws -> [ExplainedCustomer] {
        var matches: [ExplainedCustomer] = []
        for apps in try await knowledge(around: question.customer, knownAt: knownAt) {
            var explained: [ExplainedCustomers] = []
            for known in apps { explained.append(try await self.explained(known, knownAt)) }
            for match in JoinedMatch.all(of: question, apps, explained.map(\.customers)) {
                let names = apps.map { $0.app == match.identity.app ? nil : $0.app }
                let whole =
                    names == [nil]
                    ? explained[0]
                    : ExplainedCustomers(
                        joining: zip(explained, names).map { (customers: $0, joinedApp: $1) }, match.parts,
                        as: match.customer)
                matches.append(
                    ExplainedCustomer(
                        match: match, streams: zip(names, apps).map { (joinedApp: $0, id: $1.streamId) },
                        at: question.at, knownAt: knownAt, explained: whole))
            }
        }
        return matches
    }

    private func explained(_ known: Knowledge, _ knownAt: Instant?) async throws -> ExplainedCustomers {
        var explained = ExplainedCustomers(
            known.facts, links: known.links, policy: known.policy, sharedTokens: known.sharedTokens,
            products: known.products, entitlements: try await mapping(known.app),
            skipped: try await skips(known, knownAt))
        let missing = explained.missingEvidence
        guard !missing.isEmpty else { return explained }
        let positions = Set(missing.values.joined()).sorted()
        var found: [ExplainedCustomers.Report: Int64] = [:]
        for event in try await events(positions, known.streamId, knownAt ?? .latest) {
            for (transactionId, statedAt) in event.factsBySubscription.values.flatMap({ $0.statements(event.statedAt) })
            {
                // A subscription also knows what was reported under another one.
                for report in missing.keys
                where report.transactionId == transactionId && report.statedAt == statedAt && found[report] == nil {
                    found[report] = event.position
                }
            }
        }
        explained.addEvidence(found)
        return explained
    }

    private func skips(
        _ known: Knowledge, _ knownAt: Instant?
    ) async throws(PostgresError) -> [ExplainedCustomers.SkippedEvent] {
        let rows = try await pool.query(
            CustomerReadStatements.skipsKnownAt,
            [
                Parameter(known.streamId), .array(known.facts.map(\.originalTransactionId)),
                Parameter(knownAt ?? .latest),
            ], deadline: .now + Limits.readWaitMax)
        var skips: [ExplainedCustomers.SkippedEvent] = []
        for row in rows {
            skips.append(
                ExplainedCustomers.SkippedEvent(
                    position: try row.value(at: 0), originalTransactionId: try row.value(at: 1),
                    skippedAt: try row.value(at: 2)))
        }
        return skips
    }
}

/// A customer, by one of the kinds that the requested id may be of, whose entitlements can be explained.
package struct ExplainedCustomer: CustomerMatch {
    let match: JoinedMatch
    /// Those of its events, each with the name of its app if it is joined with the answer's.
    let streams: [(joinedApp: String?, id: Int32)]
    let at: Instant
    let knownAt: Instant?
    let explained: ExplainedCustomers
    /// The customer to which the id leads by all events; nil without ``knownAt``.
    fileprivate(set) var today: (customer: CustomerKey, explained: ExplainedCustomers)?

    var knownBy: String { match.knownBy }
    var joinedApp: String? { match.joinedApp }
    var kind: CustomerKey.Kind { match.kind }
    package var customer: CustomerKey { match.customer }
    package var identity: CustomerReader.Identity { match.identity }

    /// The customer's subscriptions by what was known, in byte order of their ids.
    package var lines: [ExplainedCustomers.OwnedLine] { explained.lines(of: customer) }

    /// The entitlements that the customer has or had at the instant, by what was known.
    package var granted: [Entitlement] { explained.granted(to: customer, at: at) }

    /// The names of the entitlements that purchases of the customer grant or would grant, also those that were not known
    /// then, in byte order.
    ///
    /// - Parameter subscription: Only purchases of this one count; nil for all.
    package func entitlements(by subscription: String? = nil) -> [String] {
        let known = explained.entitlements(of: customer, by: subscription)
        guard let today else { return known }
        let all = known + today.explained.entitlements(of: today.customer, by: subscription)
        return Set(all.map(ByteString.init)).sorted().map(\.text)
    }

    /// The same customer, if nothing of it was known at the instant.
    package func unknown(at knownAt: Instant) -> ExplainedCustomer {
        let nothing = ExplainedCustomers(
            [SubscriptionFacts](), links: CustomerLinks([CustomerLinks.Link]()), policy: .standard)
        return ExplainedCustomer(
            match: match, streams: streams, at: at, knownAt: knownAt, explained: nothing,
            today: (customer: customer, explained: explained))
    }

    /// Explains an entitlement, whether or not a purchase grants it.
    func explanation(of entitlement: String) -> Explanation {
        let explanation = explained.explanation(of: entitlement, for: customer, at: at, knownAt: knownAt)
        guard let today else { return explanation }
        return explanation.restated(by: today.explained.explanation(of: entitlement, for: today.customer, at: at))
    }
}
