/// A user's consent to ask the Google Play Developer API for it.
package struct RefreshToken: Sendable, Hashable {
    package let clientId: String
    package let clientSecret: String
    package let token: String
    /// Where access tokens are requested.
    package let tokenURL: String

    package init(
        clientId: String, clientSecret: String, token: String, tokenURL: String = "https://oauth2.googleapis.com/token"
    ) {
        self.clientId = clientId
        self.clientSecret = clientSecret
        self.token = token
        self.tokenURL = tokenURL
    }
}
