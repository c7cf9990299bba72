import AppStore
import Encoding

/// One question to a store: how its calls are made, and how a response is read. ``StoreCaller`` does everything else.
protocol StoreCall<Host>: Sendable {
    associatedtype Host: StoreHost
    associatedtype Answer: Sendable
    associatedtype Refusal: StoreRefusal

    /// The bundle id or package name.
    var app: String { get }
    /// The host that is called first.
    var host: Host { get }
    var lane: CallLane { get }
    /// That of the first call in a lane counts for all.
    var budget: CallBudget { get }
    var priority: AskPriority { get }
    /// Whether the same request may be sent again when it is unknown what came of the first one.
    var isRepeatable: Bool { get }
    /// How many credentials are tried.
    var credentialsMax: Int { get }
    /// Whether the rejection of all credentials says something about the app, and not just about this question.
    var provesRejection: Bool { get }

    /// - Parameter number: 0, or how many credentials were rejected.
    /// - Returns: Nil for a call without one.
    func credential(_ number: Int) async -> Result<String?, CredentialFailure>
    /// Called with each credential that the store rejects.
    func drop(_ credential: String)
    /// Counts a call within limits that are longer than the budget. Returns how long to wait if they are used up.
    func takeOfQuota(_ rank: CallRank) -> Duration?
    func request(to host: Host, with credential: String?) -> StoreRequest
    /// - Parameter date: Our clock.
    func read(_ response: StoreResponse, from host: Host, at date: Instant) -> CallResult<Answer, Refusal>
    /// The values of the labels of the metric, without the result.
    func series(of host: Host) -> [String]
    func label(_ result: CallResult<Answer, Refusal>) -> CallLabel
}

extension StoreCall {
    var isRepeatable: Bool { true }
    /// The usual token, and a new one.
    var credentialsMax: Int { 2 }
    var provesRejection: Bool { true }
    func drop(_ credential: String) {}
    func takeOfQuota(_ rank: CallRank) -> Duration? { nil }

    func label(_ result: CallResult<Answer, Refusal>) -> CallLabel {
        switch result {
        case .answered: .answered
        case .unreadable: .unreadable
        case .failed, .notMade, .rejected: .noAnswer
        case .refused(let refusal, let kind):
            switch kind {
            case .final, .perhapsTemporary, .otherHost: refusal.label
            case .temporary: .temporary
            case .credential: .unauthorised
            case .permission: .forbidden
            case .rateLimit: .rateLimited
            }
        }
    }
}

/// The hosts of a store that are asked about apps. The raw values are words for logs and metrics.
protocol StoreHost: RawRepresentable<String>, CaseIterable, Hashable, Sendable {
    /// The same host if there is no other one.
    var other: Self { get }
}

extension ReceiptHost: StoreHost {}

/// What a store limits separately.
struct CallLane: Sendable, Hashable {
    /// The app or account.
    let owner: String
    /// What of it: the host and endpoint, or the group of requests.
    let part: String
}

/// An error that a store answers.
protocol StoreRefusal: Sendable {
    /// Whether it says that the store is down.
    var isOutage: Bool { get }
    /// The label of one that is final.
    var label: CallLabel { get }
}

/// What to do about a refusal.
enum RefusalKind: Sendable, Hashable {
    /// The same request will fail again.
    case final
    /// The store may answer later.
    case temporary
    /// The same, and final after a few tries.
    case perhapsTemporary
    /// Try the next credential.
    case credential
    /// The account may not ask this, or not about the app.
    case permission
    /// Too many requests. The duration is how long to wait.
    case rateLimit(Duration)
    /// The other host knows the answer.
    case otherHost
}

/// Why there is no credential.
enum CredentialFailure: Error, Sendable, Hashable {
    /// A person must repair what the app is configured with.
    case rejected
    case unavailable(Unavailability, retryAfter: Duration)
}

/// What came of one call.
enum CallResult<Answer: Sendable, Refusal: StoreRefusal>: Sendable {
    case answered(Answer)
    case refused(Refusal, RefusalKind)
    /// The label of the defect, from a closed list.
    case unreadable(String)
    /// - Parameter retryAfter: As requested by the host.
    case failed(Unavailability, retryAfter: Duration? = nil)
    /// No request was sent.
    case notMade(Unavailability, retryAfter: Duration)
    /// No request was sent.
    case rejected(Rejection)

    /// A host that refuses works, and one with a long answer. One that answers 5xx does not.
    var breakerResult: CircuitBreaker.Result {
        switch self {
        case .answered, .failed(.tooLong, _): .answered
        case .refused(let refusal, _): refusal.isOutage ? .failed : .answered
        case .failed(.cancelled, _), .notMade, .rejected: .abandoned
        case .failed, .unreadable: .failed
        }
    }
}
