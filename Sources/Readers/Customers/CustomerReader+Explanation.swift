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
            let evidence = explanations.reduce(into: Set<Explanation.EventID>()) { $0.formUnion($1.evidence) }
            var statements: [Explanation.EventID: Explanation.CitedEvent] = [:]
            for (joinedApp, streamId) in customer.streams {
                let positions = evidence.filter { $0.joinedApp == joinedApp }.map(\.position).sorted()
                guard !positions.isEmpty else { continue }
                for row in try await pool.query(
                    CustomerReadStatements.sources, [Parameter(streamId), .array(positions)],
                    deadline: .now + Limits.readWaitMax)
                {
                    let position: Int64 = try row.value(at: 0)
                    statements[Explanation.EventID(joinedApp: joinedApp, position: position)] = Explanation.CitedEvent(
                        position: position, source: try row.value(at: 1), type: try row.optional(at: 2),
                        subtype: try row.optional(at: 3), receivedAt: try row.value(at: 4))
                }
            }
            return explanations.map { $0.stated(by: statements) }
        }
    }

    /// The customer to which an id leads at the instant, ready to be explained.
    ///
    /// - Parameter knownAt: See ``explained(_:knownAt:)``.
    func explained(_ question: Question, knownAt: Instant?) async throws(ReadError) -> Answer<ExplainedCustomer> {
        try await explained(question.customer, knownAt: knownAt).customer(at: question.at)
    }

    /// The customers to which an id may lead, at any instant, ready to be explained.
    package struct ExplainedID: Sendable {
        fileprivate let reference: Reference
        package let knownAt: Instant?
        /// Each app that knows the id, with the app that is joined with it beside it.
        fileprivate let apps: [[(known: Knowledge, explained: ExplainedCustomers)]]
        /// The same by all events; nil without ``knownAt``.
        fileprivate let appsToday: [[(known: Knowledge, explained: ExplainedCustomers)]]?

        /// The customer at an instant, by what was known.
        package func customer(at instant: Instant) -> Answer<ExplainedCustomer> {
            var matches = matches(apps, at: instant, knownAt: knownAt)
            if let appsToday {
                let today = self.matches(appsToday, at: instant, knownAt: nil)
                for index in matches.indices {
                    let match = matches[index]
                    matches[index].today = today.first { $0.knownBy == match.knownBy && $0.kind == match.kind }
                        .map { (customer: $0.customer, explained: $0.explained) }
                }
            }
            return Answer(matches, of: reference.app)
        }

        /// The customer at an instant, by all events.
        package func customerToday(at instant: Instant) -> Answer<ExplainedCustomer> {
            Answer(matches(appsToday ?? apps, at: instant, knownAt: nil), of: reference.app)
        }

        private func matches(
            _ apps: [[(known: Knowledge, explained: ExplainedCustomers)]], at instant: Instant, knownAt: Instant?
        ) -> [ExplainedCustomer] {
            apps.flatMap { apps in
                JoinedMatch.all(
                    of: Question(reference, at: instant), apps.map(\.known), apps.map(\.explained.customers)
                ).map { match in
                    let names = apps.map { $0.known.app == match.identity.app ? nil : $0.known.app }
                    let whole =
                        names == [nil]
                        ? apps[0].explained
                        : ExplainedCustomers(
                            joining: zip(apps, names).map { (customers: $0.explained, joinedApp: $1) }, match.parts,
                            as: match.customer)
                    return ExplainedCustomer(
                        match: match, streams: zip(names, apps).map { (joinedApp: $0, id: $1.known.streamId) },
                        at: instant, knownAt: knownAt, explained: whole,
                        noticed: match.parts.flatMap { part in
                            apps[part.app].known.notices.filter { notice in
                                let owner = notice.key.flatMap {
                                    apps[part.app].explained.customers.customer($0, at: notice.at)
                                }
                                return owner == part.customer
                            }.map { ($0, names[part.app]) }
                        })
                }
            }
        }
    }

    /// The customers to which an id may lead, ready to be explained.
    ///
    /// Folds the facts again, with the code of the projections, and collects the rules that it applies.
    ///
    /// - Parameter knownAt: Only events received up to this instant count, see ``entitlements(_:knownAt:)``; nil for
    ///   all.
    package func explained(_ reference: Reference, knownAt: Instant?) async throws(ReadError) -> ExplainedID {
        try await reading {
            let apps = try await apps(around: reference, knownAt: knownAt)
            return ExplainedID(
                reference: reference, knownAt: knownAt, apps: apps,
                appsToday: knownAt == nil ? nil : try await self.apps(around: reference, knownAt: nil))
        }
    }

    private func apps(
        around reference: Reference, knownAt: Instant?
    ) async throws -> [[(known: Knowledge, explained: ExplainedCustomers)]] {
        var apps: [[(known: Knowledge, explained: ExplainedCustomers)]] = []
        for joined in try await knowledge(around: reference, knownAt: knownAt) {
            var explained: [(known: Knowledge, explained: ExplainedCustomers)] = []
            for known in joined { explained.append((known, try await self.explained(known, knownAt))) }
            apps.append(explained)
        }
        return apps
    }

    private func explained(_ known: Knowledge, _ knownAt: Instant?) async throws -> ExplainedCustomers {
        var explained = ExplainedCustomers(
            known.facts, links: known.links, policy: known.policy, sharedTokens: known.sharedTokens,
            products: known.products, entitlements: known.entitlements, skipped: known.skips)
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
}

