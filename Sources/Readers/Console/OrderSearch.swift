import EventLog

/// Finds the purchases of an order by its number: in the ledger, or else by asking the store of each app.
///
/// Purchases of the App Store do not name their order, so the ledger only has orders of Google Play.
package struct OrderSearch: Sendable {
    private let reader: ConsoleReader
    /// The apps whose store can be asked.
    private let apps: [String]
    private let ask: @Sendable (OrderNumber, String) async throws -> OrderOutcome

    package struct Purchase: Sendable, Hashable {
        package let app: String
        package let environment: String
        package let originalTransactionId: String
        /// Of the event with the store's answer; nil if it was no news, or if nobody was asked.
        package let position: Int64?
    }

    package enum Answer: Sendable {
        /// - Parameter stored: What the stores answered; none if the ledger had the order.
        case found([Purchase], stored: [HandInAnswer])
        /// What the store of each app says, in the order of the apps.
        case notFound([(app: String, outcome: OrderOutcome)])
        /// No store can be asked.
        case noApp
    }

    /// - Parameters:
    ///   - apps: Those whose store can be asked.
    ///   - ask: Asks the store of one of them.
    package init(
        reader: ConsoleReader, apps: [String],
        ask: @escaping @Sendable (OrderNumber, String) async throws -> OrderOutcome
    ) {
        self.reader = reader
        self.apps = apps
        self.ask = ask
    }

    /// - Parameter app: Only this app; nil for each.
    package func purchases(of number: OrderNumber, app: String?) async throws -> Answer {
        func isAsked(_ name: String) -> Bool { app == nil || app == name }
        if number.store == .google {
            let known = try await reader.search(number.text).compactMap { hit -> Purchase? in
                guard case .customer(let id, _) = hit.target, isAsked(hit.app) else { return nil }
                return Purchase(app: hit.app, environment: hit.environment, originalTransactionId: id, position: nil)
            }
            if !known.isEmpty { return .found(known, stored: []) }
        }
        var found: [Purchase] = []
        var stored: [HandInAnswer] = []
        var others: [(app: String, outcome: OrderOutcome)] = []
        for app in apps where isAsked(app) {
            let outcome = try await ask(number, app)
            guard case .found(let answer) = outcome else {
                others.append((app, outcome))
                continue
            }
            stored.append(answer)
            found += answer.subscriptions.map { id in
                Purchase(
                    app: app, environment: answer.stream.environment.rawValue, originalTransactionId: id,
                    position: answer.position)
            }
        }
        if !stored.isEmpty { return .found(found, stored: stored) }
        return others.isEmpty ? .noApp : .notFound(others)
    }
}
