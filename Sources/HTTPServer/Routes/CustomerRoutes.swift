import Encoding
import EventLog
import Hummingbird
import Logging
import Readers
import Subscriptions

/// `/customers/{customerId}`, with `/entitlements`, `/explanation`, `/history`, `/content` and `/links` below it.
/// `POST /customers/entitlements` returns the entitlements of many customers.
struct CustomerRoutes: Sendable {
    let customers: CustomerReader
    let log: LogReader
    let links: LinkService?
    /// Signs answers; nil to refuse requests for signed ones.
    let key: HeadKey?
    let now: @Sendable () -> Instant
    let logger: Logger
    private let bodies = BodyReader()

    init(
        customers: CustomerReader, log: LogReader, links: LinkService?, key: HeadKey?,
        now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.customers = customers
        self.log = log
        self.links = links
        self.key = key
        self.now = now
        self.logger = logger
    }

    func add(to routes: PrivateRoutes) {
        routes.read.get("/customers/:customerId") { request, context in try await customer(request, context) }
        addOwn(to: routes.apps.read)
        routes.read.get("/customers/:customerId/explanation") { request, context in
            try await explanation(request, context)
        }
        routes.read.get("/customers/:customerId/history") { request, context in try await history(request, context) }
        routes.read.post("/customers/entitlements") { request, _ in try await manyEntitlements(request) }
        routes.read.post("/customers/:customerId/content") { request, context in try await content(request, context) }
        routes.link.put("/customers/:customerId/links") { request, context in
            try await stateLinks(request, context, isComplete: true)
        }
        routes.link.post("/customers/:customerId/links") { request, context in
            try await stateLinks(request, context, isComplete: false)
        }
    }

    /// Adds the route that is for apps, too.
    func addOwn(to routes: PrivateRoutes.Group) {
        routes.get("/customers/:customerId/entitlements") { request, context in
            try await entitlements(request, context)
        }
    }

    // MARK: - Routes

    private func customer(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let query = RequestQuery(request)
        let reference = try Self.reference(request, context)
        let limit = try query.number(
            "limit", in: 1...Int64(Limits.customerIdsMax), default: Int64(Limits.customerIdsDefault))
        let answer = try await customers.ids(
            reference, at: now(), after: try Self.after(query), limit: Int(limit))
        let page = try Self.only(answer, reference.environment)
        return JSONResponse.json(.ok) { writer in
            reference.write(page.identity, to: &writer)
            page.keys.write(to: &writer)
            if page.identity.joinedApp != nil {
                writer.key("joinedSubscriptions")
                writer.array(page.keys.filter { $0.kind == .subscription && page.joinedKeys.contains($0) }) {
                    $0.value($1.id.text)
                }
            }
            if page.hasMore {
                writer.member("cursor", page.keys.last.map { KeyCursor($0).text })
                writer.member("more", true)
            }
        }
    }

    private func history(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let query = RequestQuery(request)
        let reference = try Self.reference(request, context)
        let until = try query.instant("until") ?? now()
        let limit = try query.number(
            "limit", in: 1...Int64(Limits.historyMax), default: Int64(Limits.historyDefault))
        let answer = try await customers.history(reference, at: now(), through: until, limit: Int(limit))
        let only = try Self.only(answer, reference.environment)
        return JSONResponse.json(.ok) { writer in
            reference.write(only.identity, to: &writer)
            writer.member("until", until)
            writer.key("history")
            writer.array(only.entries) { $1.write(to: &$0) }
            writer.member("more", only.hasMore ? true : nil)
        }
    }

    private func manyEntitlements(_ request: Request) async throws -> Response {
        try await bodies.withJSON(of: request) { json in
            guard let app = json["app"]?.string, !app.isEmpty, !app.utf8.contains(0) else {
                throw RequestQuery.Malformed(problem: "app must be a bundle id", field: "app")
            }
            let environment = try json["environment"].map { try RequestQuery.environment($0.string) } ?? .production
            let at = try json.instant("at", in: "") ?? now()
            let questions = try Self.references(json, app, environment)
                .map { CustomerReader.Question($0, at: at) }
            let answers = try await customers.entitlements(questions)
            return JSONResponse.json(.ok) { writer in
                writer.member("app", app)
                writer.member("environment", environment.rawValue)
                writer.member("asOf", at)
                writer.key("customers")
                writer.array(zip(questions, answers)) { writer, answer in
                    writer.object { writer in
                        writer.member("customerId", answer.0.customer.id)
                        answer.1.write(at: at, to: &writer)
                    }
                }
            }
        }
    }

