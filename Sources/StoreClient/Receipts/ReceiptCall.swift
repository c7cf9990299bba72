import AppStore

/// The result of one call to verifyReceipt.
enum ReceiptCall: Sendable {
    case answered(AnswerFromApple)
    /// - Parameter label: From a closed list.
    case unreadable(label: String)
    /// - Parameter retryAfter: As requested by the host.
    case failed(Unavailability, retryAfter: Duration?)
    /// No request was sent.
    case notMade(Unavailability, retryAfter: Duration)
}

/// The label of a call in metrics.
enum CallLabel: String, CaseIterable {
    case answered
    case accountDeleted = "account_deleted"
    case otherHost = "other_host"
    case temporaryStatus = "temporary_status"
    /// Status 21002.
    case malformed
    case refused
    case secretRejected = "secret_rejected"
    case unreadable
    case httpStatus = "http_status"
    case timeout
    case tooLong = "too_long"
    case unreachable
    case cancelled

    /// Nil for a call that was not made.
    init?(_ call: ReceiptCall) {
        switch call {
        case .answered(let answer): self.init(answer.action)
        case .unreadable: self = .unreadable
        case .failed(let reason, _): self.init(rawValue: reason.rawValue)
        case .notMade: return nil
        }
    }

    private init(_ action: ReceiptStatus.Action) {
        self =
            switch action {
            case .accept: .answered
            case .accountDeleted: .accountDeleted
            case .askOtherHost: .otherHost
            case .retry: .temporaryStatus
            case .retryThenRefuse: .malformed
            case .refuse: .refused
            case .alarm: .secretRejected
            }
    }
}

extension AnswerFromApple {
    /// What Apple's status asks for.
    var action: ReceiptStatus.Action { answer.status.action(from: host, isRetryable: answer.isRetryable) }
}
