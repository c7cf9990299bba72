import Encoding
import EventLog
import Hummingbird
import Subscriptions

/// `PUT` and `DELETE /customers/{customerId}/grants/{grantId}`: access that is given by hand, and taken back.
struct GrantRoutes: Sendable {
    let grants: GrantService?
    let now: @Sendable () -> Instant
    private let bodies = BodyReader()

    init(grants: GrantService?, now: @escaping @Sendable () -> Instant) {
        self.grants = grants
        self.now = now
    }

    func add(to routes: PrivateRoutes) {
        routes.operate.put("/customers/:customerId/grants/:grantId") { request, context in
            try await give(request, context)
        }
        routes.operate.delete("/customers/:customerId/grants/:grantId") { request, context in
            try await revoke(request, context)
        }
    }

    private func give(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let stream = try RequestQuery(request).stream()
        let grants = try grants.accepting(stream)
        let customerId = try PathParameter.text("customerId", context)
        let id = try PathParameter.text("grantId", context)
        let receivedAt = now()
        return try await bodies.withJSON(of: request) { json in
            guard let end = json["until"] else {
                throw RequestQuery.Malformed(
                    problem: "until is missing: expected an instant, or null for no end", field: "until")
            }
            let grant = try Self.grant(
                id, customerId: customerId, entitlement: try Self.text("entitlement", of: json),
                from: try json.instant("from", in: ""), until: end.isNull ? nil : try json.instant("until", in: ""),
                reason: try Self.text("reason", of: json), by: json["by"] == nil ? nil : try Self.text("by", of: json),
                standing: try await grants.standing(id, in: stream)?.grant, receivedAt: receivedAt)
            return try Self.response(
                try await grants.give(grant, source: .backend, in: stream, receivedAt: receivedAt))
        }
    }

    private static func text(_ key: StaticString, of json: JSONValue) throws(RequestQuery.Malformed) -> String {
        guard let text = json[key]?.string else {
            throw RequestQuery.Malformed(problem: "\(key) must be a string", field: "\(key)")
        }
        return text
    }

    /// - Parameter from: Nil for now. The same request repeated keeps the start that it had.
    private static func grant(
        _ id: String, customerId: String, entitlement: String, from: Instant?, until: Instant?, reason: String,
        by: String?, standing: GrantStatement?, receivedAt: Instant
    ) throws -> GrantStatement {
        let known = standing.flatMap { !$0.isRevocation && $0.entitlement == entitlement ? $0.from : nil }
        do throws(GrantStatement.Malformed) {
            return try GrantStatement(
                id: id, customerId: customerId, entitlement: entitlement, from: from ?? known ?? receivedAt,
                until: until, reason: reason, by: by)
        } catch {
            throw RequestQuery.Malformed(problem: error.description, field: error.field)
        }
    }

    private func revoke(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let query = RequestQuery(request)
        let stream = try query.stream()
        let grants = try grants.accepting(stream)
        guard let reason = try query.text("reason") else {
            throw RequestQuery.Malformed(problem: "reason is missing", field: "reason")
        }
        do {
            return try Self.response(
                try await grants.revoke(
                    try PathParameter.text("grantId", context), of: try PathParameter.text("customerId", context),
                    reason: reason, by: try query.text("by"), source: .backend, in: stream, receivedAt: now()))
        } catch let malformed as GrantStatement.Malformed {
            throw RequestQuery.Malformed(problem: malformed.description, field: malformed.field)
        }
    }

    private static func response(_ outcome: GrantService.Outcome) throws -> Response {
        switch outcome {
        case .stated(let position, let isNew):
            return JSONResponse.json(.ok) { writer in
                writer.member("position", position)
                writer.member("duplicate", !isNew)
            }
        case .otherCustomer: throw Problem(.conflict, "the grant is one of another customer", field: "grantId")
        case .unknownEntitlement:
            throw RequestQuery.Malformed(problem: "no product of the app gives this entitlement", field: "entitlement")
        case .unknownGrant: throw Problem(.notFound, "the customer has no such grant", field: "grantId")
        }
    }
}

extension GrantService? {
    /// The service, if it gives access in a stream.
    func accepting(_ stream: StreamKey) throws(Problem) -> GrantService {
        guard let self else {
            throw Problem(
                .notImplemented,
                "grants disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        guard self.accepts(stream.app) else { throw Problem(.notFound, "this app is not configured", field: "app") }
        return self
    }
}
