import EventLog
import Hummingbird
import Logging
import Subscriptions

/// Answers whatever a route or the framework throws as a ``Problem``, and tells the operator of what is ours.
struct ProblemAnswers<Context: RequestContext>: RouterMiddleware {
    let paths: KnownPaths
    let logger: Logger

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch {
            return problem(error, request).response
        }
    }

    private func problem(_ error: any Error, _ request: Request) -> Problem {
        switch error {
        case let problem as Problem: return problem
        case let malformed as Query.Malformed:
            return Problem(.badRequest, malformed.problem, field: malformed.field)
        case let malformed as LinkStatement.Malformed:
            return Problem(.badRequest, malformed.description, field: malformed.field)
        case let error as JSONError: return Problem(.badRequest, "the body is not JSON: \(error)")
        case let error as AppendError: return Problem(error.status, error.description)
        case let error as ReadError:
            if case .damaged(let detail) = error { logger.error("read failed", metadata: ["error": "\(detail)"]) }
            return Problem(error)
        case let failure as BodyReader.Failure: return Problem(failure)
        case let error as any HTTPResponseError:
            // No route threw it, so this is the router's for a method that the path has not as well.
            if error.status == .notFound, let allow = paths.allow(request.uri.path) {
                return Problem(.methodNotAllowed, "this path is for \(allow)", headers: [.allow: allow])
            }
            return Problem(error.status, error.status.reasonPhrase.lowercased())
        default:
            logger.error("request failed", metadata: ["error": "\(type(of: error))"])
            return Problem(.internalServerError, "the request failed; the server's log says more")
        }
    }
}
