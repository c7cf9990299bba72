import Console
import Encoding
import EventLog
import Readers
import Subscriptions

extension ConsoleRoutes {
    func customer(_ visit: ConsoleRequest, id: String) async throws -> Outcome {
        let stream = try visit.someStream()
        guard let environment = Environment(rawValue: stream.environment) else {
            throw ConsoleProblem(.notFound, "No such stream", "The environment is of a newer release.")
        }
        let kind = try visit.query.text("as").flatMap(CustomerKey.Kind.init(rawValue:))
        let (at, knownAt) = try Self.clocks(visit)
        let reference = CustomerReader.Reference(app: stream.app, environment: environment, id: id, kind: kind)
        let known = try await customers.explained(reference, knownAt: knownAt)
        let customer = try await customer(known, reference, at: at, visit)
        async let hits = reader.search(id)
        async let tied = customers.ties(of: customer)
        let apps = [stream.app, customer.identity.joinedApp].compactMap(\.self)
        async let productNames = reader.productNames(of: apps)
        let explained = Self.explained(known, at: at)
        let entitlements = knownAt == nil ? customer.granted : explained?.granted ?? []
        let names = Self.ordered(
            explained?.entitlements() ?? [], entitlements, at: at, first: try visit.query.text("entitlement"))
        let unstated = names.prefix(Limits.consoleExplanations).compactMap { explained?.explanation(of: $0) }
        var knownHead: Int64?
        if let knownAt { knownHead = try await reader.head(at: knownAt, in: stream) }
        var statements: [Explanation.EventID: Explanation.CitedEvent] = [:]
        let moves = explained?.linkMoves ?? []
        let cited = unstated.reduce(into: Set(moves.map { Self.event(of: $0) })) { $0.formUnion($1.evidence) }
        let events = try await events(of: customer, joinedApp: nil, in: stream, cited, &statements)
        let joined = try await joined(customer, knownAt: knownAt, cited, &statements, visit)
        let elsewhere = try await hits.filter {
            $0.isCustomer && ($0.app, $0.environment) != (stream.app, stream.environment)
        }
        var activeElsewhere: [SearchHit: [String]] = [:]
        if knownAt == nil { activeElsewhere = try await active(elsewhere, at: at) }
        let today = at == visit.now ? nil : Self.found(known.customerToday(at: visit.now))?.customer
        let (ties, tiesSQL) = try await tied
        var page =
            CustomerPage(
                id: id, customer: customer, ties: ties, tiesSQL: tiesSQL, lines: explained?.lines ?? [],
                today: today == customer.customer ? nil : today,
                elsewhere: elsewhere, activeElsewhere: activeElsewhere,
                entitlements: entitlements, explanations: unstated.map { $0.stated(by: statements) },
                unexplained: Array(names.dropFirst(Limits.consoleExplanations)), at: at, knownAt: knownAt,
                knownHead: knownHead, events: events,
                refunds: try await refunds(of: customer, events, stream, joined, knownAt: knownAt),
                names: try await productNames,
                joined: joined,
                span: try Self.span(visit), address: visit.address)
        page.done = try Self.done(visit, customer)
        page.found = try visit.query.text("found")
        page.purchase = try visit.query.text("purchase")
        page.moves = moves.compactMap { move -> CustomerPage.HistoryRow? in
            guard let explained, let at = statements[Self.event(of: move)]?.receivedAt else { return nil }
            return (move.entry(for: explained.customer, at: at), move.originalTransactionId, move.joinedApp)
        }
        if visit.frame.mayAct { page.offered = try await offered(by: stream.app, names) }
        return .page(page)
    }

    /// The entitlements that the products of an app give: if none is configured, each gives one of its own name.
    ///
    /// - Parameter known: Those of the customer.
    private func offered(by app: String, _ known: [String]) async throws -> [String] {
        let products = try await products.products(of: app)
        let configured = Set(products.flatMap(\.entitlements))
        return (configured.isEmpty ? Set(products.map(\.productId) + known) : configured).sorted()
    }

