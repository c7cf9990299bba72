import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Logging
import Metrics
import PlayStore

/// `POST /google/notifications`: from a push of Cloud Pub/Sub to a durable event and its 200.
///
/// Pub/Sub repeats whatever is not answered with success, for seven days. So nothing is lost by a refusal that an operator
/// or another server can heal.
struct GoogleNotificationRoutes: Sendable {
    let verifier: PushVerifier
    let keys: any PushKeys
    let answers: NotificationAnswers
    let bodies: BodyReader
    let now: @Sendable () -> Instant
    private let openPushes = OpenPushes()
    private let repeated = Counter(label: "subledger_google_pushes_repeated_total")

    init(
        verifier: PushVerifier, keys: any PushKeys, answers: NotificationAnswers, bodies: BodyReader,
        now: @escaping @Sendable () -> Instant
    ) {
        self.verifier = verifier
        self.keys = keys
        self.answers = answers
        self.bodies = bodies
        self.now = now
        repeated.increment(by: 0)
    }

    func add(to router: Router<BasicRequestContext>) {
        router.post("/google/notifications") { request, _ in await receive(request) }
        NotificationAnswers.explain("/google/notifications", on: router)
    }

    private func receive(_ request: Request) async -> Response {
        do {
            // What waits for its commit holds no body any more, only what will be stored.
            let prepared = try await bodies.withBody(of: request) { body in
                let receivedAt = now()
                let message = try PushMessage(decoding: body, headers: PushHeaders(request.headers))
                let push = try await verify(message, request.headers[.authorization], at: receivedAt)
                try openPushes.admit(push, bodyBytes: body.count)
                if let attempt = push.deliveryAttempt, attempt > 1 { repeated.increment() }
                return PreparedEvent(push, receivedAt: receivedAt)
            }
            return await answers.append(prepared)
        } catch let problem as UndecodablePush {
            return answers.refuse(.badRequest, problem.label, problem.description)
        } catch let refusal as PushRefusal {
            return answers.refuse(refusal.status, refusal.label, refusal.description)
        } catch let excess as OpenPushes.Excess {
            return answers.refuse(excess.status, excess.rawValue, excess.problem)
        } catch is KeysUnavailable {
            return answers.refuse(
                .serviceUnavailable, KeysUnavailable.label, "the keys of Google cannot be fetched at the moment")
        } catch {
            return answers.refuse(error)
        }
    }

    /// Verifies a push; fetches Google's keys if its key is not among the known ones.
    private func verify(
        _ message: PushMessage, _ authorization: String?, at now: Instant
    ) async throws -> VerifiedPush {
        do throws(PushRefusal) {
            return try verifier.verify(message, authorization: authorization, keys: keys.known, now: now)
        } catch {
            guard error == .keyUnknown else { throw error }
        }
        guard let keys = await keys.fetched() else { throw KeysUnavailable() }
        return try verifier.verify(message, authorization: authorization, keys: keys, now: now)
    }
}

/// It is not known whether a push is genuine. Another server may know.
struct KeysUnavailable: Error {
    static let label = "keys_unavailable"
}

extension PushRefusal {
    /// 403 for a sender that proves nothing, 503 for what waits for an operator.
    var status: HTTPResponse.Status {
        switch self {
        case .tokenMissing, .tokenInvalid, .keyUnknown, .subscriptionWrong: .forbidden
        case .appUnknown: .serviceUnavailable
        }
    }

    /// Those that an operator should be alerted to.
    static var alarming: [PushRefusal] {
        [.tokenMissing, .keyUnknown, .subscriptionWrong, .appUnknown]
            + IdentityTokenFailure.allCases.map { .tokenInvalid($0) }
    }
}

extension PushHeaders {
    init(_ headers: HTTPFields) {
        func header(_ name: String) -> String? { HTTPField.Name(name).flatMap { headers[$0] } }
        self.init(
            messageId: header("x-goog-pubsub-message-id"), publishTime: header("x-goog-pubsub-publish-time"),
            subscription: header("x-goog-pubsub-subscription-name"))
    }
}
