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
        try await explained(question, knownAt: knownAt).map { match in
            Explained(
                identity: match.identity,
                explanations: (entitlement.map { [$0] } ?? match.entitlements()).map { match.explanation(of: $0) })
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
            var matches: [ExplainedCustomer] = []
            for apps in try await knowledge(around: question.customer, knownAt: knownAt) {
                var explained: [ExplainedCustomers] = []
                for known in apps { explained.append(try await self.explained(known, knownAt)) }
                for match in JoinedMatch.all(of: question, apps, explained.map(\.customers)) {
                    let whole =
                        apps.count == 1 && apps[0].app == match.identity.app
                        ? explained[0]
                        : ExplainedCustomers(
                            joining: zip(explained, apps).map { customers, known in
                                (customers, known.app == match.identity.app ? nil : known.app)
                            }, match.parts, as: match.customer)
                    matches.append(
                        ExplainedCustomer(match: match, at: question.at, knownAt: knownAt, explained: whole))
                }
            }
            return Answer(matches, of: question.customer.app)
        }
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
            for (id, facts) in event.factsBySubscription {
                for (transactionId, statedAt) in facts.statements(event.statedAt) {
                    let report = ExplainedCustomers.Report(
                        originalTransactionId: id, transactionId: transactionId, statedAt: statedAt)
                    if missing[report] != nil, found[report] == nil { found[report] = event.position }
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
    let at: Instant
    let knownAt: Instant?
    let explained: ExplainedCustomers

    var knownBy: String { match.knownBy }
    var joinedApp: String? { match.joinedApp }
    var kind: CustomerKey.Kind { match.kind }
    var customer: CustomerKey { match.customer }
    package var identity: CustomerReader.Identity { match.identity }

    /// By what was known, in byte order of their ids, each with the access that the customer has or had by owning it.
    package var subscriptions: [Subscription] { explained.subscriptions(of: customer) }

    /// The entitlements that the customer has or had at the instant, by what was known.
    package var granted: [Entitlement] { explained.granted(to: customer, at: at) }

    /// The names of the entitlements that purchases of the customer grant or would grant, in byte order.
    ///
    /// - Parameter subscription: Only purchases of this one count; nil for all.
    package func entitlements(by subscription: String? = nil) -> [String] {
        explained.entitlements(of: customer, by: subscription)
    }

    /// Explains an entitlement, whether or not a purchase grants it.
    package func explanation(of entitlement: String) -> Explanation {
        explained.explanation(of: entitlement, for: customer, at: at, knownAt: knownAt)
    }
}
