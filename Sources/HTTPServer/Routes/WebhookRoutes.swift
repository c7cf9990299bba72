import Encoding
import EventLog
import Hummingbird
import Outbound
import Subscriptions

/// The endpoints to which changes are delivered.
///
/// `GET /webhooks` lists them, `POST /webhooks` adds one, `GET /webhooks/{id}` returns one with its latest attempts, and
/// `POST /webhooks/{id}/…` tests, disables, enables, replays and rotates. `GET /webhooks/keys` has the public keys with
/// which receivers verify. A request with an `Idempotency-Key` that adds an endpoint or a key adds it once.
package struct WebhookRoutes: RouteSet {
    private let admin: EndpointAdmin
    private let bodies = BodyReader()

    package init(admin: EndpointAdmin) {
        self.admin = admin
    }

    package func add(to routes: PrivateRoutes) {
        routes.open.get("/webhooks/keys") { _, _ in
            let keys = try refusing { () throws(EndpointRefusal) in try admin.publicKeys() }
            return JSONResponse.json(.ok) { writer in
                writer.key("keys")
                writer.array(keys) { $0.value($1) }
            }
        }
        routes.webhooks.post("/webhooks/keys/rotate") { request, _ in
            let repeatable = try Self.repeatable(request)
            let key = try refusing { () throws(EndpointRefusal) in try admin.rotateServerKey(repeatable) }
            return JSONResponse.json(.ok) { $0.member("key", key) }
        }
        routes.webhooks.get("/webhooks") { _, _ in
            let endpoints = try await admin.store.list()
            return JSONResponse.json(.ok) { writer in
                writer.key("endpoints")
                writer.array(endpoints) { $1.write(to: &$0) }
            }
        }
        routes.webhooks.post("/webhooks") { request, _ in try await add(request) }
        routes.webhooks.get("/webhooks/:id") { request, context in try await show(request, context) }
        routes.webhooks.post("/webhooks/:id/test") { _, context in try await test(context) }
        routes.webhooks.post("/webhooks/:id/disable") { _, context in
            Self.response(try await refusing(context) { id throws(EndpointRefusal) in try await admin.disable(id) })
        }
        routes.webhooks.post("/webhooks/:id/enable") { _, context in
            Self.response(try await refusing(context) { id throws(EndpointRefusal) in try await admin.enable(id) })
        }
        routes.webhooks.post("/webhooks/:id/rotate") { request, context in
            let repeatable = try Self.repeatable(request)
            let key = try await refusing(context) { id throws(EndpointRefusal) in try await admin.rotate(id, repeatable)
            }
            return JSONResponse.json(.ok) { $0.member("key", key) }
        }
        routes.webhooks.post("/webhooks/:id/replay") { request, context in try await replay(request, context) }
    }

    private func add(_ request: Request) async throws -> Response {
        let repeatable = try Self.repeatable(request)
        let wish = try await bodies.withJSON(of: request) { json in try Self.wish(json) }
        let added = try await refusing { () async throws(EndpointRefusal) in try await admin.add(wish, repeatable) }
        var response = JSONResponse.json(.created) { writer in
            writer.key("endpoint")
            added.status.write(to: &writer)
            writer.member("key", added.key)
        }
        response.headers[.location] = "/webhooks/\(added.status.endpoint.id)"
        return response
    }

    private static func repeatable(_ request: Request) throws -> RepeatableRequest? {
        try IdempotencyKey.of(request).map { RepeatableRequest(key: $0) }
    }

    private static func wish(_ json: JSONValue) throws -> EndpointAdmin.Wish {
        guard let app = json["app"]?.string, !app.isEmpty, !app.utf8.contains(0) else {
            throw RequestQuery.Malformed(problem: "app must be a bundle id or package name", field: "app")
        }
        guard let url = json["url"]?.string else {
            throw RequestQuery.Malformed(problem: "url must be a URL", field: "url")
        }
        var environment = Environment.production
        if let value = json["environment"] { environment = try RequestQuery.environment(value.string) }
        var wish = EndpointAdmin.Wish(stream: StreamKey(app: app, environment: environment), url: url)
        if let value = json["kinds"] {
            let kinds = value.elements.compactMap(\.string)
            guard !kinds.isEmpty, kinds.count == value.elements.count else {
                throw RequestQuery.Malformed(problem: "kinds must be an array of texts", field: "kinds")
            }
            wish.kinds = kinds
        }
        if let value = json["signature"] {
            guard let signature = value.string.flatMap(Endpoint.Signature.init(rawValue:)) else {
                throw RequestQuery.Malformed(problem: "signature must be v1 or v1a", field: "signature")
            }
            wish.signature = signature
        }
        if let value = json["after"] { wish.after = try number(value, "after") }
        return wish
    }

    private static func number(_ value: JSONValue, _ field: String) throws -> Int64 {
        guard let number = value.integer, number >= 0 else {
            throw RequestQuery.Malformed(problem: "\(field) must be a number from 0", field: field)
        }
        return number
    }

    private func show(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let limit = Int(
            try RequestQuery(request).number("limit", in: 1...Int64(Limits.attemptsMax), default: 20))
        let status = try await refusing(context) { id throws(EndpointRefusal) in try await admin.find(id) }
        let attempts = try await admin.store.attempts(of: status.endpoint.id, limit: limit)
        return JSONResponse.json(.ok) { writer in
            writer.key("endpoint")
            status.write(to: &writer)
            writer.key("attempts")
            writer.array(attempts) { $1.write(to: &$0) }
        }
    }

    private func test(_ context: BasicRequestContext) async throws -> Response {
        let tested = try await refusing(context) { id throws(EndpointRefusal) in try await admin.test(id) }
        return JSONResponse.json(.ok) { writer in
            writer.member("id", tested.id)
            writer.member("result", tested.outcome.class.rawValue)
            writer.member("status", tested.outcome.status)
            writer.member("milliseconds", tested.milliseconds)
        }
    }

    private func replay(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let replay = try await bodies.withJSON(of: request) { json in
            let fields = ["number", "after", "failedSince"]
            let given: [JSONValue?] = [json["number"], json["after"], json["failedSince"]]
            guard given.count(where: { $0 != nil }) == 1 else {
                throw RequestQuery.Malformed(problem: "expected one of \(fields.joined(separator: ", "))")
            }
            if let value = json["number"] { return EndpointAdmin.Replay.one(try Self.number(value, "number")) }
            if let value = json["after"] { return .after(try Self.number(value, "after")) }
            return .failedSince(try json.instant("failedSince", in: "") ?? .earliest)
        }
        let count = try await refusing(context) { id throws(EndpointRefusal) in try await admin.replay(id, replay) }
        return JSONResponse.json(.accepted) { $0.member("messages", count) }
    }

    private static func response(_ status: EndpointStatus) -> Response {
        JSONResponse.json(.ok) { writer in
            writer.key("endpoint")
            status.write(to: &writer)
        }
    }

    // MARK: Refusals

    private func refusing<Value>(
        _ context: BasicRequestContext, _ body: (String) async throws(EndpointRefusal) -> Value
    ) async throws -> Value {
        let id = try PathParameter.text("id", context)
        return try await refusing { () async throws(EndpointRefusal) in try await body(id) }
    }

    private func refusing<Value>(_ body: () async throws(EndpointRefusal) -> Value) async throws -> Value {
        do throws(EndpointRefusal) { return try await body() } catch { throw Self.problem(error) }
    }

    private func refusing<Value>(_ body: () throws(EndpointRefusal) -> Value) throws -> Value {
        do throws(EndpointRefusal) { return try body() } catch { throw Self.problem(error) }
    }

    private static func problem(_ refusal: EndpointRefusal) -> any Error {
        switch refusal {
        case .unknown: Problem(.notFound, refusal.description)
        case .unknownApp: Problem(.unprocessableContent, refusal.description, field: "app")
        case .malformed(let problem, let field): RequestQuery.Malformed(problem: problem, field: field)
        case .full, .noSecret, .isForward, .noKey: Problem(.conflict, refusal.description)
        case .requestKeyUsed: Problem(.unprocessableContent, refusal.description, field: IdempotencyKey.name)
        case .noKeyFile: Problem(.notImplemented, refusal.description)
        // The file's name is for the operator's log.
        case .keys: Problem(.internalServerError, "the webhook keys cannot be read or written: see the server log")
        case .database(let error): error
        }
    }
}
