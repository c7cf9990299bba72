/// Why a body was rejected. The description is returned to the sender and reveals nothing that the sender did not send.
package enum Refusal: Error, Hashable, CustomStringConvertible {
    case undecodable(UndecodableBody)
    case secretMissing
    /// `app` is the configured app that the body names; nil if it names none.
    case secretWrong(app: String?)
    /// The signature of the notification, or of a part inside it, could not be verified.
    case unverified(VerificationFailure, V2Notification.Part)
    /// A signed notification does not contain a bundle id.
    case appMissing
    /// A signed part is of another app or environment than the notification.
    case mismatch(V2Notification.Part)
    case appWrong
    case appleIdWrong(app: String?)
    case environmentRefused(app: String?)
    /// Accepted once the app is configured.
    case appUnknown
    /// Accepted once each app has its own secret.
    case appAmbiguous

    package var description: String {
        switch self {
        case .undecodable(let body): body.description
        // The same text for both, so that a stranger cannot find out which apps are configured.
        case .secretMissing, .secretWrong: "the body does not contain the shared secret (password) of its app"
        case .unverified(let failure, let part): "\(part.rawValue) \(failure.explanation)"
        case .appMissing: "the notification names no app (bundleId)"
        case .mismatch(let part): "\(part.rawValue) is of another app or environment than the notification"
        case .appWrong: "the app (bundleId) is not the expected one"
        case .appleIdWrong: "the App Store id (appAppleId) is not that of the app"
        case .environmentRefused: "the app does not accept notifications of this environment"
        case .appUnknown: "the app (bundle id) is not configured"
        case .appAmbiguous: "the body names no app (bid), and several apps have its shared secret"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .undecodable(let body): body.label
        case .secretMissing: "secret_missing"
        case .secretWrong: "secret_wrong"
        case .unverified(let failure, _): failure.rawValue
        case .appMissing: "app_missing"
        case .mismatch: "app_mismatch_inside"
        case .appWrong: "app_wrong"
        case .appleIdWrong: "apple_id_wrong"
        case .environmentRefused: "environment_refused"
        case .appUnknown: "app_unknown"
        case .appAmbiguous: "app_ambiguous"
        }
    }

    /// The bundle id of the app that the rejection is about, for the log; nil if it is not known.
    package var app: String? {
        switch self {
        case .secretWrong(let app), .appleIdWrong(let app), .environmentRefused(let app): app
        default: nil
        }
    }
}
