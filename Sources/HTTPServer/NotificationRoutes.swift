import AppStore
import EventLog
import HTTPTypes
import Hummingbird
import Logging
import Metrics
import NIOCore
import Subscriptions

/// `POST /apple/notifications`: from the bytes of a request to a durable event and its 200.
struct NotificationRoutes: Sendable {
    let apps: Apps
    let appender: Appender
    let now: @Sendable () -> Instant
    let logger: Logger
    private let bodies = BodyReader()

    init(apps: Apps, appender: Appender, now: @escaping @Sendable () -> Instant, logger: Logger) {
        self.apps = apps
        self.appender = appender
        self.now = now
        self.logger = logger
    }

    func add(to router: Router<BasicRequestContext>) {
        router.post("/apple/notifications") { request, _ in await receive(request) }
        // An operator opens the URL in a browser to see whether it is there.
        router.get("/apple/notifications") { _, _ in
            var response = Answer.error(.methodNotAllowed, "notifications are posted to this address")
            response.headers[.allow] = "POST"
            return response
        }
    }

    private func receive(_ request: Request) async -> Response {
        do {
            return try await bodies.withBody(of: request) { body in
                let receivedAt = now()
                let notification = try apps.verify(body, receivedAt: receivedAt)
                return await append(notification, receivedAt: receivedAt)
            }
        } catch let refusal as Refusal {
            var metadata: Logger.Metadata = [:]
            if case .secretWrong(let app?) = refusal { metadata["stream.app"] = "\(app)" }
            return refuse(refusal.status, refusal.label, refusal.description, metadata)
        } catch BodyReader.Failure.tooLarge {
            return refuse(.contentTooLarge, "body_too_large", "the body is larger than \(Limits.bodyBytesMax) bytes")
        } catch BodyReader.Failure.noRoom {
            return refuse(.serviceUnavailable, "bodies_full", "too many notifications are being received")
        } catch BodyReader.Failure.tooSlow {
            return refuse(.requestTimeout, "body_too_slow", "the body did not arrive in time")
        } catch {
            return refuse(.badRequest, "body_incomplete", "the body did not arrive as a whole")
        }
    }

    private func append(_ notification: VerifiedNotification, receivedAt: Instant) async -> Response {
        let event = notification.event
        do throws(AppendError) {
            let appended = try await appender.append(notification, receivedAt: receivedAt)
            count(event, isNew: appended.isNew)
            logger.info(
                appended.isNew ? "notification stored" : "notification known already",
                metadata: [
                    "stream.app": "\(notification.stream.app)",
                    "stream.environment": "\(notification.stream.environment.rawValue)",
                    "event.position": "\(appended.position)", "event.kind": "\(event.kind.rawValue)",
                    "event.defects": "\(event.defects.count)",
                ])
            // The one place where a 200 is given: the event is committed.
            return Answer.json(.ok) { writer in
                writer.member("position", appended.position)
                writer.member("duplicate", !appended.isNew)
            }
        } catch {
            return refuse(error.status, error.label, error.description)
        }
    }

    private func refuse(
        _ status: HTTPResponse.Status, _ label: String, _ problem: String, _ metadata: Logger.Metadata = [:]
    ) -> Response {
        Counter(label: "subledger_notifications_refused_total", dimensions: [("reason", label)]).increment()
        logger.notice(
            "notification refused",
            metadata: metadata.merging(["http.status": "\(status.code)", "refusal.reason": "\(label)"]) { $1 })
        return Answer.error(status, problem)
    }

    private func count(_ event: Event, isNew: Bool) {
        let outcome = isNew ? "stored" : "duplicate"
        Counter(label: "subledger_notifications_total", dimensions: [("outcome", outcome)]).increment()
        guard isNew else { return }
        if event.kind == .other { Counter(label: "subledger_unknown_types_total").increment() }
        if !event.defects.isEmpty {
            Counter(label: "subledger_defects_total").increment(by: event.defects.count)
        }
    }
}

extension Refusal {
    /// 4xx for what is not a notification of ours, 5xx for what waits for an operator. Apple comes again after both,
    /// so a secret that was changed there first heals as well.
    var status: HTTPResponse.Status {
        switch self {
        case .undecodable(.signed): .notImplemented
        case .undecodable(.notJSON), .undecodable(.notAnObject), .undecodable(.notANotification): .badRequest
        case .secretMissing, .secretWrong: .forbidden
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
