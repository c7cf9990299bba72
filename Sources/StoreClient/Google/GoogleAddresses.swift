/// The URLs of Google's services.
package struct GoogleAddresses: Sendable, Hashable {
    /// The base URL of the Play Developer API, up to `/androidpublisher`.
    package let api: String
    /// The keys with which Google signs the tokens of its pushes.
    package let signingKeys: String
    /// Where access tokens are issued; nil for the address in the credentials.
    let token: String?

    /// Google's hosts.
    ///
    /// - Source: Google, "Google Play Developer API" and "OpenID Connect".
    package static let google = GoogleAddresses(
        api: "https://androidpublisher.googleapis.com", signingKeys: "https://www.googleapis.com/oauth2/v3/certs")

    /// - Precondition: All URLs are accepted by ``ReceiptAddresses/accepts(_:)``. A slash at the end of `api` is ignored.
    package init(api: String, signingKeys: String, token: String? = nil) {
        precondition(
            [api, signingKeys, token ?? api].allSatisfy { ReceiptAddresses.accepts($0) }, "a URL is not accepted")
        self.api = api.hasSuffix("/") ? String(api.dropLast()) : api
        self.signingKeys = signingKeys
        self.token = token
    }
}
