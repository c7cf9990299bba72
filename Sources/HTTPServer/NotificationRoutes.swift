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
        let receivedAt = now()
        guard let body = await collect(request) else {
            return refuse(.contentTooLarge, "body_too_large", "the body is larger than \(Limits.bodyBytesMax) bytes")
        }
        do throws(Refusal) {
            let notification = try apps.verify(body, receivedAt: receivedAt)
            return await append(notification, receivedAt: receivedAt)
        } catch {
            return refuse(error.status, error.label, error.description)
        }
    }

    /// Nil if the body is too large. A sender that goes away in the middle ends up with whatever arrived, which is
    /// no JSON, and nobody to read the answer.
    private func collect(_ request: Request) async -> [UInt8]? {
        if let announced = request.headers[.contentLength].flatMap({ Int($0) }), announced > Limits.bodyBytesMax {
            return nil
        }
        var body: [UInt8] = []
        do {
            for try await part in request.body {
                guard body.count + part.readableBytes <= Limits.bodyBytesMax else { return nil }
                body.append(contentsOf: part.readableBytesView)
            }
        } catch {
            return body
        }
        return body
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

    private func refuse(_ status: HTTPResponse.Status, _ label: String, _ problem: String) -> Response {
        Counter(label: "subledger_notifications_refused_total", dimensions: [("reason", label)]).increment()
        logger.notice(
            "notification refused", metadata: ["http.status": "\(status.code)", "refusal.reason": "\(label)"])
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
    /// 4xx for what can never become valid, 5xx for what an operator can heal: Apple then comes again.
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
