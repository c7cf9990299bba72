import Encoding

/// An answer of the Google Play Developer API that is an error. The description is one line and quotes nothing from it
/// but the reason.
///
/// None of them says anything about access: ``Kind/gone`` leaves what is known.
package struct PlayRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    /// What to do about it. The raw values are words for logs and metrics.
    package enum Kind: String, Sendable, Hashable, CaseIterable {
        /// The token is wrong, of another app or another kind of product: final for it, and no reason for an alarm.
        case wrongPurchase = "wrong_purchase"
        /// An acknowledgement does not fit the state of the purchase: read it, its state decides.
        case stateConflict = "state_conflict"
        /// Request another access token, once; then an operator must look.
        case unauthorised
        /// The account may not do this, or not yet: new permissions need up to 36 hours. Ask again rarely.
        case forbidden
        /// Too many requests, although the status may be 403.
        case quota
        /// The purchase is not known. A fresh token may be known a little later.
        case notFound = "not_found"
        /// Another change of the purchase is in progress.
        case conflict
        /// Google no longer answers about the purchase, for good.
        case gone
        /// Google may answer later.
        case temporary
        /// The same request fails again.
        case refused

        /// True if the same request may succeed later, without anyone changing anything.
        package var isRepeatable: Bool {
            switch self {
            case .quota, .conflict, .temporary, .notFound, .forbidden: true
            case .wrongPurchase, .stateConflict, .unauthorised, .gone, .refused: false
            }
        }
    }

    package let httpStatus: Int
    /// Google's reason, such as `purchaseTokenNoLongerValid`; nil if there is none or it is not a plain word.
    package let reason: String?
    package let kind: Kind

    package init(httpStatus: Int, body: [UInt8]) {
        self.httpStatus = httpStatus
        let error = (try? JSONDocument(body).root)?["error"]
        let first = error?["errors"]?.elements(atMost: 1).first
        let status = error?.string("status")
        let reason = (first?.string("reason") ?? status).flatMap { Self.isPlain($0) ? $0 : nil }
        self.reason = reason
        kind = Self.kind(httpStatus, reason: reason, domain: first?.string("domain"), status: status)
    }

    private static let quotaReasons = [
        "rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded", "RESOURCE_EXHAUSTED",
    ]

    /// By status, then by reason, and never by message.
    private static func kind(_ httpStatus: Int, reason: String?, domain: String?, status: String?) -> Kind {
        switch httpStatus {
        case 400:
            if reason == "invalidPurchaseState" || reason == "productNotOwnedByUser" { return .stateConflict }
            // How the newer resource says that the purchase ended too long ago.
            if status == "FAILED_PRECONDITION" || reason == "failedPrecondition" { return .gone }
            return .wrongPurchase
        case 401: return .unauthorised
        case 403:
            if let reason, quotaReasons.contains(reason) { return .quota }
            if status == "RESOURCE_EXHAUSTED" { return .quota }
            // An API that is not switched on has the same domain.
            return domain == "usageLimits" && reason != "accessNotConfigured" ? .quota : .forbidden
        case 404: return .notFound
        case 408: return .temporary
        case 409: return .conflict
        case 410: return .gone
        case 429: return .quota
        case 500...: return .temporary
        default: return .refused
        }
    }

    private static func isPlain(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "_"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: false
                }
            }
    }

    package var description: String {
        let what =
            switch kind {
            case .wrongPurchase: "Google Play does not know such a purchase of the app"
            case .stateConflict: "the state of the purchase does not allow the request"
            case .unauthorised: "Google Play rejects the access token"
            case .forbidden: "the account may not ask Google Play about the app: check its permissions"
            case .quota: "Google Play received too many requests"
            case .notFound: "Google Play does not know the purchase"
            case .conflict: "another request changes the purchase"
            case .gone: "Google Play no longer answers about the purchase"
            case .temporary: "Google Play has a temporary failure"
            case .refused: "Google Play refuses the request"
            }
        return what + (reason.map { " (\($0))" } ?? " (HTTP status \(httpStatus))")
    }
}
