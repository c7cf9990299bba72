import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Readers
import Subscriptions

/// `GET /changes` returns changes of access and renewal preferences in order of publication: as a page, immediately or
/// after waiting for a change, or as a stream of server-sent events.
struct ChangeRoutes: Sendable {
    let changes: ChangeReader
    let signal: ChangeSignal
    let now: @Sendable () -> Instant

    /// The parameters of a request for changes.
    struct Question {
        let stream: StreamKey
        /// Up to where the client has read; nil to start with the next change.
        let after: ReadPlace?
        let limit: Int
        let wait: Duration

        init(_ request: Request) throws(RequestQuery.Malformed) {
            let query = RequestQuery(request)
            // Clients resume server-sent events with this header, which takes precedence over the URL.
            let resumed = request.headers[.lastEventID]
            let after = try query.text("after")
            if let text = resumed ?? after.flatMap({ $0 == "now" ? nil : $0 }) {
                let field = resumed == nil ? "after" : "Last-Event-ID"
                guard let cursor = StreamCursor(text), cursor.list == .changes else {
                    throw RequestQuery.Malformed(
                        problem: "\(field) must be now or a cursor from an earlier page", field: field)
                }
                stream = cursor.stream
                self.after = cursor.place
                let app = try query.text("app") ?? stream.app
                let environment =
                    try query.text("environment") == nil ? stream.environment : try query.environment()
                guard stream == StreamKey(app: app, environment: environment) else {
                    throw RequestQuery.Malformed(
                        problem: "\(field) must belong to the requested app and environment", field: field)
                }
            } else {
                guard let app = try query.text("app") else {
                    throw RequestQuery.Malformed(problem: "app must be a bundle id", field: "app")
                }
                stream = StreamKey(app: app, environment: try query.environment())
                self.after = after == nil ? .start : nil
            }
            limit = Int(
                try query.number(
                    "limit", in: 1...Int64(Limits.changesMax), default: Int64(Limits.changesDefault)))
            wait = .seconds(
                try query.number("wait", in: 0...Limits.changeWaitMax.components.seconds, default: 0))
        }
    }

    func add(to routes: PrivateRoutes) {
        routes.read.get("/changes") { request, _ in
            let question = try Question(request)
            if request.headers[.accept]?.contains("text/event-stream") == true {
                return try await stream(question)
            }
            return try await page(question)
        }
    }

    // MARK: - A page

    private func page(_ question: Question) async throws -> Response {
        let start = ContinuousClock.now
        let head = try await head(of: question.stream)
        let (page, last) = try await next(
            question.stream, head, after: question.after ?? ReadPlace(number: head.number), limit: question.limit,
            until: start + question.wait)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", question.stream.app)
            writer.member("environment", question.stream.environment.rawValue)
            writer.member("asOf", page.asOf)
            let fitting = FittingChanges(page)
            writer.key("changes")
            writer.array(fitting.texts) { $0.value(rawJSON: $1) }
            writer.member("cursor", cursor(question.stream, fitting.through))
            writer.member("more", fitting.through.number < last ? true : nil)
        }
    }

    private func head(of stream: StreamKey) async throws -> ChangeReader.Head {
        guard let head = try await changes.head(of: stream) else {
            throw Problem(.notFound, "no events for this app in \(stream.environment.rawValue)")
        }
        return head
    }

    /// Returns the changes after a place as soon as there are any, or an empty page at the deadline, with the number of the
    /// last change that there was then.
    private func next(
        _ stream: StreamKey, _ head: ChangeReader.Head, after place: ReadPlace, limit: Int,
        until deadline: ContinuousClock.Instant
    ) async throws -> (page: ChangeReader.Page, last: Int64) {
        var head = head
        while true {
            let mark = await signal.mark(of: head.streamId)
            guard let page = try await changes.changes(of: stream, head, after: place, limit: limit, now: now()) else {
                throw Problem(
                    .gone,
                    "the change read last is not in this feed: reload entitlements, then continue with after=now",
                    field: "after")
            }
            guard page.changes.isEmpty, page.through.number == place.number, deadline > .now, await !signal.hasEnded
            else {
                return (page, head.number)
            }
            await signal.wait(for: head.streamId, since: mark, until: deadline)
            try Task.checkCancellation()
            head = try await self.head(of: stream)
        }
    }

    private func cursor(_ stream: StreamKey, _ place: ReadPlace) -> String {
        StreamCursor(.changes, stream: stream, place).text
    }

    // MARK: - A stream of server-sent events

    private func stream(_ question: Question) async throws -> Response {
        let head = try await head(of: question.stream)
        // Read before the response starts: afterwards the only way to report an error is to close the connection.
        let first = try await next(
            question.stream, head, after: question.after ?? ReadPlace(number: head.number), limit: question.limit,
            until: .now
        ).page
        let ends = ContinuousClock.now + Limits.streamMax
        return Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                var fitting = FittingChanges(first)
                var after = fitting.through
                try await SoleWriter(writer).write(events(question.stream, fitting), within: Limits.streamWriteMax)
                while await !signal.hasEnded, ends > .now {
                    let page = try await next(
                        question.stream, try await self.head(of: question.stream), after: after, limit: question.limit,
                        until: min(ends, .now + Limits.streamSilenceMax)
                    ).page
                    fitting = FittingChanges(page)
                    try await SoleWriter(writer).write(events(question.stream, fitting), within: Limits.streamWriteMax)
                    after = fitting.through
                }
                try await writer.finish(nil)
            })
    }

    /// Encodes a page as server-sent events; an empty page as a comment.
    private func events(_ stream: StreamKey, _ page: FittingChanges) -> ByteBuffer {
        guard !page.texts.isEmpty else { return ByteBuffer(string: ":\n\n") }
        var buffer = ByteBuffer()
        for (text, place) in zip(page.texts, page.places) {
            buffer.writeString("id: \(cursor(stream, place))\ndata: ")
            buffer.writeBytes(text)
            buffer.writeString("\n\n")
        }
        return buffer
    }
}

/// The changes of a page that fit in a response, as JSON; always at least the first one.
struct FittingChanges {
    private(set) var texts: [[UInt8]] = []
    private(set) var places: [ReadPlace] = []
    /// The place that the response's cursor contains.
    let through: ReadPlace
    /// Whether the page has changes that do not fit.
    let isCut: Bool

    init(_ page: ChangeReader.Page, bytesMax: Int = Limits.changesBytesMax) {
        var bytes = 0
        for change in page.changes {
            var writer = JSONWriter()
            change.write(at: page.asOf, to: &writer)
            bytes += writer.bytes.count
            guard texts.isEmpty || bytes <= bytesMax else { break }
            texts.append(writer.bytes)
            places.append(change.place)
        }
        isCut = texts.count < page.changes.count
        through = isCut ? places.last ?? page.through : page.through
    }
}

extension HTTPField.Name {
    fileprivate static var lastEventID: Self { Self("Last-Event-ID")! }
}

/// The client did not read the stream in time.
private struct SlowReader: Error {}

/// Unchecked: only the one task inside ``write(_:within:)`` uses the writer, and the call waits for that task.
private struct SoleWriter: @unchecked Sendable {
    private var writer: any ResponseBodyWriter

    init(_ writer: any ResponseBodyWriter) { self.writer = writer }

    /// Writes the buffer; throws if the client does not read it in time.
    func write(_ buffer: ByteBuffer, within limit: Duration) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                var sole = self
                try await sole.writer.write(buffer)
            }
            group.addTask {
                try await Task.sleep(for: limit)
                throw SlowReader()
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}
