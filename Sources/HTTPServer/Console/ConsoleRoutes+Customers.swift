import Console
import Encoding
import EventLog
import Readers
import Subscriptions

extension ConsoleRoutes {
    func search(_ visit: ConsoleRequest) async throws -> Outcome {
        guard let text = try visit.query.text("q")?.trimmed else { return .seeOther(Address()) }
        guard text.utf8.count <= 256 else {
            throw ConsoleProblem(.badRequest, "Not searched", "No id is longer than 256 bytes.")
        }
        let hits = try await reader.search(text)
        if hits.count == 1 { return .seeOther(hits[0].address) }
        // One hit in the chosen stream is not taken for the only one: the others may be the customer's.
        return .page(SearchPage(text: text, hits: hits, streams: visit.streams.count, address: visit.address))
    }

    func customer(_ visit: ConsoleRequest, id: String) async throws -> Outcome {
        let stream = try visit.someStream()
        guard let environment = Environment(rawValue: stream.environment) else {
            throw ConsoleProblem(.notFound, "No such stream", "The environment is of a newer release.")
        }
        let kind = try visit.query.text("as").flatMap(CustomerKey.Kind.init(rawValue:))
        let at = try visit.query.instant("at") ?? visit.now
        let knownAt = try visit.query.instant("knownAt")
        let reference = CustomerReader.Reference(app: stream.app, environment: environment, id: id, kind: kind)
        let record = try await record(reference, at: at, visit)
        let history = try await customers.history(reference, at: at, through: at, limit: Limits.consoleRows)
        var entitlements = record.entitlements
        var known: [Subscription]?
        if let knownAt {
            let question = CustomerReader.Question(reference, at: at)
            if case .found(let past) = try await customers.entitlements(question, knownAt: knownAt) {
                entitlements = past.entitlements
            } else {
                entitlements = []
            }
            if case .found(let past) = try await customers.customer(question, knownAt: knownAt) {
                known = past.subscriptions
            } else {
                known = []
            }
        }
        let positions = record.subscriptions.flatMap(\.positions)
        let events = try await reader.events(Array(Set(positions)), in: stream)
        return .page(
            CustomerPage(
                id: id, record: record, history: Self.found(history), entitlements: entitlements, at: at,
                knownAt: knownAt, known: known, events: events, span: try Self.span(visit), address: visit.address))
    }

    private static func found<Value>(_ answer: CustomerReader.Answer<Value>) -> Value? {
        if case .found(let value) = answer { value } else { nil }
    }

    /// The customer that the id identified at the instant, or identifies now if it did not exist then.
    private func record(
        _ reference: CustomerReader.Reference, at: Instant, _ visit: ConsoleRequest
    ) async throws -> CustomerReader.Record {
        for instant in Set([at, visit.now]).sorted(by: { $0 == at && $1 != at }) {
            switch try await customers.record(reference, at: instant) {
            case .found(let record): return record
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
                ? "No id in \(visit.streams.count) streams. A customer is known once an event names it."
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
                    ? "No id in \(visit.streams.count) streams." : "Not in \(stream.text). The id is known as:",
                choices: hits.map { ("\($0.kind) in \($0.app), \($0.environment)", $0.address) })
        }
        let found = try await subscriptions.subscriptions(
            originalTransactionId: id, environment: environment, app: stream.app)
        let events = try await reader.events(Array(stored.facts.positions), in: stream)
        return .page(
            SubscriptionPage(
                app: stream.app, subscription: stored.subscription, facts: stored.facts, checks: found.first?.checks,
                events: events, at: try visit.query.instant("at") ?? visit.now, span: try Self.span(visit),
                address: visit.address))
    }

    /// The span of the pictures, widened so that marks at its ends are seen; nil for all time.
    private static func span(_ visit: ConsoleRequest) throws -> Range<Instant>? {
        guard let from = try visit.query.instant("from"), let to = try visit.query.instant("to"), from <= to else {
            return nil
        }
        let margin = max((to.milliseconds - from.milliseconds) / 20, 60_000)
        return from.advanced(byMilliseconds: -margin)..<to.advanced(byMilliseconds: margin)
    }
}

extension CustomerKey.Kind {
    fileprivate var words: String {
        switch self {
        case .link: "your backend's customer"
        case .account: "account token"
        case .appTransaction: "app transaction"
        case .subscription: "subscription"
        }
    }
}

extension String {
    fileprivate var trimmed: String? {
        var text = Substring(self)
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return text.isEmpty ? nil : String(text)
    }
}
