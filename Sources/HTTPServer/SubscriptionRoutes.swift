import EventLog
import Hummingbird
import Logging
import Projector
import Subscriptions

/// `GET /subscriptions/{originalTransactionId}`: where a line stands, and why.
struct SubscriptionRoutes: Sendable {
    let subscriptions: SubscriptionReader
    let now: @Sendable () -> Instant
    let logger: Logger

    func add(to router: Router<BasicRequestContext>) {
        router.get("/subscriptions/:originalTransactionId") { request, context in
            await answer(request, id: context.parameters.get("originalTransactionId") ?? "")
        }
    }

    private func answer(_ request: Request, id: String) async -> Response {
        let query = Query(request)
        do {
            let environment = try query.environment()
            let at = try query.instant("at") ?? now()
            let found = try await subscriptions.subscriptions(
                originalTransactionId: id, environment: environment, app: query.text("app"))
            guard let only = found.first else {
                return Answer.error(.notFound, "no subscription with this id in \(environment.rawValue)")
            }
            guard found.count == 1 else {
                let apps = found.map(\.app).joined(separator: ", ")
                return Answer.error(.conflict, "several apps have this id, name one with ?app=: \(apps)")
            }
            return Answer.json(.ok) { writer in
                writer.member("app", only.app)
                writer.member("environment", environment.rawValue)
                only.subscription.writeMembers(at: at, to: &writer)
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
    if case ReadError.unavailable? = error as? ReadError {
        return Answer.error(.serviceUnavailable, ReadError.unavailable.description)
    }
    logger.error("read failed", metadata: ["error": "\(error)"])
    return Answer.error(.internalServerError, "the stored data could not be read; the server's log says more")
}
