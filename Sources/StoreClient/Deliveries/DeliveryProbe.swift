import AppStore
import Encoding
import EventLog
import Subscriptions

/// Lets Apple post a test notification and follows it on its way into the log.
package struct DeliveryProbe: Sendable {
    private let client: ServerAPIClient
    private let verifier: NotificationVerifier
    private let deliveries: DeliveryLog
    private let clock: StoreClock

    /// - Parameter deliveries: With the rights of `subledger_poller`.
    package init(
        client: ServerAPIClient, verifier: NotificationVerifier, deliveries: DeliveryLog, clock: StoreClock
    ) {
        self.client = client
        self.verifier = verifier
        self.deliveries = deliveries
        self.clock = clock
    }

    /// The steps of a test notification, in their order. The raw values are their names in reports.
    package enum Step: String, Sendable, CaseIterable {
        /// Apple accepts the key and has a notification URL.
        case request
        /// Apple has made its attempt.
        case attempt
        /// Apple finds the address and reaches a server.
        case connection
        case tls = "TLS"
        /// The server that Apple reaches is Subledger, and accepts the notification.
        case route
        /// The notification is verified with the trusted roots and the configured app.
        case signature
        /// It is in this database.
        case log
    }

    /// The first step that does not work.
    package struct Problem: Error, Sendable, Hashable {
        package enum Cause: Sendable, Hashable {
            case configuration
            /// Apple does not answer.
            case unavailable
            case delivery
        }

        package let step: Step
        package let cause: Cause
        /// One line.
        package let text: String
    }

    /// Follows a test notification to its end.
    ///
    /// - Parameters:
    ///   - app: Must have a key.
    ///   - limit: How long to wait for Apple's attempt, and for the event.
    ///   - onStep: Called with each step that works, in their order.
    /// - Returns: Nil if all steps work.
    /// - Throws: ``ReadError``, or `CancellationError`.
    package func run(
        _ app: App, on host: ReceiptHost, within limit: Duration, onStep: (Step) -> Void
    ) async throws -> Problem? {
        let end = clock.now() + limit
        let token: String
        switch await client.ask(TestNotificationRequest(), app: app, host: host, priority: .handIn) {
        case .answered(let answer): token = answer
        case .refused(let refusal) where refusal.code == Self.noURL:
            return Problem(
                step: .request, cause: .configuration,
                text: "App Store Connect has no notification URL for the \(host.rawValue) environment of the app")
        case let outcome: return Self.problem(outcome, at: .request)
        }
        onStep(.request)
        let sent: SentNotification
        switch try await status(token, app, host, until: end) {
        case .success(let answer): sent = answer
        case .failure(let problem): return problem
        }
        onStep(.attempt)
        let signature = await signatureProblem(sent, of: app, on: host)
        if let problem = Self.deliveryProblem(sent, isRefused: signature, onStep) { return problem }
        if let signature { return signature }
        onStep(.signature)
        guard let key = sent.identity?.key else {
            return Problem(step: .log, cause: .delivery, text: "Apple's notification has no date")
        }
        let stream = StreamKey(app: app.bundleId, environment: host.environment)
        while try await deliveries.places(of: [key], in: stream).isEmpty {
            guard clock.now() < end else {
                return Problem(
                    step: .log, cause: .delivery,
                    text: "a server accepted the notification, and it is not in this database: is it another's?")
            }
            try await clock.sleep(clock.now() + Limits.probeLookInterval)
        }
        onStep(.log)
        return nil
    }

    /// Waits until Apple has made an attempt.
    private func status(
        _ token: String, _ app: App, _ host: ReceiptHost, until end: ContinuousClock.Instant
    ) async throws -> Result<SentNotification, Problem> {
        let request = TestNotificationStatusRequest(token: token)
        while true {
            try await clock.sleep(clock.now() + Limits.probeStatusInterval)
            switch await client.ask(request, app: app, host: host, priority: .handIn) {
            case .answered(let sent) where !sent.attempts.isEmpty: return .success(sent)
            case .answered: break
            case .refused(let refusal) where refusal.code == Self.notYet: break
            case let outcome: return .failure(Self.problem(outcome, at: .attempt))
            }
            guard clock.now() < end else {
                return .failure(
                    Problem(step: .attempt, cause: .unavailable, text: "Apple has made no attempt in this time"))
            }
        }
    }

    private func signatureProblem(_ sent: SentNotification, of app: App, on host: ReceiptHost) async -> Problem? {
        do throws(Refusal) {
            let verified = try await verifier.verify(fetched: sent.body, receivedAt: clock.date())
            guard verified.stream == StreamKey(app: app.bundleId, environment: host.environment) else {
                return Problem(
                    step: .signature, cause: .configuration, text: "the notification is of another app or environment")
            }
            return nil
        } catch {
            return Problem(step: .signature, cause: .configuration, text: "\(error)")
        }
    }

    /// - Parameter signature: Why a server of this configuration refuses the notification; nil if it does not.
    private static func deliveryProblem(
        _ sent: SentNotification, isRefused signature: Problem?, _ onStep: (Step) -> Void
    ) -> Problem? {
        let result = sent.attempts.first(where: \.isSuccess)?.result ?? sent.attempts[0].result
        let (step, text) = reading(of: result)
        for earlier in [Step.connection, .tls, .route] {
            guard earlier != step else {
                // The server refused it for a reason that is known.
                if step == .route, result == "UNSUCCESSFUL_HTTP_RESPONSE_CODE", let signature { return signature }
                return Problem(step: earlier, cause: .delivery, text: "\(text) (Apple: \(result))")
            }
            onStep(earlier)
        }
        return nil
    }

    /// The step that fails with a result of an attempt, and why; no step for success.
    ///
    /// - Source: Apple, "sendAttemptResult".
    private static func reading(of result: String) -> (Step?, String) {
        switch result {
        case "SUCCESS": (nil, "")
        case "NO_RESPONSE", "SOCKET_ISSUE", "PREMATURE_CLOSE":
            (.connection, "Apple reaches no server: check the host name, DNS and the firewall")
        case "TLS_ISSUE": (.tls, "Apple does not accept the certificate or the version of TLS")
        case "TIMED_OUT": (.route, "the answer took too long")
        case "CIRCULAR_REDIRECT": (.route, "the URL redirects in a circle")
        case "UNSUPPORTED_CHARSET", "INVALID_RESPONSE": (.route, "what answers at the URL is not Subledger")
        case "UNSUCCESSFUL_HTTP_RESPONSE_CODE":
            (.route, "the URL answers with an error: check its path, the proxy, and the server's log and health")
        default: (.route, "the attempt failed")
        }
    }

    private static func problem<Answer>(_ outcome: ServerAPIOutcome<Answer>, at step: Step) -> Problem {
        switch outcome {
        case .answered: Problem(step: step, cause: .unavailable, text: "the answer is unusable")
        case .refused(let refusal): Problem(step: step, cause: .configuration, text: "\(refusal)")
        case .rejected:
            Problem(
                step: step, cause: .configuration,
                text: "the App Store rejects the key: check the key, its ids, the clock, and that the app is released")
        case .unreadable: Problem(step: step, cause: .unavailable, text: "the App Store's answer is not understood")
        case .unavailable(let reason, _):
            Problem(step: step, cause: .unavailable, text: "the App Store does not answer (\(reason))")
        }
    }

    /// There is no notification URL.
    private static let noURL: Int64 = 4_040_007
    /// The attempt has not ended, or the token is too old.
    private static let notYet: Int64 = 4_040_008
}
