/// How an app's pushes are recognised as genuine.
package enum PushAuthentication: Sendable, Hashable {
    /// By an identity token of the service account that the push subscription names.
    ///
    /// The audience is compared as text with the configured one: behind a proxy, the server does not see the URL that
    /// Pub/Sub has. Any Google account can get a token for any audience, so the account counts as well.
    case identity(audience: String, email: String)
    /// Not at all: anyone who knows the URL can send pushes. They are hints: they cause questions, and change no access
    /// without Google's answer. The size and the number of them that are stored are limited.
    case none
}
