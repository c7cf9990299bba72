import EventLog

/// Finds the purchases of an order by its number: in the ledger, or else by asking the store of each app.
///
/// Purchases of the App Store do not name their order, so the ledger only has orders of Google Play.
package struct OrderSearch: Sendable {
    private let reader: ConsoleReader
    /// The apps whose store can be asked.
    private let apps: [String]
    private let willAsk: @Sendable (Int) throws -> Void
    private let ask: @Sendable (OrderNumber, String) async throws -> OrderOutcome

    package struct Purchase: Sendable, Hashable {
        package let app: String
        package let environment: String
        package let originalTransactionId: String
        /// Of the event with the store's answer; nil if it was no news, or if nobody was asked.
        package let position: Int64?
        /// Its transactions in the order, if the store was asked and names them.
        package let transactionIds: [String]
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
    ///   - willAsk: Called once before the store is asked, with the number of questions. What it throws ends the search.
    ///   - ask: Asks the store of one of them.
    package init(
        reader: ConsoleReader, apps: [String], willAsk: @escaping @Sendable (Int) throws -> Void = { _ in },
        ask: @escaping @Sendable (OrderNumber, String) async throws -> OrderOutcome
    ) {
        self.reader = reader
        self.apps = apps
        self.willAsk = willAsk
        self.ask = ask
    }

    /// - Parameter app: Only this app; nil for each.
    package func purchases(of number: OrderNumber, app: String?) async throws -> Answer {
        func isAsked(_ name: String) -> Bool { app == nil || app == name }
        if number.store == .google {
            let known = try await reader.search(number.text).compactMap { hit -> Purchase? in
                guard case .customer(let id, _) = hit.target, isAsked(hit.app) else { return nil }
                return Purchase(
                    app: hit.app, environment: hit.environment, originalTransactionId: id, position: nil,
                    transactionIds: [])
            }
            if !known.isEmpty { return .found(known, stored: []) }
        }
        let asked = apps.filter(isAsked)
        guard !asked.isEmpty else { return .noApp }
        try willAsk(asked.count)
        var found: [Purchase] = []
        var stored: [HandInAnswer] = []
        var others: [(app: String, outcome: OrderOutcome)] = []
        for app in asked {
            let outcome = try await ask(number, app)
            guard case .found(let answer) = outcome else {
                others.append((app, outcome))
                continue
            }
            stored.append(answer)
            found += answer.subscriptions.map { id in
                Purchase(
                    app: app, environment: answer.stream.environment.rawValue, originalTransactionId: id,
                    position: answer.position, transactionIds: answer.transactionIds[id] ?? [])
            }
        }
        return stored.isEmpty ? .notFound(others) : .found(found, stored: stored)
    }
}
