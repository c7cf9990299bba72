import AppStore
import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Subscriptions

/// `POST /apple/notifications`: from the bytes of a request to a durable event and its 200.
struct NotificationRoutes: Sendable {
    let verifier: NotificationVerifier
    let appender: Appender
    let quarantine: QuarantineKeeper
    let now: @Sendable () -> Instant
    let logger: Logger
    private let bodies = BodyReader()
    private let localStreams = LocalStreams()
    private let metrics = NotificationMetrics()
    private let refusals: RefusalLog

    init(
        verifier: NotificationVerifier, appender: Appender, quarantine: QuarantineKeeper,
        now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.verifier = verifier
        self.appender = appender
        self.quarantine = quarantine
        self.now = now
        self.logger = logger
        refusals = RefusalLog(logger: logger)
    }

    func add(to router: Router<BasicRequestContext>) {
        router.post("/apple/notifications") { request, _ in await receive(request) }
        // An operator opens the URL in a browser to see whether it is there.
        router.get("/apple/notifications") { _, _ in
            var response = JSONResponse.error(.methodNotAllowed, "notifications are posted to this address")
            response.headers[.allow] = "POST"
            return response
        }
    }

    private func receive(_ request: Request) async -> Response {
        do {
            // What waits for its commit holds no body any more, only what will be stored.
            let prepared = try await bodies.withBody(of: request) { body in
                let receivedAt = now()
                switch try await verifier.examine(body, receivedAt: receivedAt) {
                case .verified(let notification):
                    try localStreams.admit(notification.stream, bodyBytes: body.count)
                    return PreparedEvent(notification, receivedAt: receivedAt)
                case .unconfigured(let notification):
                    throw await quarantine.keep(notification, receivedAt: receivedAt)
                }
            }
            return await append(prepared)
        } catch let refusal as Refusal {
            var metadata: Logger.Metadata = [:]
            if let app = refusal.app { metadata["stream.app"] = "\(app)" }
            return refuse(refusal.status, refusal.label, refusal.description, metadata)
        } catch let refusal as QuarantineKeeper.Refusal {
            let unknown = Refusal.appUnknown
            var metadata: Logger.Metadata = ["quarantine.outcome": "\(refusal.outcome.rawValue)"]
            if refusal.dropped > 0 { metadata["quarantine.dropped"] = "\(refusal.dropped)" }
            return refuse(unknown.status, unknown.label, unknown.description, metadata)
        } catch let excess as LocalStreams.Excess {
            return refuse(excess.status, excess.rawValue, excess.problem)
        } catch BodyReader.Failure.tooLarge {
            return refuse(.contentTooLarge, "body_too_large", "the body is larger than \(Limits.bodyBytesMax) bytes")
        } catch BodyReader.Failure.noRoom {
            return refuse(.serviceUnavailable, "bodies_full", "too many notifications are being received")
        } catch BodyReader.Failure.tooSlow {
            return refuse(.requestTimeout, "body_too_slow", "the body did not arrive in time")
        } catch BodyReader.Failure.ending {
            return refuse(.serviceUnavailable, "server_ends", "the server ends, and the body had not arrived")
        } catch {
            return refuse(.badRequest, "body_incomplete", "the body did not arrive as a whole")
        }
    }

    private func append(_ prepared: PreparedEvent) async -> Response {
        do throws(AppendError) {
            let appended = try await appender.append(prepared)
            metrics.note(prepared, appended)
            localStreams.note(prepared.stream, appended.position)
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

    /// One line for each answer. Most are of new notifications that hold nothing unusual. Those are counted, and a line
    /// for each costs measurable time.
    private func log(_ prepared: PreparedEvent, _ appended: Appended) {
        if appended.isConflict {
            logger.warning(
                "notification differs from the one stored under its notificationUUID",
                metadata: Self.metadata(prepared, appended))
        } else if appended.isNew {
            logger.log(
                level: Self.isUnusual(prepared.event) ? .info : .debug, "notification stored",
                metadata: Self.metadata(prepared, appended))
        } else {
            logger.info("duplicate notification", metadata: Self.metadata(prepared, appended))
        }
    }

    private static func isUnusual(_ event: Event) -> Bool {
        event.kind == .other || !event.defects.isEmpty || !event.unknownFields.isEmpty
    }

    private static func metadata(_ prepared: PreparedEvent, _ appended: Appended) -> Logger.Metadata {
        let event = prepared.event
        var metadata: Logger.Metadata = [
            "stream.app": "\(prepared.stream.app)",
            "stream.environment": "\(prepared.stream.environment.rawValue)",
            "event.position": "\(appended.position)", "event.kind": "\(event.kind.rawValue)",
            "event.defects": "\(event.defects.count)",
        ]
        if !event.unknownFields.isEmpty {
            // Their values stay in the log of events.
            let names = event.unknownFields.prefix(Limits.loggedNamesMax)
                .map { $0.printable(Limits.loggedNameCharactersMax) }
            metadata["event.unknown_fields"] = "\(names.joined(separator: ","))"
            metadata["event.unknown_fields_count"] = "\(event.unknownFields.count)"
        }
        return metadata
    }

    private func refuse(
        _ status: HTTPResponse.Status, _ label: String, _ problem: String, _ metadata: Logger.Metadata = [:]
    ) -> Response {
        metrics.noteRefusal(label)
        refusals.note(label, metadata.merging(["http.status": "\(status.code)"]) { $1 })
        return JSONResponse.error(status, problem)
    }
}

extension Refusal {
    /// 4xx for what is not a notification of ours, 5xx for what waits for an operator or for another server. Apple
    /// comes again after both, so a secret that was changed there first heals as well.
    var status: HTTPResponse.Status {
        switch self {
        case .undecodable, .appMissing: .badRequest
        case .unverified(.revocationUnknown, _): .serviceUnavailable
        case .secretMissing, .secretWrong, .unverified, .mismatch, .appWrong, .appleIdWrong, .environmentRefused:
            .forbidden
        case .appUnknown, .appAmbiguous: .serviceUnavailable
        }
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
