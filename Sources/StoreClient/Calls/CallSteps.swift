/// The steps of one question: which host is called with which credential, and when the question ends. It has no clock, and
/// sends nothing.
struct CallSteps<Host: StoreHost>: Sendable {
    enum Step<Answer: Sendable, Refusal: StoreRefusal>: Sendable {
        /// Call now.
        case call
        /// Call after a pause.
        case retry(after: Duration)
        case end(StoreOutcome<Answer, Refusal>)
    }

    private(set) var host: Host
    private(set) var isFirst = true
    /// The number of credentials that were rejected.
    private(set) var rejections = 0
    private let credentialsMax: Int
    private let isRepeatable: Bool
    private var hasSwitched = false
    private var retries = 0

    init(_ call: some StoreCall<Host>) {
        host = call.host
        credentialsMax = call.credentialsMax
        isRepeatable = call.isRepeatable
    }

    /// - Parameter part: Random, from 0 up to but excluding 1. Evaluated for a retry only.
    mutating func step<Answer, Refusal>(
        after result: CallResult<Answer, Refusal>, part: @autoclosure () -> Double
    ) -> Step<Answer, Refusal> {
        isFirst = false
        switch result {
        case .answered(let answer): return .end(.answered(answer))
        case .refused(let refusal, let kind): return step(after: refusal, kind, part())
        case .unreadable(let label): return retry(part(), isAllowed: isRepeatable) ?? .end(.unreadable(label))
        case .failed(.cancelled, _): return .end(.unavailable(.cancelled, retryAfter: .zero))
        // The next answer would be as long.
        case .failed(.tooLong, _): return .end(.unavailable(.tooLong, retryAfter: Limits.pauseMax))
        case .failed(let reason, let retryAfter):
            let pause = min(retryAfter ?? .zero, Limits.pauseMax)
            return retry(part(), atLeast: pause, isAllowed: isRepeatable && pause <= Limits.retryAfterMax)
                ?? .end(.unavailable(reason, retryAfter: max(pause, Limits.unavailablePause)))
        case .notMade(let reason, let retryAfter): return .end(.unavailable(reason, retryAfter: retryAfter))
        case .rejected(let rejection): return .end(.rejected(rejection))
        }
    }

    private mutating func step<Answer, Refusal>(
        after refusal: Refusal, _ kind: RefusalKind, _ part: @autoclosure () -> Double
    ) -> Step<Answer, Refusal> {
        switch kind {
        case .final: return .end(.refused(refusal))
        case .temporary:
            return retry(part()) ?? .end(.unavailable(.temporaryStatus, retryAfter: Limits.unavailablePause))
        case .perhapsTemporary: return retry(part()) ?? .end(.refused(refusal))
        case .credential:
            rejections += 1
            return rejections < credentialsMax ? .call : .end(.rejected(.credentials))
        case .permission: return .end(.rejected(.permission))
        case .rateLimit(let wait): return .end(.unavailable(.budget, retryAfter: wait))
        case .otherHost:
            // Each refers to the other.
            guard !hasSwitched else { return .end(.refused(refusal)) }
            hasSwitched = true
            host = host.other
            return .call
        }
    }

    /// Returns nil if the question has used up its retries, or may not be repeated.
    private mutating func retry<Answer, Refusal>(
        _ part: @autoclosure () -> Double, atLeast pause: Duration = .zero, isAllowed: Bool = true
    ) -> Step<Answer, Refusal>? {
        guard isAllowed, retries < Limits.retriesMax else { return nil }
        retries += 1
        return .retry(after: max(RepeatPause.call.pause(after: retries, part: part()), pause))
    }
}
