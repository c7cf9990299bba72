/// Why a body was not taken. The description may be read by the sender and says nothing that it did not send.
package enum Refusal: Error, Hashable, CustomStringConvertible {
    case undecodable(UndecodableBody)
    case secretMissing
    /// With the configured app that the body names, if it names one.
    case secretWrong(app: String?)
    /// Apple's signature is missing or wrong, on the notification or on something inside it.
    case unverified(VerificationFailure, V2Notification.Part)
    /// Signed, and of no app that can be told.
    case appMissing
    /// Something inside is of another app or environment than the notification.
    case mismatch(V2Notification.Part)
    case appWrong
    case appleIdWrong(app: String?)
    case environmentRefused(app: String?)
    /// Heals when the operator configures the app.
    case appUnknown
    /// Heals when each app has a secret of its own.
    case appAmbiguous

    package var description: String {
        switch self {
        case .undecodable(let body): body.description
        // One text, so that a stranger cannot tell a configured app from another one.
        case .secretMissing, .secretWrong: "the body does not carry the shared secret (password) of its app"
        case .unverified(let failure, let part): "\(part.rawValue) \(failure.explanation)"
        case .appMissing: "the notification names no app (bundleId)"
        case .mismatch(let part): "\(part.rawValue) is of another app or environment than the notification"
        case .appWrong: "the app (bundleId) is another one"
        case .appleIdWrong: "the App Store id (appAppleId) is not the one of this app"
        case .environmentRefused: "this app takes no notifications of this environment"
        case .appUnknown: "the app (bundle id) is not configured here"
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

    /// The configured app that it is about, for the operator's log.
    package var app: String? {
        switch self {
        case .secretWrong(let app), .appleIdWrong(let app), .environmentRefused(let app): app
        default: nil
        }
    }
}