    private func content(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let reference = try Self.reference(request, context)
        return try await bodies.withJSON(of: request) { json in
            let at = try json.instant("at", in: "") ?? now()
            guard let list = json["issues"], list.isArray else {
                throw RequestQuery.Malformed(problem: "issues must be an array", field: "issues")
            }
            let elements = list.elements(atMost: Limits.issuesMax + 1)
            guard elements.count <= Limits.issuesMax else {
                throw RequestQuery.Malformed(
                    problem: "issues must have at most \(Limits.issuesMax) elements", field: "issues")
            }
            var issues: [(id: String, publishedAt: Instant)] = []
            for (index, element) in elements.enumerated() {
                guard let id = element["id"]?.string else {
                    throw RequestQuery.Malformed(
                        problem: "issues[\(index)].id must be a string", field: "issues[\(index)].id")
                }
                guard let publishedAt = try element.instant("publishedAt", in: "issues[\(index)].") else {
                    throw RequestQuery.Malformed(
                        problem: "issues[\(index)].publishedAt is missing", field: "issues[\(index)].publishedAt")
                }
                issues.append((id, publishedAt))
            }
            let only = try Self.only(try await customers.customer(reference, at: at), reference.environment)
            func reached(by subscriptions: [Subscription]) -> [Instant: ContentAccess.Reach?] {
                let judged = ContentAccess.of(subscriptions, issues: issues.map(\.publishedAt), at: at)
                return Dictionary(uniqueKeysWithValues: judged.map { ($0.publishedAt, $0.reachedBy) })
            }
            let own = reached(by: only.subscriptions)
            let joined = reached(by: only.joinedSubscriptions)
            return JSONResponse.json(.ok) { writer in
                reference.write(only.identity, to: &writer)
                writer.member("asOf", at)
                writer.key("issues")
                writer.array(issues) { writer, issue in
                    writer.object { writer in
                        let ownReach = own[issue.publishedAt] ?? nil
                        let reach = ownReach ?? joined[issue.publishedAt] ?? nil
                        writer.member("id", issue.id)
                        writer.member("publishedAt", issue.publishedAt)
                        writer.member("readable", reach != nil)
                        writer.member("rule", reach?.rule.rawValue)
                        if reach != nil, ownReach == nil { writer.member("app", only.identity.joinedApp) }
                        if let period = reach?.period {
                            writer.key("period")
                            period.write(to: &writer)
                        }
                    }
                }
            }
        }
    }

    /// - Parameter isComplete: Whether the links replace the customer's others, or are added to them.
    private func stateLinks(
        _ request: Request, _ context: BasicRequestContext, isComplete: Bool
    ) async throws -> Response {
        let query = RequestQuery(request)
        guard let app = try query.text("app") else {
            throw RequestQuery.Malformed(problem: "app must be a bundle id", field: "app")
        }
        let stream = StreamKey(app: app, environment: try query.environment())
        guard try query.customerKind() ?? .link == .link else {
            throw RequestQuery.Malformed(problem: "as must be link: only the backend's own ids have links", field: "as")
        }
        guard let links else {
            throw Problem(
                .notImplemented,
                "customer links disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        guard links.apps.contains(app) else { throw Problem(.notFound, "this app is not configured", field: "app") }
        let id = try Self.customerId(context)
        return try await bodies.withJSON(of: request) { json in
            let statement = try LinkStatement(
                backendCustomerId: id, json: json, isComplete: isComplete,
                basis: try LinkStatement.transfer(json) ? .transfer : .statement)
            if let grant = statement.links.first(where: \.isGrant) {
                throw RequestQuery.Malformed(
                    problem: "a grant is not linked: give it to the customer instead",
                    field: LinkStatement.field(of: grant, in: json) ?? "links")
            }
            let outcome = try await links.state(statement, in: stream, receivedAt: now())
            switch outcome {
            case .contested(let key):
                throw Problem(
                    .conflict, "another customer owns it: send \"transfer\": true to take it",
                    field: LinkStatement.field(of: key, in: json))
            case .stated(let position, let isNew):
                logger.info(
                    isNew ? "links stored" : "duplicate links",
                    metadata: [
                        "stream.app": "\(stream.app)", "stream.environment": "\(stream.environment.rawValue)",
                        "event.position": "\(position)",
                    ])
                return JSONResponse.json(.ok) { writer in
                    writer.member("position", position)
                    writer.member("duplicate", !isNew)
                }
            }
        }
    }
}
