import AppStore
import Encoding
import EventLog
import Logging
import Metrics

/// What a question to the App Store Server API led to. A refused one may be one that starts again with the first page.
package typealias ServerAPIOutcome<Answer: Sendable> = StoreOutcome<Answer, ServerAPIRefusal>

/// Asks the App Store Server API, within half of Apple's limits for each app, host and endpoint.
///
/// All questions of a process should share one client: budgets, tokens and breakers belong to it.
package final class ServerAPIClient: Sendable {
    private let addresses: ServerAPIAddresses
    private let clock: StoreClock
    private let budget: @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget
    private let tokens: CallTokens
    private let caller: StoreCaller<ReceiptHost>

    /// - Parameters:
    ///   - budget: The requests to make at most, for each app.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses between calls.
    package init(
        transport: some StoreTransport, addresses: ServerAPIAddresses = .apple, clock: StoreClock,
        budget: @escaping @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget = { $0.budget($1) },
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.addresses = addresses
        self.clock = clock
        self.budget = budget
        tokens = CallTokens(clock: clock)
        caller = StoreCaller(
            StoreCaller.Store(
                name: "App Store Server API", callWaitMax: Limits.apiCallWaitMax,
                answerBytesMax: Limits.apiAnswerBytesMax, holdsRejected: true,
                credentialsRejected: "key rejected by the App Store Server API",
                permissionRejected: "key may not ask the App Store Server API about the app"),
            transport: transport, clock: clock, random: random,
            metrics: CallMetrics(
                "subledger_store_api",
                series: [
                    MetricLabel("host", ReceiptHost.allCases),
                    MetricLabel("endpoint", ServerAPIEndpoint.allCases),
                ],
                results: [
                    .answered, .notFound, .refused, .unauthorised, .rateLimited, .temporary, .unreadable, .noAnswer,
                ], factory: factory), logger: logger)
    }

    /// Asks the host whose environment is known.
    ///
    /// A question ends early when the task is cancelled, and then is `unavailable`. An answer is not verified: its signed parts
    /// must be.
    ///
    /// - Parameters:
    ///   - app: Must have a key.
    ///   - priority: Hand-ins come before checks while the budget is short.
    package func ask<Request: ServerAPIRequest>(
        _ request: Request, app: App, host: ReceiptHost, priority: AskPriority = .check
    ) async -> ServerAPIOutcome<Request.Answer> {
        guard let key = app.serverAPIKey else { preconditionFailure("the app has no key") }
        return await caller.ask(
            ServerAPICall(
                request: request, app: app.bundleId, key: key, host: host, budget: budget(request.endpoint, host),
                priority: priority, address: addresses[host], tokens: tokens, clock: clock))
    }

    /// Asks about an id of unknown environment: production first, and the sandbox only if production does not know the
    /// transaction.
    ///
    /// - Returns: The outcome, and the host that it is of.
    package func find<Request: ServerAPIRequest>(
        _ request: Request, app: App, priority: AskPriority
    ) async -> (host: ReceiptHost, outcome: ServerAPIOutcome<Request.Answer>) {
        let first = await ask(request, app: app, host: .production, priority: priority)
        guard case .refused(let refusal) = first, refusal.kind == .notFound else { return (.production, first) }
        return (.sandbox, await ask(request, app: app, host: .sandbox, priority: priority))
    }
}

/// A question to the App Store Server API.
private struct ServerAPICall<Request: ServerAPIRequest>: StoreCall {
    let request: Request
    let app: String
    let key: ServerAPIKey
    let host: ReceiptHost
    let budget: CallBudget
    let priority: AskPriority
    let address: String
    let tokens: CallTokens
    let clock: StoreClock

    var lane: CallLane { CallLane(owner: app, part: "\(host.rawValue) \(request.endpoint.rawValue)") }
    var isRepeatable: Bool { request.isRepeatable }
    /// A token is one of an app and a key.
    private var account: String { "\(app) \(key.issuerId) \(key.keyId)" }

    func credential(_ number: Int) async -> Result<String?, CredentialFailure> {
        await tokens.token(of: account) { [clock, key, app] in
            guard let text = try? key.token(for: app, at: clock.date()) else { return .failure(.rejected) }
            return .success(CallTokens.Token(text: text, renewAt: clock.now() + Limits.apiTokenAgeMax))
        }
    }

    func drop(_ token: String) { tokens.drop(token, of: account) }

    func request(to host: ReceiptHost, with token: String?) -> StoreRequest {
        StoreRequest(request.method, address + request.path, token: token, body: request.body)
    }

    func read(
        _ response: StoreResponse, from host: ReceiptHost, at date: Instant
    ) -> CallResult<Request.Answer, ServerAPIRefusal> {
        guard (200...206).contains(response.status) else {
            let refusal = ServerAPIRefusal(httpStatus: response.status, body: response.body)
            let kind: RefusalKind =
                switch refusal.kind {
                case .unauthorised: .credential
                case .rateLimited: .rateLimit(RetryAfter.wait(response.retryAfter, at: date))
                case .temporary: .temporary
                case .pageLost, .notFound, .final: .final
                }
            return .refused(refusal, kind)
        }
        do throws(UnreadableJSON) {
            return .answered(try request.answer(decoding: response.body))
        } catch {
            return .unreadable(error.label)
        }
    }

    func series(of host: ReceiptHost) -> [String] { [host.rawValue, request.endpoint.rawValue] }
}

extension ServerAPIRefusal: StoreRefusal {
    var isOutage: Bool { httpStatus >= 500 }
    var label: CallLabel { kind == .notFound ? .notFound : .refused }
}