    /// What the form that led to the page of a customer has done.
    private static func done(_ visit: ConsoleRequest, _ customer: ExplainedCustomer) throws -> String? {
        guard let what = try visit.query.text("done"), let id = try visit.query.text("grant") else { return nil }
        let statement = customer.lines.flatMap { $0.subscription.transactions }.compactMap {
            GrantStatement(of: $0.transaction)
        }.first { $0.id == id }
        let isRevoked = statement?.isRevocation == true
        switch (what, statement) {
        case ("given", let statement?) where !isRevoked:
            let end = statement.until.map { "until \($0.longText) UTC" } ?? "without an end"
            return "Done: \(statement.entitlement) is given \(end)."
        case ("revoked", let statement?) where isRevoked: return "Done: \(statement.entitlement) is taken back."
        case ("given", nil), ("revoked", _): return "Done; it will be shown here in a moment: open the page again."
        default: return nil
        }
    }

    /// The entitlements that are active where an id is known elsewhere, of the first few.
    private func active(_ hits: [SearchHit], at instant: Instant) async throws -> [SearchHit: [String]] {
        var names: [SearchHit: [String]] = [:]
        for hit in hits.prefix(Limits.consoleElsewhereMax) {
            guard case .customer(let id, let kind) = hit.target,
                let environment = Environment(rawValue: hit.environment)
            else { continue }
            let reference = CustomerReader.Reference(
                app: hit.app, environment: environment, id: id, kind: CustomerKey.Kind(rawValue: kind))
            let customer = Self.found(try await customers.explained(reference, knownAt: nil).customer(at: instant))
            names[hit] = customer?.granted.filter { $0.isActive(at: instant) }.map(\.entitlement)
        }
        return names
    }

    /// What the stores asked about refunds of a customer's purchases, in a joined app as well. Only what was refunded or
    /// asked about is looked for, and orders of Google Play, whose notifications name no purchase.
    ///
    /// - Parameter knownAt: What was learned later is left out; nil for today's knowledge.
    private func refunds(
        of customer: ExplainedCustomer, _ events: [StoredEvent], _ stream: StreamState, _ joined: CustomerPage.Joined?,
        knownAt: Instant?
    ) async throws -> [RefundRequest] {
        guard let environment = Environment(rawValue: stream.environment) else { return [] }
        func ids(_ subscriptions: [Subscription]) -> [String] {
            subscriptions.flatMap { $0.transactions.map(\.transaction.transactionId) }.suffix(Limits.consoleRefundsMax)
        }
        var found: [RefundRequest] = []
        for (app, events) in [(stream.app, events), (joined?.stream.app, joined?.events ?? [])] {
            guard let app else { continue }
            let own = customer.lines.filter { ($0.joinedApp ?? stream.app) == app }.map(\.subscription)
            if events.contains(where: { $0.kind == EventKind.consumptionRequest.rawValue }) {
                found += try await refunds.requests(
                    about: ids(own.filter(\.purchases.isEmpty)), in: StreamKey(app: app, environment: environment))
            }
            let google = ids(own.filter { !$0.purchases.isEmpty })
            if !google.isEmpty, environment == .production {
                found += try await refunds.requests(
                    about: google, in: StreamKey(app: app, environment: .unknown))
            }
        }
        if let knownAt {
            let all = events + (joined?.events ?? [])
            let early = Set(all.filter { $0.receivedAt <= knownAt }.compactMap(\.occurredAt))
            let late = Set(all.filter { $0.receivedAt > knownAt }.compactMap(\.occurredAt)).subtracting(early)
            found = found.compactMap { $0.known(at: knownAt, without: late) }
        }
        return found.sorted { $0.receivedAt > $1.receivedAt }
    }

    /// The customer whose entitlements a page explains; nil if the id is not known.
    private static func explained(_ known: CustomerReader.ExplainedID, at: Instant) -> ExplainedCustomer? {
        if let customer = found(known.customer(at: at)) { return customer }
        // What a customer has by today's knowledge is worth saying, even if nothing was known of it then.
        guard let knownAt = known.knownAt else { return nil }
        return found(known.customerToday(at: at))?.unknown(at: knownAt)
    }

    /// The instant that a page is about, and the one whose knowledge counts; nil for today's. What was known then is
    /// meant to be true then, too, unless both are given.
    private static func clocks(_ visit: ConsoleRequest) throws -> (at: Instant, knownAt: Instant?) {
        let knownAt = try visit.query.instant("knownAt", label: "As known at").flatMap { $0 <= visit.now ? $0 : nil }
        return (try visit.query.instant("at", label: "True at") ?? knownAt ?? visit.now, knownAt)
    }

