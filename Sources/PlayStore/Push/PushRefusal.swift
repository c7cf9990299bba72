/// Why a push was not accepted. Pub/Sub repeats it for seven days, so none of these loses a notification. The
/// description is returned to the sender and reveals nothing that the sender did not send.
package enum PushRefusal: Error, Hashable, CustomStringConvertible {
    /// The request has no `Authorization: Bearer` with a token.
    case tokenMissing
    /// The token does not prove that Pub/Sub sent the push.
    case tokenInvalid(IdentityTokenFailure)
    /// The token is signed with a key that is not in the key set: fetch the key set again, once, and verify again.
    case keyUnknown
    /// Sent through another Pub/Sub subscription than the configured one.
    case subscriptionWrong
    /// Genuine, and about an app that is not configured. Accepted once it is.
    case appUnknown

    package var description: String {
        switch self {
        case .tokenMissing: "the request has no identity token: expected Authorization: Bearer with one"
        case .tokenInvalid(let failure): failure.description
        case .keyUnknown: "the identity token is signed with a key that Google does not publish"
        case .subscriptionWrong: "the Pub/Sub subscription is not the configured one"
        case .appUnknown: "the app (package name) is not configured"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .tokenMissing: "token_missing"
        case .tokenInvalid(let failure): failure.rawValue
        case .keyUnknown: "key_unknown"
        case .subscriptionWrong: "subscription_wrong"
        case .appUnknown: "app_unknown"
        }
    }
}