/// A customer, by one of the kinds that the requested id may be of, whose entitlements can be explained.
package struct ExplainedCustomer: CustomerMatch {
    let match: JoinedMatch
    /// Those of its events, each with the name of its app if it is joined with the answer's.
    let streams: [(joinedApp: String?, id: Int32)]
    let at: Instant
    let knownAt: Instant?
    let explained: ExplainedCustomers
    /// What events say about the customer besides their facts, at most ``Limits/noticesMax`` for each of its ids.
    let noticed: [(notice: CustomerNotice, joinedApp: String?)]
    /// The customer to which the id leads by all events; nil without ``knownAt``.
    fileprivate(set) var today: (customer: CustomerKey, explained: ExplainedCustomers)?

    var knownBy: String { match.knownBy }
    var joinedApp: String? { match.joinedApp }
    var kind: CustomerKey.Kind { match.kind }
    package var customer: CustomerKey { match.customer }
    package var identity: CustomerReader.Identity { match.identity }

    /// The customer's subscriptions by what was known, in byte order of their ids.
    package var lines: [ExplainedCustomers.OwnedLine] { explained.lines(of: customer) }

    /// The changes of owner by which the customer gained or lost subscriptions by links, by what was known.
    package var linkMoves: [ExplainedCustomers.LinkMove] {
        explained.linkMoves.filter { $0.from == customer || $0.to == customer }
    }

    /// The owners of a subscription, by what was known.
    package func owners(of subscription: String) -> [Ownership] {
        explained.customers.ownership.filter {
            $0.originalTransactionId == ByteString(subscription) && $0.reason != .seat
        }
    }

    /// The changes of its owner by links.
    package func linkMoves(of subscription: String) -> [ExplainedCustomers.LinkMove] {
        explained.linkMoves.filter { ByteString($0.originalTransactionId) == ByteString(subscription) }
    }

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
            match: match, streams: streams, at: at, knownAt: knownAt, explained: nothing, noticed: [],
            today: (customer: customer, explained: explained))
    }

    /// What events say about the customer besides their facts, with the app if it is not the answer's, and what is known by
    /// the facts of its subscriptions.
    package var notices: [(notice: CustomerNotice, joinedApp: String?)] {
        lines.flatMap { line in line.voids.map { ($0, line.joinedApp) } } + noticed
    }

    /// What the customer gained and lost, newest first.
    ///
    /// - Parameter last: Only what happened up to and including this instant is returned.
    func history(through last: Instant) -> [HistoryEntry] {
        let noticed = notices.filter { $0.notice.at <= last }.map { notice, joinedApp in
            var entry = HistoryEntry(notice)
            entry.joinedApp = joinedApp
            return entry
        }
        return (lines.flatMap { $0.history(through: last) } + noticed).sorted(by: HistoryEntry.isNewer)
    }

    /// Explains an entitlement, whether or not a purchase grants it.
    package func explanation(of entitlement: String) -> Explanation {
        let explanation = explained.explanation(of: entitlement, for: customer, at: at, knownAt: knownAt)
        guard let today else { return explanation }
        return explanation.restated(by: today.explained.explanation(of: entitlement, for: today.customer, at: at))
    }
}
