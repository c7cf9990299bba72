import EventLog
import Hummingbird
import Logging
import Subscriptions

/// `GET /events`: the log of a stream, page by page.
struct EventRoutes: Sendable {
    let log: LogReader
    let logger: Logger

    func add(to router: Router<BasicRequestContext>) {
        router.get("/events") { request, _ in await answer(request) }
    }

    private func answer(_ request: Request) async -> Response {
        let query = Query(request)
        do {
            guard let app = try query.text("app") else { return Answer.error(.badRequest, "app must be a bundle id") }
            let stream = StreamKey(app: app, environment: try query.environment())
            let after = try query.number("after", in: 0...Int64.max, default: 0)
            let limit = try query.number(
                "limit", in: 1...Int64(EventLog.Limits.pageEventsMax), default: Int64(Limits.eventsDefault))
            guard let page = try await log.events(of: stream, after: after, limit: Int(limit)) else {
                return Answer.error(.notFound, "nothing was received for this app in \(stream.environment.rawValue)")
            }
            return Answer.json(.ok) { writer in
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                writer.key("events")
                writer.array(page.events) { $1.write(to: &$0) }
                writer.member("next", page.events.last?.position ?? after)
                writer.member("head", page.head)
            }
        } catch let error as Query.Malformed {
            return Answer.error(.badRequest, error.problem)
        } catch {
            return readFailure(error, logger)
        }
    }
}
