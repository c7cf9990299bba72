import HTTPTypes
import Hummingbird
import Metrics

/// Counts and times the requests of a listener by the template of their route, so that no id becomes a label.
///
/// The first middleware of a router, so that the status is the one that is sent. The time ends when the response begins:
/// a request that waits for changes takes as long as it waits.
struct RequestMetrics<Context: RequestContext>: RouterMiddleware {
    /// `public` or `private`.
    let listener: String

    private static var methods: Set<HTTPRequest.Method> { [.get, .head, .post, .put, .delete, .patch, .options] }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let start = ContinuousClock.now
        do {
            let response = try await next(request, context)
            note(request, context, response.status, since: start)
            return response
        } catch {
            note(request, context, (error as? any HTTPResponseError)?.status ?? .internalServerError, since: start)
            throw error
        }
    }

    private func note(
        _ request: Request, _ context: Context, _ status: HTTPResponse.Status, since start: ContinuousClock.Instant
    ) {
        let method = Self.methods.contains(request.method) ? request.method.rawValue : "other"
        let labels = [
            ("listener", listener), ("method", method), ("route", RouteTemplate.text(context.endpointPath)),
        ]
        Counter(label: "subledger_http_requests_total", dimensions: labels + [("status", "\(status.code)")]).increment()
        Timer(label: "subledger_http_request_seconds", dimensions: labels).record(duration: start.duration(to: .now))
    }
}

/// The paths of routes as the OpenAPI document writes them.
enum RouteTemplate {
    /// Returns a text such as `/subscriptions/{originalTransactionId}`, or `none` for a request without a route.
    static func text(_ path: String?) -> String {
        guard let path, path.hasPrefix("/") else { return "none" }
        return "/"
            + path.split(separator: "/").map { part in part.first == ":" ? "{\(part.dropFirst())}" : "\(part)" }
            .joined(separator: "/")
    }
}