    /// The events about the customer's subscriptions in a stream.
    ///
    /// - Parameters:
    ///   - cited: Further events, which are read by the same query.
    ///   - statements: Gets those.
    private func events(
        of customer: ExplainedCustomer, joinedApp: String?, in stream: StreamState, _ cited: Set<Explanation.EventID>,
        _ statements: inout [Explanation.EventID: Explanation.CitedEvent]
    ) async throws -> [StoredEvent] {
        let own = customer.lines.filter { $0.joinedApp == joinedApp }.reduce(into: Set<Int64>()) {
            $0.formUnion($1.positions)
        }
        let evidence = Set(cited.filter { $0.joinedApp == joinedApp }.map(\.position))
        let events = try await reader.events(Array(own), and: evidence, in: stream)
        for event in events where evidence.contains(event.position) {
            statements[Explanation.EventID(joinedApp: joinedApp, position: event.position)] = Explanation.CitedEvent(
                position: event.position, source: event.source, type: event.type, subtype: event.subtype,
                receivedAt: event.receivedAt)
        }
        return events.filter { own.contains($0.position) }
    }

    /// The stream of the joined app in which the customer has a part; nil if there is none.
    private func joined(
        _ customer: ExplainedCustomer, knownAt: Instant?, _ cited: Set<Explanation.EventID>,
        _ statements: inout [Explanation.EventID: Explanation.CitedEvent], _ visit: ConsoleRequest
    ) async throws -> CustomerPage.Joined? {
        guard let app = customer.identity.joinedApp,
            let stream = visit.streams.first(where: { $0.app == app && $0.environment == visit.stream?.environment })
        else { return nil }
        var knownHead: Int64?
        if let knownAt { knownHead = try await reader.head(at: knownAt, in: stream) }
        return CustomerPage.Joined(
            stream: stream,
            events: try await events(of: customer, joinedApp: app, in: stream, cited, &statements),
            knownHead: knownHead)
    }

    private static func event(of move: ExplainedCustomers.LinkMove) -> Explanation.EventID {
        Explanation.EventID(joinedApp: move.joinedApp, position: move.position)
    }

    /// The explanations that a page has room for.
    private func explanations(
        of names: [String], _ customer: ExplainedCustomer?
    ) async throws -> [Explanation] {
        guard let customer else { return [] }
        return try await customers.explanations(of: names.prefix(Limits.consoleExplanations), customer)
    }

    /// The names of entitlements in the order in which a page shows them: the one that was asked for, active ones, those
    /// that ended last, and those that were never granted.
    private static func ordered(
        _ names: [String], _ granted: [Entitlement], at: Instant, first: String?
    ) -> [String] {
        let byName = Dictionary(granted.map { ($0.entitlement, $0) }) { first, _ in first }
        func rank(_ name: String) -> (Int, Int64) {
            if name == first { return (0, 0) }
            guard let entitlement = byName[name] else { return (3, 0) }
            return entitlement.isActive(at: at) ? (1, 0) : (2, -entitlement.until.milliseconds)
        }
        let asked = first.map { names.contains($0) ? [] : [$0] } ?? []
        return (asked + names).enumerated().map { (rank($0.element), $0.offset, $0.element) }.sorted {
            $0.0 != $1.0 ? $0.0 < $1.0 : $0.1 < $1.1
        }.map(\.2)
    }

    static func found<Value>(_ answer: CustomerReader.Answer<Value>) -> Value? {
        if case .found(let value) = answer { value } else { nil }
    }

    /// The customer that the id identified at the instant, or identifies now if it did not exist then.
    private func customer(
        _ known: CustomerReader.ExplainedID, _ reference: CustomerReader.Reference, at: Instant,
        _ visit: ConsoleRequest
    ) async throws -> ExplainedCustomer {
        for instant in Set([at, visit.now]).sorted(by: { $0 == at && $1 != at }) {
            switch known.customerToday(at: instant) {
            case .found(let customer): return customer
            case .severalKinds(let kinds):
                throw ConsoleProblem(
                    .conflict, "Several customers have this id", "It is of several kinds. Which one do you mean?",
                    choices: kinds.map { ($0.words, visit.frame.customer(reference.id, kind: $0.rawValue)) })
            case .severalApps, .unknown: continue
            }
        }
        let hits = try await reader.search(reference.id)
        throw ConsoleProblem(
            .notFound, "No customer with this id",
            hits.isEmpty
                ? "No app has such a customer, in production or sandbox. One is known once an event names it."
                : "Not in \(visit.stream?.text ?? "this stream"). The id is known as:",
            choices: hits.map { ("\($0.kind) in \($0.app), \($0.environment)", $0.address) })
    }

