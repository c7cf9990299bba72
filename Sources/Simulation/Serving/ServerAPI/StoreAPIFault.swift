import Encoding
import Subscriptions

/// A way in which the simulated App Store Server API answers a request badly.
package enum StoreAPIFault: Sendable, Hashable {
    /// The connection is closed without an answer.
    case dropped
    /// Status 503 with a text of a proxy.
    case overloaded
    /// Status 500 with a text of a proxy.
    case errorPage
    /// The right answer, long after the request.
    case slow
    /// Status 401 though the token is valid, with a text or without one.
    case unauthorized(hasText: Bool)
    /// An error code instead of the answer.
    case error(Int)
    /// Like `error`, with a character set in the `Content-Type`.
    case errorWithCharset(Int)
    /// The answer ends in the middle.
    case cutOff
    /// The right answer within 5 MiB of white space.
    case padded
    /// A page of a history without items, which says that there are more.
    case emptyPage
    /// A page of a history that repeats the last item of the page before it.
    case repeatedItem
    /// The pagination token of the notification history has expired.
    case expiredPaginationToken
    /// The signatures of the transactions do not match them.
    case unsigned
    /// Transactions under another root certificate.
    case otherRoot
    /// Transactions that name another app.
    case otherApp
    /// Transactions that name the other environment.
    case otherEnvironment

    /// The name in counts of requests.
    package var name: String {
        switch self {
        case .dropped: "dropped"
        case .overloaded: "overloaded"
        case .errorPage: "error_page"
        case .slow: "slow"
        case .unauthorized: "unauthorized"
        case .error(let code): "error_\(code)"
        case .errorWithCharset(let code): "error_with_charset_\(code)"
        case .cutOff: "cut_off"
        case .padded: "padded"
        case .emptyPage: "empty_page"
        case .repeatedItem: "repeated_item"
        case .expiredPaginationToken: "expired_pagination_token"
        case .unsigned: "unsigned"
        case .otherRoot: "other_root"
        case .otherApp: "other_app"
        case .otherEnvironment: "other_environment"
        }
    }
}

/// The faults of a run, drawn by its seed, the simulated clock and the number of the request. A client that tries again
/// gets the right answer in the end: at once after a fault of one request, ten minutes later after an outage.
struct StoreAPIFaults: Sendable {
    /// Half of the faults are in outages, which concern a host for ten minutes.
    let draw: FaultDraw

    private static let outages: [StoreAPIFault] = [
        .dropped, .overloaded, .errorPage, .slow, .error(5_000_000), .error(5_000_001), .error(9_990_000),
    ]
    private static let single: [StoreAPIFault] = [
        .cutOff, .padded, .emptyPage, .repeatedItem, .expiredPaginationToken, .unauthorized(hasText: true),
        .unauthorized(hasText: false), .errorWithCharset(5_000_001), .error(4_040_002), .error(4_040_004),
    ]

    /// - Parameters:
    ///   - subject: The endpoint and the id of the request.
    ///   - number: The number of earlier requests with this subject.
    func fault(at instant: Instant, host: Subscriptions.Environment, subject: String, number: Int) -> StoreAPIFault? {
        let host: UInt64 = host == .production ? 0 : 1
        if var outage = draw.outage(FaultDraw.slot(of: instant), host, .max - 6) {
            return Self.outages.randomElement(using: &outage)
        }
        guard var single = draw.single(FaultDraw.mark(subject), UInt64(number), .max - 7) else { return nil }
        return Self.single.randomElement(using: &single)
    }
}
