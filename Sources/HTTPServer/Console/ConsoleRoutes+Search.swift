import Console
import Encoding
import EventLog
import Hummingbird
import Readers
import Subscriptions

extension ConsoleRoutes {
    func search(_ visit: ConsoleRequest) async throws -> Outcome {
        guard let text = try visit.query.text("q")?.trimmed else { return .seeOther(Address()) }
        guard text.utf8.count <= 256 else {
            throw ConsoleProblem(.badRequest, "Not searched", "No id is longer than 256 bytes.")
        }
        var (sought, number) = Self.sought(text)
        var hits = try await reader.search(sought)
        // People write a number with a sign before it, and a backend's id may begin with one.
        if hits.isEmpty, text.hasPrefix("#"), let rest = String(text.dropFirst()).trimmed {
            (sought, number) = Self.sought(rest)
            hits = try await reader.search(sought)
        }
        if hits.count == 1 { return .seeOther(hits[0].page(found: sought)) }
        // One hit in the chosen stream is not taken for the only one: the others may be the customer's.
        return .page(
            SearchPage(
                text: sought, hits: hits, details: try await details(of: hits, visit), streams: visit.streams.count,
                order: number.map { number in
                    SearchPage.Order(
                        number: number,
                        isAskable: visit.frame.mayAct && !(acts.orders?.apps(for: number).isEmpty ?? true))
                }, address: visit.address))
    }

    /// The id that a text is searched as, and the order that it names; nil if it names none.
    private static func sought(_ text: String) -> (id: String, number: OrderNumber?) {
        let number = OrderNumber(text)
        return (number.map { $0.store == .google ? $0.text : text } ?? text, number)
    }

    /// What distinguishes the first hits of a search from each other.
    private func details(
        of hits: [SearchHit], _ visit: ConsoleRequest
    ) async throws -> [SearchHit: SearchPage.Detail] {
        var details: [SearchHit: SearchPage.Detail] = [:]
        for hit in hits.prefix(Limits.consoleExplanations) {
            switch hit.target {
            case .customer(let id, let kind):
                guard let environment = Environment(rawValue: hit.environment) else { continue }
                let reference = CustomerReader.Reference(
                    app: hit.app, environment: environment, id: id, kind: CustomerKey.Kind(rawValue: kind))
                if let customer = Self.found(try await customers.customer(reference, at: visit.now)) {
                    details[hit] = SearchPage.Detail(of: customer.subscriptions, at: visit.now)
                }
            case .event(let position):
                let stream = visit.streams.first { $0.app == hit.app && $0.environment == hit.environment }
                if let stream, let event = try await reader.events([position], in: stream).first {
                    details[hit] = SearchPage.Detail(of: event)
                }
            case .product: continue
            }
        }
        return details
    }

    // MARK: - Orders

    /// Asks the stores for the purchases of an order that a customer names, and shows the customer.
    func findOrder(_ request: Request, _ session: ConsoleSession) async throws -> Response {
        try await acting("what is known of orders", request, session, at: Address("search")) { form, visit in
            guard let orders = acts.orders else {
                throw ConsoleProblem(
                    .notImplemented, "Not possible here", "This server cannot append to the log, see its log.")
            }
            guard let number = try form.text("q").flatMap({ OrderNumber($0) }) else {
                throw ConsoleProblem(.badRequest, "Not asked", "This is not an order number of a store.")
            }
            switch try await orders.purchases(of: number, app: nil) {
            case .found(let purchases, let stored):
                return try await show(purchases, stored, of: number, visit)
            case .noApp:
                throw ConsoleProblem(
                    .conflict, "Not asked", "This server has no key with which \(number.store.shop) can be asked.")
            case .notFound(let outcomes):
                let problems = outcomes.compactMap { $0.outcome.problem(number, of: $0.app) }
                throw ConsoleProblem(
                    outcomes.allSatisfy(\.outcome.isFinal) ? .notFound : .serviceUnavailable, "Order \(number.text)",
                    problems.map(\.asSentence).joined(separator: " "),
                    choices: [("Search for the number again", Address("search").with("q", number.text))])
            }
        }
    }

    private func show(
        _ purchases: [OrderSearch.Purchase], _ stored: [HandInAnswer], of number: OrderNumber, _ visit: ConsoleRequest
    ) async throws -> Response {
        let hits = purchases.map { purchase in
            SearchHit(
                kind: "purchase", app: purchase.app, environment: purchase.environment,
                target: .customer(
                    id: purchase.originalTransactionId, kind: CustomerKey.Kind.subscription.rawValue))
        }
        var isProjected = true
        for answer in stored where isProjected {
            isProjected = try await log.isProjected(answer, wait: Limits.projectionWaitMax)
        }
        guard isProjected else {
            let choices = zip(purchases, hits).map { purchase, hit in
                (text: "Purchase \(purchase.originalTransactionId)", address: hit.page(found: number.text))
            }
            return Self.response(
                ConsoleProblem(
                    .ok, "Order \(number.text)", "The answer is stored, and readable in a moment.", choices: choices),
                in: visit.frame)
        }
        if hits.count == 1, purchases[0].transactionIds.count <= 1 {
            let page = hits[0].page(found: number.text).with("purchase", purchases[0].transactionIds.first)
            return ConsoleResponse.seeOther(page.text)
        }
        var known: [OrderPage.Purchase] = []
        for (purchase, hit) in zip(purchases, hits) {
            known.append(
                OrderPage.Purchase(
                    hit: hit, subscription: try await subscription(of: purchase),
                    transactionIds: purchase.transactionIds, names: try await reader.productNames(of: [purchase.app])))
        }
        return ConsoleResponse.html(
            .ok,
            visit.frame.html(OrderPage(number: number, purchases: known, at: visit.now, address: Address("search"))))
    }

    private func subscription(of purchase: OrderSearch.Purchase) async throws -> Subscription? {
        guard let environment = Environment(rawValue: purchase.environment) else { return nil }
        let stream = StreamKey(app: purchase.app, environment: environment)
        let found = try await subscriptions.subscriptions([purchase.originalTransactionId], in: stream)
        return try await subscriptions.leading(found, in: stream).first?.subscription
    }
}
