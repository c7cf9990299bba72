import Encoding
import EventLog
import Hummingbird
import Subscriptions

/// The apps whose stores can be answered about refunds.
package struct RefundApps: Sendable {
    /// Those with a key of the App Store Server API, or with Google's credentials.
    package let answerable: Set<String>
    /// Those of Google Play that are no app of the App Store as well.
    package let ofGoogleAlone: Set<String>

    package init(answerable: Set<String> = [], ofGoogleAlone: Set<String> = []) {
        self.answerable = answerable
        self.ofGoogleAlone = ofGoogleAlone
    }
}

/// Answers to the refund requests and chargebacks of customers about which the stores ask.
///
/// `GET /consumption-requests?app=` lists the requests; `GET` and `PUT /consumption-requests/{transactionId}?app=` return
/// one and set the answer to it. `/consumption-policies` has the answers to the stores about all purchases of a
/// product.
package struct ConsumptionRoutes: RouteSet {
    private let requests: ConsumptionLog
    private let answers: ConsumptionLog?
    private let policies: ConsumptionPolicies
    private let apps: RefundApps
    private let now: @Sendable () -> Instant
    private let bodies = BodyReader()

    /// - Parameters:
    ///   - requests: With the rights of `subledger_reader`.
    ///   - answers: With those of `subledger_receiver`; nil if this process lacks them.
    ///   - policies: With those of `subledger_products`.
    ///   - apps: Whose stores can be answered.
    package init(
        requests: ConsumptionLog, answers: ConsumptionLog?, policies: ConsumptionPolicies, apps: RefundApps,
        now: @escaping @Sendable () -> Instant
    ) {
        self.requests = requests
        self.answers = answers
        self.policies = policies
        self.apps = apps
        self.now = now
    }

    package func add(to routes: PrivateRoutes) {
        routes.read.get("/consumption-requests") { request, _ in try await list(RequestQuery(request)) }
        routes.read.get("/consumption-requests/:transactionId") { request, context in
            let stream = try stream(of: RequestQuery(request))
            let id = try PathParameter.text("transactionId", context)
            return Self.response(to: try await find(id, stream), at: now())
        }
        routes.link.put("/consumption-requests/:transactionId") { request, context in
            try await state(request, context)
        }
        routes.read.get("/consumption-policies") { request, _ in try await policies(RequestQuery(request)) }
        routes.admin.put("/consumption-policies/:productId") { request, context in
            try await statePolicy(request, context)
        }
        routes.admin.delete("/consumption-policies/:productId") { request, context in
            let app = try RequestQuery(request).app()
            guard try await policies.remove(try PathParameter.text("productId", context), of: app) else {
                throw Problem(.notFound, "the product has no policy")
            }
            return Response(status: .noContent)
        }
    }

    // MARK: - Requests

    /// Google's questions are in the stream of the app in environment `unknown`.
    private func stream(of query: RequestQuery) throws -> StreamKey {
        let app = try query.app()
        let isNamed = try query.text("environment") != nil
        guard !isNamed, apps.ofGoogleAlone.contains(app) else { return try query.stream() }
        return StreamKey(app: app, environment: .unknown)
    }

    private func list(_ query: RequestQuery) async throws -> Response {
        let stream = try stream(of: query)
        var state: RefundRequest.State?
        if let text = try query.text("state") {
            guard let known = RefundRequest.State(rawValue: text) else {
                let all = RefundRequest.State.allCases.map(\.rawValue).joined(separator: ", ")
                throw RequestQuery.Malformed(problem: "state must be one of \(all)", field: "state")
            }
            state = known
        }
        let after = try query.number("after", in: 0...Int64.max, default: 0)
        let limit = Int(
            try query.number("limit", in: 1...Int64(Limits.requestsMax), default: Int64(Limits.requestsMax)))
        let now = now()
        // One more shows whether there are more.
        let found = try await requests.requests(in: stream, after: after, state: state, at: now, limit: limit + 1)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", stream.app)
            writer.member("environment", stream.environment.rawValue)
            writer.key("requests")
            writer.array(found.prefix(limit)) { $1.write(at: now, to: &$0) }
            writer.member("more", found.count > limit)
        }
    }

    private func find(_ id: String, _ stream: StreamKey) async throws -> RefundRequest {
        guard let found = try await requests.request(about: id, in: stream) else {
            throw Problem(.notFound, "no refund request about this transaction in \(stream.environment.rawValue)")
        }
        return found
    }

    private func state(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        guard let answers else {
            throw Problem(
                .notImplemented,
                "answers disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        let stream = try stream(of: RequestQuery(request))
        let id = try PathParameter.text("transactionId", context)
        let content = try await bodies.withJSON(of: request) { json in try Self.content(json) }
        let known = try await find(id, stream)
        try check(stream.app)
        if let problem = content.flatMap(known.problem) {
            throw Problem(.unprocessableContent, problem.description, field: problem.field)
        }
        let now = now()
        let isStated = try await answers.state(content, about: id, in: stream, at: now)
        let stated = try await find(id, stream)
        // Citus reports an answer as written that it has left as it was.
        guard stated.answer?.content == content, isStated || stated.answer?.state == .accepted else {
            throw Problem(.conflict, stated.refusalWords)
        }
        return Self.response(to: stated, at: now)
    }

    private static func response(to request: RefundRequest, at now: Instant) -> Response {
        JSONResponse.json(.ok) { writer in
            writer.member("app", request.stream.app)
            writer.member("environment", request.stream.environment.rawValue)
            request.writeMembers(at: now, to: &writer)
        }
    }

    // MARK: - Policies

    private func policies(_ query: RequestQuery) async throws -> Response {
        let app = try query.app()
        let found = try await policies.policies(of: app)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", app)
            writer.key("policies")
            writer.array(found) { writer, policy in writer.object { policy.writeMembers(to: &$0) } }
        }
    }

    private func statePolicy(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let app = try RequestQuery(request).app()
        let productId = try PathParameter.text("productId", context)
        do {
            try ConfiguredProduct.check(productId, "product id", "productId")
        } catch {
            throw RequestQuery.Malformed(problem: error.description, field: error.field)
        }
        let content = try await bodies.withJSON(of: request) { json in try Self.content(json) }
        guard let content else {
            throw RequestQuery.Malformed(
                problem: "customerConsented must be true: without consent, nothing is sent",
                field: "customerConsented")
        }
        try check(app)
        let policy = ConsumptionPolicy(productId: productId, content: content, statedAt: now())
        try await policies.state(policy, of: app)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", app)
            policy.writeMembers(to: &writer)
        }
    }

    // MARK: - Bodies

    private static func content(_ json: JSONValue) throws -> ConsumptionAnswer? {
        do throws(ConsumptionAnswer.Malformed) {
            return try ConsumptionAnswer.read(json)
        } catch {
            throw RequestQuery.Malformed(problem: error.description, field: error.field)
        }
    }

    private func check(_ app: String) throws(Problem) {
        guard apps.answerable.contains(app) else {
            throw Problem(
                .conflict,
                "the app has neither a key for the App Store Server API nor a Google service account, so the store cannot be answered",
                field: "app")
        }
    }
}
