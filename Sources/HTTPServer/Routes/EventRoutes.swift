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
                .gone, "position \(after.number) is after the end of the log, \(head): compare your copy with it",
                field: "after")
        case .replaced:
            throw Problem(
                .gone,
                "another event is at position \(after.number) now, since a backup was restored: compare your copy with the log",
                field: "after")
        }
        return JSONResponse.json(.ok) { writer in
            writer.member("app", stream.app)
            writer.member("environment", stream.environment.rawValue)
            writer.key("events")
            writer.array(page.events) { $1.write(to: &$0) }
            writer.member("cursor", StreamCursor(.events, stream: stream, page.through).text)
            writer.member("more", page.hasMore)
            writer.member("head", page.head)
        }
    }

    /// The place after which the page starts, given as a cursor or as a number.
    private func start(_ query: RequestQuery, _ stream: StreamKey) throws(RequestQuery.Malformed) -> ReadPlace {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        // A cursor is never all digits.
        guard let text = try query.text("after"), !text.utf8.allSatisfy({ digits.contains($0) }) else {
            return ReadPlace(number: try query.number("after", in: 0...Int64.max, default: 0))
        }
        guard let cursor = StreamCursor(text), cursor.list == .events else {
            throw RequestQuery.Malformed(
                problem: "after must be a position or a cursor from an earlier page", field: "after")
        }
        guard cursor.stream == stream else {
            throw RequestQuery.Malformed(
                problem: "after must belong to the requested app and environment", field: "after")
        }
        return cursor.place
    }
}
