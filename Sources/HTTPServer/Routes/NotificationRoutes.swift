import AppStore
import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Logging
import Subscriptions

/// `POST /apple/notifications`: from the bytes of a request to a durable event and its 200.
struct NotificationRoutes: Sendable {
    let verifier: NotificationVerifier
    let quarantine: QuarantineKeeper
    let answers: NotificationAnswers
    let bodies: BodyReader
    let now: @Sendable () -> Instant
    private let localStreams = LocalStreams()

    init(
        verifier: NotificationVerifier, quarantine: QuarantineKeeper, answers: NotificationAnswers, bodies: BodyReader,
        now: @escaping @Sendable () -> Instant
    ) {
        self.verifier = verifier
        self.quarantine = quarantine
        self.answers = answers
        self.bodies = bodies
        self.now = now
    }

    func add(to router: Router<BasicRequestContext>) {
        router.post("/apple/notifications") { request, _ in await receive(request) }
        NotificationAnswers.explain("/apple/notifications", on: router)
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
            return await answers.append(prepared) { position in localStreams.note(prepared.stream, position) }
        } catch let refusal as Refusal {
            var metadata: Logger.Metadata = [:]
            if let app = refusal.app { metadata["stream.app"] = "\(app)" }
            return answers.refuse(refusal.status, refusal.label, refusal.description, metadata)
        } catch let refusal as QuarantineKeeper.Refusal {
            let unknown = Refusal.appUnknown
            var metadata: Logger.Metadata = ["quarantine.outcome": "\(refusal.outcome.rawValue)"]
            if refusal.dropped > 0 { metadata["quarantine.dropped"] = "\(refusal.dropped)" }
            return answers.refuse(unknown.status, unknown.label, unknown.description, metadata)
        } catch let excess as LocalStreams.Excess {
            return answers.refuse(excess.status, excess.rawValue, excess.problem)
        } catch {
            return answers.refuse(error)
        }
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
