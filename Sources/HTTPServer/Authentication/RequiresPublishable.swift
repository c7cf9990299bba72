import EventLog
import Hummingbird

/// Passes requests of apps: with a publishable token, which is the only kind that is accepted, and the assertion of a user.
///
/// For the public listener: what apps hold there is bounded by address and by user, so that notifications and other users
/// always find a place.
struct RequiresPublishable<Context: RequestContext>: RouterMiddleware {
    let tokens: TokenCache
    let gate: AppGate
    let places: AppPlaces

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let address = PeerAddress(CurrentConnection.channel?.remoteAddress)
        try gate.admit(from: address)
        return try await places.hold(address) {
            let known = try await tokens.token(of: request)
            guard known.scope == .publishable, let app = known.app else {
                throw TokenCache.scopeMissing(known.scope, .publishable)
            }
            let user = try gate.user(of: request, of: app)
            return try await places.hold(user) {
                try await AppUser.$current.withValue(user) { try await next(request, context) }
            }
        }
    }
}
