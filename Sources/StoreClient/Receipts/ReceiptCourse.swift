import AppStore

/// The course of one question: which host to call with which secret, and when the question ends.
///
/// Production is asked first, since App Review uses production servers with sandbox receipts.
///
/// - Source: Apple, "verifyReceipt".
struct ReceiptCourse: Sendable {
    enum Step: Sendable {
        /// Call again, now.
        case call
        /// Call again after a pause. The number of the retry determines the pause, which is at least the given one.
        case retry(Int, atLeast: Duration)
        case end(ReceiptOutcome)
    }

    private(set) var host = ReceiptHost.production
    private(set) var isFirstCall = true
    private let secrets: [String]
    private var secretIndex = 0
    private var hasSwitched = false
    private var retries = 0

    /// - Parameter secrets: The app's secrets, the current one first.
    init(secrets: [String]) {
        self.secrets = secrets
    }

    /// Nil if the app has no secret.
    var secret: String? { secrets.indices.contains(secretIndex) ? secrets[secretIndex] : nil }

    mutating func step(after call: ReceiptCall) -> Step {
        isFirstCall = false
        switch call {
        case .answered(let answer): return step(after: answer)
        case .unreadable(let label): return retry() ?? .end(.unreadable(label))
        case .failed(.cancelled, _): return .end(Self.unavailable(.cancelled, .zero))
        // The next answer would be as long.
        case .failed(.tooLong, _): return .end(Self.unavailable(.tooLong, Limits.pauseMax))
        case .failed(let reason, let retryAfter):
            let pause = min(retryAfter ?? .zero, Limits.pauseMax)
            guard pause <= Limits.retryAfterMax, let step = retry(atLeast: pause) else {
                return .end(Self.unavailable(reason, max(pause, Limits.unavailablePause)))
            }
            return step
        case .notMade(let reason, let retryAfter): return .end(Self.unavailable(reason, retryAfter))
        }
    }

    private mutating func step(after answer: AnswerFromApple) -> Step {
        let status = answer.answer.status
        switch answer.action {
        case .accept: return .end(.answered(answer))
        case .accountDeleted: return .end(.accountDeleted(answer))
        case .askOtherHost:
            guard !hasSwitched else { return .end(.refused(status)) }
            hasSwitched = true
            host = host.other
            return .call
        case .retry: return retry() ?? .end(Self.unavailable(.temporaryStatus, Limits.unavailablePause))
        case .retryThenRefuse: return retry() ?? .end(.refused(status))
        case .refuse: return .end(.refused(status))
        case .alarm:
            // A secret that is being replaced.
            guard secretIndex + 1 < secrets.count else { return .end(.secretRejected) }
            secretIndex += 1
            return .call
        }
    }

    /// Returns nil if the question has used up its retries.
    private mutating func retry(atLeast pause: Duration = .zero) -> Step? {
        guard retries < Limits.retriesMax else { return nil }
        retries += 1
        return .retry(retries, atLeast: pause)
    }

    private static func unavailable(_ reason: Unavailability, _ pause: Duration) -> ReceiptOutcome {
        .unavailable(reason.rawValue, retryAfter: pause)
    }
}
