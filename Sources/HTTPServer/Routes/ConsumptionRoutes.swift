import Encoding
import EventLog
import Hummingbird
import Subscriptions

/// Answers to the refund requests of customers about which Apple asks.
///
/// `GET /consumption-requests?app=` lists the requests; `GET` and `PUT /consumption-requests/{transactionId}?app=` return
/// one and set the answer to it. `/consumption-policies` has the answers to Apple about all purchases of a
/// product.
package struct ConsumptionRoutes: Sendable {
    private let requests: ConsumptionLog
    private let answers: ConsumptionLog?
    private let policies: ConsumptionPolicies
    private let appsWithKey: Set<String>
    private let now: @Sendable () -> Instant
    private let bodies = BodyReader()

    /// - Parameters:
    ///   - requests: With the rights of `subledger_reader`.
    ///   - answers: With those of `subledger_receiver`; nil if this process lacks them.
    ///   - policies: With those of `subledger_products`.
    ///   - appsWithKey: Only questions about these apps can be answered.
    package init(
        requests: ConsumptionLog, answers: ConsumptionLog?, policies: ConsumptionPolicies, appsWithKey: Set<String>,
        now: @escaping @Sendable () -> Instant
    ) {
        self.requests = requests
        self.answers = answers
        self.policies = policies
        self.appsWithKey = appsWithKey
        self.now = now
    }

    func add(to routes: PrivateRoutes) {
        routes.read.get("/consumption-requests") { request, _ in try await list(RequestQuery(request)) }
        routes.read.get("/consumption-requests/:transactionId") { request, context in
            let stream = try RequestQuery(request).stream()
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

    private func list(_ query: RequestQuery) async throws -> Response {
        let stream = try query.stream()
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
        let stream = try RequestQuery(request).stream()
        let id = try PathParameter.text("transactionId", context)
        let content = try await bodies.withJSON(of: request) { json in try Self.content(json) }
        let known = try await find(id, stream)
        try check(stream.app)
        if let content, !known.purchase.isAdvancedCommerce,
            let problem = content.problem(of: known.purchase.productType)
        {
            throw Problem(.unprocessableContent, problem.description, field: problem.field)
        }
        let now = now()
        let isStated = try await answers.state(content, about: id, in: stream, at: now)
        let stated = try await find(id, stream)
        // Citus reports an answer as written that it has left as it was.
        guard stated.answer?.content == content, isStated || stated.answer?.state == .accepted else {
            throw Problem(.conflict, Self.reason(stated))
        }
        return Self.response(to: stated, at: now)
    }

    /// Why Apple does not wait for an answer.
    private static func reason(_ request: RefundRequest) -> String {
        if request.answer?.state == .accepted { return "Apple has accepted another answer" }
        if request.decision != nil { return "Apple has decided about the request" }
        return "the deadline was \(request.deadline)"
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
                problem: "customerConsented must be true: without consent, nothing is sent to Apple",
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
        guard appsWithKey.contains(app) else {
            throw Problem(
                .conflict, "the app has no key for the App Store Server API, so Apple cannot be answered", field: "app")
        }
    }
}
