import Encoding

/// A way in which the simulated Google Play Developer API answers a request badly.
package enum PlayFault: Sendable, Hashable {
    /// The connection is closed without an answer.
    case dropped
    /// 503 as a page.
    case unavailable
    /// 500 as JSON, at once or long after the request.
    case backend(isSlow: Bool)
    /// 500 without a body.
    case emptyError
    /// The right answer, long after the request.
    case slow
    /// The right answer without its second half.
    case cutOff
    /// Any error of Google's table.
    case error(PlayError)
    /// A refusal for quota though the quota is not used up.
    case quota(PlayQuota.Form, retryAfter: String?)

    /// The name in counts of requests.
    package var name: String {
        switch self {
        case .dropped: "dropped"
        case .unavailable: "unavailable"
        case .backend(let isSlow): isSlow ? "slow_backend_error" : "backend_error"
        case .emptyError: "empty_error"
        case .slow: "slow"
        case .cutOff: "cut_off"
        case .error(let error): "error_\(error.code)_\(error.reason)"
        case .quota(let form, _): "quota_\(form.rawValue)"
        }
    }

    /// The answers of the table that are final. They concern purchases that are not what a request says, so a run does
    /// not draw them.
    package static let finalErrors: [PlayError] = [
        .invalidToken, .mismatch, .otherPackage, .invalidValue, .required, .invalidState, .notOwned, .expiredLongAgo,
        .tooOld, .otherKind, .deleted,
        PlayError(400, "subscriptionExpired", "The subscription has expired."),
    ]

    /// The answers of the table after which a request succeeds later.
    package static let passingErrors: [PlayError] = [
        .credentials, .login, .noAccess, .permission, .forbidden, .otherDeveloper, .notFound, .unknownToken, .conflict,
        .backend, PlayError(403, "userInsufficientPermission", "The user has insufficient permissions."),
        PlayError(403, "projectNotLinked", "The project id used to call the API has not been linked."),
    ]
}

/// The faults of a run, drawn by its seed, the simulated clock and the number of the request. A client that tries again
/// gets the right answer in the end: at once after a fault of one request, ten minutes later after an outage.
struct PlayFaults: Sendable {
    let draw: FaultDraw

    private static let outages: [PlayFault] = [
        .dropped, .unavailable, .backend(isSlow: false), .emptyError, .error(.permission),
        .quota(.forbidden, retryAfter: nil),
    ]
    private static let single: [PlayFault] = [
        .cutOff, .error(.credentials), .error(.conflict), .emptyError, .backend(isSlow: false),
        .quota(.tooManyRequests, retryAfter: "1"), .quota(.quotaExceeded, retryAfter: nil),
        .quota(.forbidden, retryAfter: nil),
    ]

    /// - Parameters:
    ///   - subject: The endpoint and the id of the request.
    ///   - number: The number of earlier requests with this subject.
    func fault(at instant: Instant, subject: String, number: Int) -> PlayFault? {
        if var outage = draw.outage(FaultDraw.slot(of: instant), .max - 20) {
            return Self.outages.randomElement(using: &outage)
        }
        guard var single = draw.single(FaultDraw.mark(subject), UInt64(number), .max - 21) else { return nil }
        return Self.single.randomElement(using: &single)
    }
}
