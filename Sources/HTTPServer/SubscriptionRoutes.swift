import EventLog
import Hummingbird
import Logging
import Projector
import Subscriptions

/// `GET /subscriptions/{originalTransactionId}`: where a line stands, and why; below it `/content`: which issues of a
/// magazine it may read.
struct SubscriptionRoutes: Sendable {
    let subscriptions: SubscriptionReader
    let now: @Sendable () -> Instant
    let logger: Logger

    func add(to router: Router<BasicRequestContext>) {
        router.get("/subscriptions/:originalTransactionId") { request, context in
            await answer(request, context) { subscription, _, at, writer in
                subscription.writeMembers(at: at, to: &writer)
            }
        }
        router.get("/subscriptions/:originalTransactionId/content") { request, context in
            await answer(request, context) { subscription, query, at, writer in
                let issues = try query.instants("published")
                writer.member("originalTransactionId", subscription.originalTransactionId)
                writer.member("asOf", at)
                writer.key("issues")
                writer.array(subscription.contentAccess(issues: issues, at: at)) { $1.write(to: &$0) }
            }
        }
    }

    /// Finds the one line that the request means, and answers what is written about it.
    private func answer(
        _ request: Request, _ context: BasicRequestContext,
        _ write: (Subscription, Query, Instant, inout JSONWriter) throws -> Void
    ) async -> Response {
        let query = Query(request)
        do {
            let id = context.parameters.get("originalTransactionId") ?? ""
            let environment = try query.environment()
            let at = try query.instant("at") ?? now()
            let found = try await subscriptions.subscriptions(
                originalTransactionId: id, environment: environment, app: try query.text("app"))
            guard let only = found.first else {
                return Answer.error(.notFound, "no subscription with this id in \(environment.rawValue)")
            }
            guard found.count == 1 else {
                let apps = found.map(\.app).joined(separator: ", ")
                return Answer.error(.conflict, "several apps have this id, name one with ?app=: \(apps)")
            }
            return try Answer.json(.ok) { writer in
                writer.member("app", only.app)
                writer.member("environment", environment.rawValue)
                try write(only.subscription, query, at, &writer)
                writer.member("position", only.position)
            }
        } catch let error as Query.Malformed {
            return Answer.error(.badRequest, error.problem)
        } catch {
            return readFailure(error, logger)
        }
    }
}

/// The answer to a read that failed: 503 when it heals by itself, else 500 and a line for the operator.
func readFailure(_ error: any Error, _ logger: Logger) -> Response {
    switch error as? ReadError {
    case .unavailable?:
        return Answer.error(.serviceUnavailable, ReadError.unavailable.description)
    case .damaged(let detail)?:
        logger.error("read failed", metadata: ["error": "\(detail)"])
    case nil:
        logger.error("read failed", metadata: ["error": "\(type(of: error))"])
    }
    return Answer.error(.internalServerError, ReadError.damaged(detail: "").description)
}
