import Console
import Encoding
import EventLog
import Hummingbird
import Logging
import Outbound
import Readers
import Subscriptions

/// The console for people, below `/console`: every page is read with a session, and nothing changes with GET.
package struct ConsoleRoutes: RouteSet {
    let gate: ConsoleGate
    let reader: ConsoleReader
    let log: LogReader
    let customers: CustomerReader
    let subscriptions: SubscriptionReader
    let products: ProductStore
    let figures: FigureReader
    let endpoints: EndpointAdmin
    let refunds: ConsumptionLog
    let acts: ConsoleActs
    let metrics: MetricsRegistry
    let health: [HealthCheck]
    let comparisons = OpenRequests(max: Limits.consoleComparisonsMax)
    let now: @Sendable () -> Instant
    let logger: Logger

    /// - Parameters:
    ///   - tokens: The active tokens.
    ///   - refunds: With the rights of `subledger_reader`.
    ///   - acts: What people can do for customers.
    ///   - loginPause: Before the answer to a failed login.
    package init(
        tokens: TokenCache, sessions: ConsoleSessions, transport: ConsoleTransport, reader: ConsoleReader,
        log: LogReader, customers: CustomerReader, subscriptions: SubscriptionReader, products: ProductStore,
        figures: FigureReader, endpoints: EndpointAdmin, refunds: ConsumptionLog,
        acts: ConsoleActs = ConsoleActs(), metrics: MetricsRegistry,
        health: [HealthCheck],
        loginPause: Duration = Limits.consoleLoginPause, now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        gate = ConsoleGate(tokens: tokens, sessions: sessions, transport: transport, pause: loginPause)
        self.reader = reader
        self.log = log
        self.customers = customers
        self.subscriptions = subscriptions
        self.products = products
        self.figures = figures
        self.endpoints = endpoints
        self.refunds = refunds
        self.acts = acts
        self.metrics = metrics
        self.health = health
        self.now = now
        self.logger = logger
    }

    package func add(to routes: PrivateRoutes) {
        let console = routes.console
        console.get("/console/console.css") { _, _ in ConsoleResponse.asset(Assets.css, type: "text/css") }
        console.get("/console/console.js") { _, _ in ConsoleResponse.asset(Assets.script, type: "text/javascript") }
        console.get("/console/login") { request, _ in gate.loginPage(request) }
        console.post("/console/login") { request, _ in
            await answering { try await gate.login(request) }
        }
        console.post("/console/logout") { request, _ in
            await posting(request) { session in try await gate.logout(request, in: session) }
        }
        console.post("/console/preferences") { request, _ in
            await posting(request) { session in try await setPreferences(request, session) }
        }
        get("/console", routes) { _ in
            Address()
        } page: { visit, _ in
            try await overview(visit)
        }
        get("/console/search", routes, keeping: ["q"]) { _ in
            Address("search")
        } page: { visit, _ in
            try await search(visit)
        }
        console.post("/console/search") { request, _ in
            await posting(request) { session in try await findOrder(request, session) }
        }
        get(
            "/console/customers/:id", routes, keeping: ["as", "at", "knownAt", "from", "to", "span", "entitlement"],
            once: ["done", "grant", "found", "purchase"]
        ) {
            Address("customers", try Self.id("id", $0))
        } page: { visit, context in
            try await customer(visit, id: try Self.id("id", context))
        }
        console.post("/console/customers/:id/grants") { request, context in
            await posting(request) { session in
                try await changeGrants(request, session, id: try Self.id("id", context))
            }
        }
        get(
            "/console/subscriptions/:id", routes, keeping: ["at", "knownAt", "from", "to", "span"], once: ["done"]
        ) {
            Address("subscriptions", try Self.id("id", $0))
        } page: { visit, context in
            try await subscription(visit, id: try Self.id("id", context))
        }
        console.post("/console/subscriptions/:id") { request, context in
            await posting(request) { session in
                try await askStore(request, session, id: try Self.id("id", context))
            }
        }
        get(
            "/console/events", routes, keeping: ["type", "kind", "source", "receivedFrom", "receivedUntil", "after"]
        ) { _ in
            Address("events")
        } page: { visit, _ in
            try await events(visit)
        }
        get("/console/events/:position", routes) {
            Address("events", try Self.id("position", $0))
        } page: {
            visit, context in
            try await event(visit, position: try Self.id("position", context))
        }
        get(
            "/console/figures/:name", routes, keeping: ["from", "to", "rows", "currency", "into", "by", "part"]
        ) {
            Address("figures", try Self.id("name", $0))
        } page: { visit, context in
            try await figure(visit, name: try Self.id("name", context))
        }
        get("/console/reports", routes, keeping: ["month"]) { _ in
            Address("reports")
        } page: { visit, _ in
            try await reports(visit)
        }
        get("/console/products", routes, keeping: ["edit"], once: ["done"]) { _ in
            Address("products")
        } page: { visit, _ in
            try await productList(visit)
        }
        console.post("/console/products") { request, _ in
            await posting(request) { session in try await setProduct(request, session) }
        }
        get("/console/refunds", routes) { _ in
            Address("refunds")
        } page: { visit, _ in
            try await refundRequests(visit)
        }
        get("/console/refunds/:id", routes, keeping: ["store"], once: ["done"]) {
            Address("refunds", try Self.id("id", $0))
        } page: { visit, context in
            try await refundRequest(visit, id: try Self.id("id", context))
        }
        console.post("/console/refunds/:id") { request, context in
            await posting(request) { session in
                try await answerRefund(request, session, id: try Self.id("id", context))
            }
        }
        get("/console/deliveries", routes) { _ in
            Address("deliveries")
        } page: { visit, _ in
            try await deliveries(visit)
        }
        get("/console/deliveries/:id", routes, keeping: ["done", "messages"]) {
            Address("deliveries", try Self.id("id", $0))
        } page: { visit, context in
            try await delivery(visit, id: try Self.id("id", context))
        }
        console.post("/console/deliveries") { request, _ in
            await posting(request) { session in try await addEndpoint(request, session) }
        }
        console.post("/console/deliveries/:id") { request, context in
            await posting(request) { session in
                try await changeEndpoint(request, session, id: try Self.id("id", context))
            }
        }
        get("/console/system", routes) { _ in
            Address("system")
        } page: { visit, _ in
            try await system(visit)
        }
        get("/console/compare", routes) { _ in
            Address("compare")
        } page: { visit, _ in
            .page(comparison(nil, problem: nil, visit))
        }
        console.post("/console/compare") { request, _ in
            await posting(request) { session in try await compare(request, session) }
        }
        get("/console/**", routes) { _ in
            Address()
        } page: { visit, _ in
            throw ConsoleProblem(
                .notFound, "No such page", "The console has no page at this address.",
                choices: [("Overview", visit.frame.here(Address()))])
        }
    }

    // MARK: - Requests

    /// A page, or an address to which the browser is sent.
    enum Outcome {
        case page(any ConsolePage)
        case seeOther(Address)
    }

    /// Adds a page that is read with a session.
    ///
    /// - Parameters:
    ///   - names: The parameters that belong to the page's address, besides the stream.
    ///   - once: Those that say what led to the page, and are in none of its links.
    private func get(
        _ path: RouterPath, _ routes: PrivateRoutes, keeping names: [String] = [], once: [String] = [],
        address: @escaping @Sendable (BasicRequestContext) throws -> Address,
        page: @escaping @Sendable (ConsoleRequest, BasicRequestContext) async throws -> Outcome
    ) {
        routes.console.get(path) { request, context in
            await answering {
                guard let session = try await gate.session(of: request) else { return Self.login(for: request) }
                return try await show(request, context, session, (names, once), address) { visit in
                    try await page(visit, context)
                }
            }
        }
    }

    private func show(
        _ request: Request, _ context: BasicRequestContext, _ session: ConsoleSession,
        _ names: (kept: [String], once: [String]), _ address: (BasicRequestContext) throws -> Address,
        _ page: (ConsoleRequest) async throws -> Outcome
    ) async throws -> Response {
        let base = try address(context)
        let query = ConsoleQuery(request)
        let visit = try await visit(
            query, session, address: query.address(base, keeping: ["stream", "skip"] + names.kept),
            preferences: ConsolePreferences(ConsoleGate.cookie(ConsolePreferences.cookie, of: request)))
        do {
            let outcome = try await page(visit)
            try query.refuseOthers(than: names.kept + ["stream", "skip", "csv"] + names.once)
            switch outcome {
            case .seeOther(let address): return ConsoleResponse.seeOther(address.text)
            case .page(let page):
                if let name = try query.text("csv"), let table = page.tables.first(where: { $0.name == name }) {
                    return ConsoleResponse.csv(table.csv, name: table.name)
                }
                return ConsoleResponse.html(.ok, visit.frame.html(page))
            }
        } catch {
            var problem = problem(error)
            if problem.status == .badRequest, problem.choices.isEmpty {
                let page = query.address(base, keeping: ["as", "store"]).with("stream", visit.stream?.text)
                problem.choices = [("The page as it is now", page)]
            }
            return Self.response(problem, in: visit.frame)
        }
    }

    static func response(_ problem: ConsoleProblem, in frame: PageFrame) -> Response {
        let page = ProblemPage(problem.title, problem.detail, choices: problem.choices)
        return ConsoleResponse.html(problem.status, frame.html(page))
    }

    /// What every page of a session needs.
    func visit(
        _ query: ConsoleQuery, _ session: ConsoleSession, address: Address, preferences: ConsolePreferences
    ) async throws -> ConsoleRequest {
        let streams = try await reader.streams()
        var chosen = streams.first { $0.environment == "production" } ?? streams.first
        if let text = try query.text("stream") {
            guard let named = streams.first(where: { $0.text == text }) else {
                throw ConsoleProblem(
                    .notFound, "No such stream", "No event of this app has arrived in this environment.",
                    choices: streams.map { ($0.text, Address().with("stream", $0.text)) })
            }
            chosen = named
        }
        return ConsoleRequest(
            session: session, query: query, streams: streams, stream: chosen, now: now(),
            address: address.with("stream", chosen?.text), preferences: preferences, hasActs: acts.isOn)
    }

    /// Turns errors into pages without a session's frame.
    private func answering(_ answer: () async throws -> Response) async -> Response {
        do {
            return try await answer()
        } catch {
            let problem = problem(error)
            return ConsoleResponse.html(problem.status, BarePage.problem(problem.title, problem.detail))
        }
    }

    private func posting(
        _ request: Request, _ answer: (ConsoleSession) async throws -> Response
    ) async -> Response {
        await answering {
            guard let session = try await gate.session(of: request) else {
                return ConsoleResponse.seeOther("/console/login")
            }
            return try await answer(session)
        }
    }

    /// Answers a form that changes something.
    ///
    /// - Parameters:
    ///   - what: What it changes, in the plural.
    ///   - scope: What the session's token must include.
    func changing(
        _ what: String, _ request: Request, _ session: ConsoleSession, needing scope: TokenScope = .admin,
        at address: Address,
        _ change: (ConsoleQuery, ConsoleRequest) async throws -> Response
    ) async throws -> Response {
        try await answering(request, session, at: address) { form, visit in
            guard session.scope.includes(scope) else {
                throw ConsoleProblem(
                    .forbidden, "Not changed", "Changing \(what) needs a token of scope \(scope.rawValue).")
            }
            return try await change(form, visit)
        }
    }

    /// Answers a form of a session.
    func answering(
        _ request: Request, _ session: ConsoleSession, bytesMax: Int = Limits.consoleFormBytesMax,
        at address: Address, _ answer: (ConsoleQuery, ConsoleRequest) async throws -> Response
    ) async throws -> Response {
        let form = try await gate.form(of: request, in: session, bytesMax: bytesMax)
        let visit = try await visit(
            form, session, address: address,
            preferences: ConsolePreferences(ConsoleGate.cookie(ConsolePreferences.cookie, of: request)))
        do {
            return try await answer(form, visit)
        } catch {
            var problem = problem(error)
            if problem.choices.isEmpty { problem.choices = [("Back to the page of the form", visit.address)] }
            return Self.response(problem, in: visit.frame)
        }
    }

    private static func login(for request: Request) -> Response {
        let back = ConsoleGate.safe(request.uri.string)
        return ConsoleResponse.seeOther(Address("login").with("back", back).text)
    }

    static func id(_ name: String, _ context: BasicRequestContext) throws -> String {
        try PathParameter.text(name, context)
    }

    private func setPreferences(_ request: Request, _ session: ConsoleSession) async throws -> Response {
        let form = try await gate.form(of: request, in: session)
        var preferences = ConsolePreferences(ConsoleGate.cookie(ConsolePreferences.cookie, of: request))
        if let theme = try form.text("theme").flatMap(PageFrame.Theme.init(rawValue:)) { preferences.theme = theme }
        if let keys = try form.text("keys") { preferences.hasKeys = keys != "off" }
        let cookie =
            "\(ConsolePreferences.cookie)=\(preferences.text); HttpOnly; SameSite=Strict; Path=/console; Max-Age=31536000"
        return ConsoleResponse.seeOther(
            try form.text("back").flatMap(ConsoleGate.safe) ?? "/console", cookies: [cookie])
    }
}
