import Console
import Encoding
import EventLog
import Hummingbird
import Logging
import Subscriptions

/// Converts errors of routes and the framework to ``Problem`` responses and logs server errors.
struct ProblemMiddleware<Context: RequestContext>: RouterMiddleware {
    let allowedMethods: AllowedMethods
    /// Whether the listener serves the console, whose addresses people type and edit.
    var hasConsole = false
    let logger: Logger

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch {
            let problem = problem(error, request)
            guard hasConsole, error is any HTTPResponseError, request.uri.path.hasPrefix("/console/"),
                problem.status == .notFound || problem.status == .methodNotAllowed
            else { return problem.response }
            var response = ConsoleResponse.html(
                problem.status, BarePage.problem("No such page", "The console has no page at this address."))
            for header in problem.headers { response.headers.append(header) }
            return response
        }
    }

    private func problem(_ error: any Error, _ request: Request) -> Problem {
        switch error {
        case let problem as Problem: return problem
        case let malformed as RequestQuery.Malformed:
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
            // Routes do not throw it, so it is the router's 404, which it also returns for an unsupported method.
            if error.status == .notFound, let allow = allowedMethods.allow(request.uri.path) {
                return Problem(.methodNotAllowed, "method not allowed: expected \(allow)", headers: [.allow: allow])
            }
            return Problem(error.status, error.status.reasonPhrase.lowercased())
        default:
            logger.error("request failed", metadata: ["error": "\(type(of: error))"])
            return Problem(.internalServerError, "internal error: see the server log")
        }
    }
}
