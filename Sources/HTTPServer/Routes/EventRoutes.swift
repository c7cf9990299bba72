import EventLog
import Hummingbird
import Subscriptions

/// `GET /events` returns the log of a stream in pages, optionally filtered.
struct EventRoutes: Sendable {
    let log: LogReader

    func add(to routes: PrivateRoutes) {
        routes.read.get("/events") { request, _ in try await answer(RequestQuery(request)) }
    }

    private func answer(_ query: RequestQuery) async throws -> Response {
        guard let app = try query.text("app") else {
            throw RequestQuery.Malformed(problem: "app must be a bundle id", field: "app")
        }
        let stream = StreamKey(app: app, environment: try query.environment())
        let after = try start(query, stream)
        let limit = try query.number(
            "limit", in: 1...Int64(EventLog.Limits.pageEventsMax), default: Int64(Limits.eventsDefault))
        let filter = EventFilter(
            type: try query.text("type"), kind: try query.text("kind"), source: try query.text("source"),
            receivedFrom: try query.instant("receivedFrom"), receivedUntil: try query.instant("receivedUntil"))
        let page: EventPage
        switch try await log.events(of: stream, after: after, limit: Int(limit), filter: filter) {
        case .page(let found): page = found
        case .noStream:
            throw Problem(.notFound, "no events for this app in \(stream.environment.rawValue)")
        case .beyondHead(let head):
            throw Problem(
                .gone, "position \(after) is after the end of the log, \(head): compare your copy with it",
                field: try query.text("cursor") == nil ? "after" : "cursor")
        }
        return JSONResponse.json(.ok) { writer in
            writer.member("app", stream.app)
            writer.member("environment", stream.environment.rawValue)
            writer.key("events")
            writer.array(page.events) { $1.write(to: &$0) }
            writer.member("cursor", StreamCursor(.events, stream: stream, position: page.through).text)
            writer.member("more", page.hasMore)
            writer.member("next", page.through)
            writer.member("head", page.head)
        }
    }

    /// The position after which the page starts.
    private func start(_ query: RequestQuery, _ stream: StreamKey) throws(RequestQuery.Malformed) -> Int64 {
        guard let text = try query.text("cursor") else {
            return try query.number("after", in: 0...Int64.max, default: 0)
        }
        guard try query.text("after") == nil else {
            throw RequestQuery.Malformed(problem: "after must not be combined with cursor", field: "after")
        }
        guard let cursor = StreamCursor(text), cursor.list == .events else {
            throw RequestQuery.Malformed(problem: "cursor must come from an earlier page", field: "cursor")
        }
        guard cursor.stream == stream else {
            throw RequestQuery.Malformed(
                problem: "cursor must belong to the requested app and environment", field: "cursor")
        }
        return cursor.position
    }
}
