import Subscriptions

/// Why an answer of verifyReceipt is not a fact about an app. The description is one line and quotes nothing from the
/// answer but its status.
package enum ReceiptRefusal: Error, Hashable, CustomStringConvertible {
    /// The status is neither 0, 21006 nor 21010.
    case status(ReceiptStatus)
    /// A genuine receipt of another app.
    case otherApp
    /// The answer names no app.
    case appMissing
    /// The answer names another environment than that of the host that gave it.
    case wrongEnvironment
    /// The app does not accept purchases of the environment.
    case environmentRefused(Environment)
    case appUnknown
    /// The account was deleted, and no subscription is known by its receipt.
    case nothingKnown
    /// The answer is unreadable in the form in which it would be stored.
    case unreadable(UnreadableAnswer)

    package var description: String {
        switch self {
        case .status(let status): "the App Store does not confirm the receipt, \(status)"
        case .otherApp: "the receipt is of another app"
        case .appMissing: "the App Store's answer names no app"
        case .wrongEnvironment: "the App Store's answer names another environment than that of its host"
        case .environmentRefused(let environment):
            "the app does not accept purchases of the environment \(environment.rawValue)"
        case .appUnknown: "the app is not configured"
        case .nothingKnown: "the customer's account was deleted, and no purchase is known by the receipt"
        case .unreadable(let problem): problem.description
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .status: "status"
        case .otherApp: "other_app"
        case .appMissing: "app_missing"
        case .wrongEnvironment: "wrong_environment"
        case .environmentRefused: "environment_refused"
        case .appUnknown: "app_unknown"
        case .nothingKnown: "nothing_known"
        case .unreadable: "unreadable"
        }
    }
}