    func subscription(_ visit: ConsoleRequest, id: String) async throws -> Outcome {
        let stream = try visit.someStream()
        guard let environment = Environment(rawValue: stream.environment) else {
            throw ConsoleProblem(.notFound, "No such stream", "The environment is of a newer release.")
        }
        let key = StreamKey(app: stream.app, environment: environment)
        guard let stored = try await subscriptions.subscriptions([id], in: key).first else {
            let hits = try await reader.search(id)
            throw ConsoleProblem(
                .notFound, "No subscription with this id",
                hits.isEmpty
                    ? "No app has such a subscription, in production or sandbox."
                    : "Not in \(stream.text). The id is known as:",
                choices: hits.map { ("\($0.kind) in \($0.app), \($0.environment)", $0.address) })
        }
        if let line = stored.facts.line {
            return .seeOther(visit.frame.subscription(line.originalTransactionId))
        }
        let (at, knownAt) = try Self.clocks(visit)
        let reference = CustomerReader.Reference(
            app: stream.app, environment: environment, id: id, kind: .subscription)
        async let found = subscriptions.subscriptions(
            originalTransactionId: id, environment: environment, app: stream.app)
        async let answer = customers.explained(reference, knownAt: knownAt)
        let explained = Self.explained(try await answer, at: at)
        let moves = explained?.linkMoves(of: id) ?? []
        async let read = reader.events(
            Array(stored.facts.positions), and: Set(moves.map(\.position)), in: stream)
        let explanations = try await explanations(of: explained?.entitlements(by: id) ?? [], explained)
        let events = try await read
        var page =
            SubscriptionPage(
                app: stream.app, subscription: stored.subscription, known: try await known(stored, key, knownAt),
                checks: try await found.first?.checks, writes: try await found.first?.writes ?? [],
                stores: acts.stores?.stores(of: key.app) ?? [], customer: explained?.customer,
                explanations: explanations,
                events: events.filter { stored.facts.positions.contains($0.position) },
                names: try await reader.productNames(of: [stream.app]), at: at, knownAt: knownAt,
                span: try Self.span(visit), address: visit.address)
        page.followsAct = try visit.query.text("done") == "asked"
        page.owners = explained?.owners(of: id) ?? []
        page.moves = moves.compactMap { move -> (move: ExplainedCustomers.LinkMove, at: Instant)? in
            guard let event = events.first(where: { $0.position == move.position }) else { return nil }
            return (move, event.receivedAt)
        }
        return .page(page)
    }

    /// The subscription by what was known at an instant, without any fact if nothing was; as it is if the instant is nil.
    private func known(
        _ stored: SubscriptionReader.Stored, _ stream: StreamKey, _ knownAt: Instant?
    ) async throws -> SubscriptionReader.Known {
        guard let knownAt else {
            return SubscriptionReader.Known(facts: stored.facts, subscription: stored.subscription)
        }
        let id = stored.facts.originalTransactionId
        if let known = try await customers.subscription(id, in: stream, knownAt: knownAt) { return known }
        let nothing = SubscriptionFacts(originalTransactionId: id)
        return SubscriptionReader.Known(facts: nothing, subscription: Subscription(nothing))
    }

    /// The span of the pictures, widened so that marks at its ends are seen.
    private static func span(_ visit: ConsoleRequest) throws -> TimelineSpan {
        guard let from = try visit.query.instant("from"), let to = try visit.query.instant("to"), from <= to else {
            return try visit.query.text("span") == "all" ? .all : .latest
        }
        let margin = max((to.milliseconds - from.milliseconds) / 20, 60_000)
        return .closer(from.advanced(byMilliseconds: -margin)..<to.advanced(byMilliseconds: margin))
    }
}

extension String {
    var trimmed: String? {
        var text = Substring(self)
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return text.isEmpty ? nil : String(text)
    }
}
