import EventLog
import Hummingbird

/// Passes requests whose `Authorization: Bearer …` is an active token whose scope includes the required one.
struct RequiresScope<Context: RequestContext>: RouterMiddleware {
    let scope: TokenScope
    let tokens: TokenCache
    /// Also passes requests of apps with a publishable token; nil for routes that are not for apps.
    var apps: AppGate?

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let known = try await tokens.token(of: request)
        if let apps, let app = known.app, known.scope == .publishable {
            try apps.admit(from: PeerAddress(CurrentConnection.channel?.remoteAddress))
            return try await AppUser.$current.withValue(try apps.user(of: request, of: app)) {
                try await next(request, context)
            }
        }
        guard known.scope.includes(scope) else { throw TokenCache.scopeMissing(known.scope, scope) }
        return try await next(request, context)
    }
}
