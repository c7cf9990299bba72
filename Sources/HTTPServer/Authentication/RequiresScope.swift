import EventLog
import HTTPTypes
import Hummingbird
import Metrics

/// Passes requests whose `Authorization: Bearer …` is an active token whose scope includes the required one.
struct RequiresScope<Context: RequestContext>: RouterMiddleware {
    let scope: TokenScope
    let tokens: TokenCache
    /// Also passes requests of apps with a publishable token; nil for routes that are not for apps.
    var apps: AppGate?

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard let credentials = request.headers[.authorization] else {
            throw refusal(.unauthorized, "token_missing", "missing bearer token", challenge: "Bearer")
        }
        guard let token = Self.token(credentials), let known = try await tokens.active(token) else {
            throw refusal(
                .unauthorized, "token_wrong", "the token is unknown or revoked",
                challenge: "Bearer error=\"invalid_token\"")
        }
        if let apps, let app = known.app, known.scope == .publishable {
            let address = PeerAddress(CurrentConnection.channel?.remoteAddress)
            return try await AppUser.$current.withValue(try apps.admit(request, of: app, from: address)) {
                try await next(request, context)
            }
        }
        let granted = known.scope
        guard granted.includes(scope) else {
            throw refusal(
                .forbidden, "scope_missing",
                "the token has scope \(granted.rawValue), but \(scope.rawValue) is required",
                challenge: "Bearer error=\"insufficient_scope\", scope=\"\(scope.rawValue)\"")
        }
        return try await next(request, context)
    }

    private static func token(_ credentials: String) -> AccessToken? {
        guard let space = credentials.utf8.firstIndex(of: UInt8(ascii: " ")),
            credentials[..<space].lowercased() == "bearer"
        else { return nil }
        return AccessToken(String(credentials[space...].drop { $0 == " " }))
    }

    /// Source: RFC 6750, section 3.
    private func refusal(
        _ status: HTTPResponse.Status, _ reason: String, _ detail: String, challenge: String
    ) -> Problem {
        Counter(label: "subledger_requests_refused_total", dimensions: [("reason", reason)]).increment()
        return Problem(status, detail, headers: [.wwwAuthenticate: challenge])
    }
}
