import AppStore
import Encoding
import EventLog
import Logging
import Metrics

/// What a question about a receipt led to. An answer has status 0 or 21006, or 21010 for a deleted account, and is not yet
/// checked: see `Apps.verify`. Credentials are rejected by status 21004 for each of the app's secrets, or without one.
package typealias ReceiptOutcome = StoreOutcome<AnswerFromApple, ReceiptStatus>

/// Asks the App Store about receipts, within each app's ``CallBudget``.
///
/// All questions of a process should share one client: budgets and breakers belong to it.
package final class ReceiptClient: Sendable {
    private let addresses: ReceiptAddresses
    private let caller: StoreCaller<ReceiptHost>

    /// - Parameter random: Returns numbers from 0 up to but excluding 1, for the pauses between calls.
    package init(
        transport: some StoreTransport, addresses: ReceiptAddresses = .apple, clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.addresses = addresses
        caller = StoreCaller(
            StoreCaller.Store(
                name: "App Store", callWaitMax: Limits.callWaitMax, answerBytesMax: Limits.answerBytesMax,
                // Another receipt may be of the app.
                holdsRejected: false, credentialsRejected: "shared secret rejected by the App Store",
                permissionRejected: "account may not ask the App Store about the app"),
            transport: transport, clock: clock, random: random,
            metrics: CallMetrics(
                "subledger_store", series: [CounterTable.Label("host", ReceiptHost.allCases)],
                results: ReceiptCall.labels, countsWaits: true, factory: factory), logger: logger)
    }

    /// Asks about a receipt: production first, the sandbox only if production says that the receipt belongs there, since App
    /// Review uses production servers with sandbox receipts.
    ///
    /// Safe to repeat: a question changes nothing at Apple. A question ends early when the task is cancelled, and then is
    /// `unavailable`.
    ///
    /// - Parameter app: Its secrets are tried in order. Its budget is that of the first question about it.
    /// - Source: Apple, "verifyReceipt".
    package func ask(_ receipt: Receipt, app: App, priority: AskPriority) async -> ReceiptOutcome {
        await caller.ask(ReceiptCall(receipt: receipt, of: app, priority: priority, addresses: addresses))
    }

    /// See ``StoreCaller/breakerState(of:)``.
    package func breakerState(of host: ReceiptHost) -> BreakerState { caller.breakerState(of: host) }

    /// The number of calls about the app that wait for its budget.
    func waiting(of app: App) -> Int { caller.waiting(in: ReceiptCall.lane(of: app.bundleId)) }
}

/// A question about a receipt.
struct ReceiptCall: StoreCall {
    private let receipt: Receipt
    private let secrets: [String]
    private let addresses: ReceiptAddresses
    let app: String
    let budget: CallBudget
    let priority: AskPriority

    init(receipt: Receipt, of app: App, priority: AskPriority, addresses: ReceiptAddresses) {
        self.receipt = receipt
        self.addresses = addresses
        self.priority = priority
        self.app = app.bundleId
        budget = app.callBudget
        secrets = app.sharedSecrets
    }

    static let labels: [CallLabel] = [
        .answered, .accountDeleted, .otherHost, .temporaryStatus, .malformed, .refused, .secretRejected, .unreadable,
        .httpStatus, .timeout, .tooLong, .unreachable, .cancelled,
    ]

    static func lane(of app: String) -> CallLane { CallLane(owner: app, part: "") }

    var host: ReceiptHost { .production }
    var lane: CallLane { Self.lane(of: app) }
    /// The current secret first, then one that replaces it.
    var credentialsMax: Int { secrets.count }
    /// Apple answers the same about a receipt of another developer's app, which anyone can hand in.
    var provesRejection: Bool { priority != .stranger }

    func credential(_ number: Int) -> Result<String?, CredentialFailure> {
        .success(secrets.indices.contains(number) ? secrets[number] : nil)
    }

    func request(to host: ReceiptHost, with secret: String?) -> StoreRequest {
        StoreRequest("POST", addresses[host], body: ReceiptRequest.body(receipt, secret: secret))
    }

    func read(
        _ response: StoreResponse, from host: ReceiptHost, at date: Instant
    ) -> CallResult<AnswerFromApple, ReceiptStatus> {
        let isOK = response.status == 200
        let failure = CallResult<AnswerFromApple, ReceiptStatus>.failed(
            .httpStatus, retryAfter: response.secondsToWait)
        let answer: AnswerFromApple
        do throws(UnreadableAnswer) {
            answer = AnswerFromApple(
                answer: try ReceiptAnswer(decoding: response.body), host: host, receipt: receipt, receivedAt: date)
        } catch {
            return isOK ? .unreadable(error.label) : failure
        }
        let status = answer.answer.status
        switch answer.action {
        // Apple sends facts with HTTP status 200 only, and a proxy's error may have a member "status" too.
        case .accept, .accountDeleted: return isOK ? .answered(answer) : failure
        case .retry: return isOK ? .refused(status, .temporary) : failure
        case .askOtherHost: return .refused(status, .otherHost)
        case .retryThenRefuse: return .refused(status, .perhapsTemporary)
        case .refuse: return .refused(status, .final)
        case .alarm: return .refused(status, .credential)
        }
    }

    func series(of host: ReceiptHost) -> [String] { [host.rawValue] }

    func label(_ result: CallResult<AnswerFromApple, ReceiptStatus>) -> CallLabel {
        switch result {
        case .answered(let answer): answer.action == .accountDeleted ? .accountDeleted : .answered
        case .unreadable: .unreadable
        case .failed(let reason, _): CallLabel(rawValue: reason.rawValue) ?? .httpStatus
        case .notMade, .rejected: .cancelled
        case .refused(let status, let kind):
            switch kind {
            case .otherHost: .otherHost
            case .temporary: .temporaryStatus
            case .perhapsTemporary: .malformed
            case .credential: .secretRejected
            case .final, .permission, .rateLimit: status.label
            }
        }
    }
}

extension ReceiptStatus: StoreRefusal {
    /// 21009 and 211xx may concern a single receipt.
    var isOutage: Bool { number == 21005 }
    var label: CallLabel { .refused }
}

extension AnswerFromApple {
    /// What Apple's status asks for.
    var action: ReceiptStatus.Action { answer.status.action(from: host, isRetryable: answer.isRetryable) }
}
