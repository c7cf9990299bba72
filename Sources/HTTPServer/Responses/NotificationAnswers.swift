import EventLog
import HTTPTypes
import Hummingbird
import Logging
import Subscriptions

/// The answers to notifications of all stores, with their metrics and log lines.
struct NotificationAnswers: Sendable {
    private let appender: Appender
    private let logger: Logger
    private let metrics = NotificationMetrics()
    private let refusals: RefusalLog

    init(appender: Appender, logger: Logger) {
        self.appender = appender
        self.logger = logger
        refusals = RefusalLog(logger: logger)
    }

    /// Appends a notification, and answers 200 once it is committed.
    ///
    /// - Parameter onAppended: Called with its position then.
    func append(_ prepared: PreparedEvent, onAppended: (Int64) -> Void = { _ in }) async -> Response {
        do throws(AppendError) {
            let appended = try await appender.append(prepared)
            metrics.note(prepared, appended)
            onAppended(appended.position)
            log(prepared, appended)
            // The one place where a 200 is given: the event is committed.
            return JSONResponse.json(.ok) { writer in
                writer.member("position", appended.position)
                writer.member("duplicate", !appended.isNew)
                writer.member("conflict", appended.isConflict ? true : nil)
            }
        } catch {
            return refuse(error.status, error.label, error.description)
        }
    }

    func refuse(
        _ status: HTTPResponse.Status, _ label: String, _ problem: String, _ metadata: Logger.Metadata = [:]
    ) -> Response {
        metrics.noteRefusal(label)
        refusals.note(label, metadata.merging(["http.status": "\(status.code)"]) { $1 })
        return JSONResponse.error(status, problem)
    }

    /// The answer to a body that did not arrive.
    func refuse(_ failure: any Error) -> Response {
        switch failure as? BodyReader.Failure {
        case .tooLarge:
            refuse(.contentTooLarge, "body_too_large", "the body is larger than \(Limits.bodyBytesMax) bytes")
        case .noRoom:
            refuse(.serviceUnavailable, BodyReader.Failure.noRoomLabel, "too many notifications are being received")
        case .tooSlow: refuse(.requestTimeout, "body_too_slow", "the body did not arrive in time")
        case .ending: refuse(.serviceUnavailable, "server_ends", "the server ends, and the body had not arrived")
        case .incomplete, nil: refuse(.badRequest, "body_incomplete", "the body did not arrive as a whole")
        }
    }

    /// An operator opens the URL in a browser to see whether it is there.
    static func explain(_ path: RouterPath, on router: Router<BasicRequestContext>) {
        router.get(path) { _, _ in
            var response = JSONResponse.error(.methodNotAllowed, "notifications are posted to this address")
            response.headers[.allow] = "POST"
            return response
        }
    }

    /// One line for each answer. Most are of new notifications that hold nothing unusual. Those are counted, and a line
    /// for each costs measurable time.
    private func log(_ prepared: PreparedEvent, _ appended: Appended) {
        if appended.isConflict {
            logger.warning(
                "notification differs from the one stored under its id", metadata: Self.metadata(prepared, appended))
        } else if appended.isNew {
            logger.log(
                level: Self.isUnusual(prepared) ? .info : .debug, "notification stored",
                metadata: Self.metadata(prepared, appended))
        } else {
            logger.info("duplicate notification", metadata: Self.metadata(prepared, appended))
        }
    }

    private static func isUnusual(_ prepared: PreparedEvent) -> Bool {
        let event = prepared.event
        return event.kind == .other || !event.defects.isEmpty || !event.unknownFields.isEmpty || prepared.hasShortChain
    }

    private static func metadata(_ prepared: PreparedEvent, _ appended: Appended) -> Logger.Metadata {
        let event = prepared.event
        var metadata: Logger.Metadata = [
            "stream.app": "\(prepared.stream.app)",
            "stream.environment": "\(prepared.stream.environment.rawValue)",
            "event.position": "\(appended.position)", "event.kind": "\(event.kind.rawValue)",
            "event.defects": "\(event.defects.count)",
        ]
        if prepared.hasShortChain { metadata["event.short_chain"] = "true" }
        if !event.unknownFields.isEmpty {
            // Their values stay in the log of events.
            let names = event.unknownFields.prefix(Limits.loggedNamesMax)
                .map { $0.printable(Limits.loggedNameCharactersMax) }
            metadata["event.unknown_fields"] = "\(names.joined(separator: ","))"
            metadata["event.unknown_fields_count"] = "\(event.unknownFields.count)"
        }
        return metadata
    }
}

extension AppendError {
    var status: HTTPResponse.Status {
        switch self {
        case .queueFull, .unavailable, .outcomeUnknown: .serviceUnavailable
        case .refused: .internalServerError
        }
    }
}
