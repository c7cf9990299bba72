import Encoding

/// The service account with which an app's server calls the simulated Google Play Developer API.
package struct PlayServiceAccount: Sendable {
    package let clientEmail: String
    package let key: RSATestKey

    package static let scope = "https://www.googleapis.com/auth/androidpublisher"

    /// The account of the simulated app.
    package static let standard = PlayServiceAccount(
        clientEmail: "ledger@simulated-project.iam.gserviceaccount.com", key: RSATestKeys.serviceAccount)

    /// The key file as Google writes it.
    package func keyFile(tokenURI: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("type", "service_account")
            writer.member("project_id", "simulated-project")
            writer.member("private_key_id", key.keyId)
            writer.member("private_key", key.privateKey.pkcs8PEMRepresentation + "\n")
            writer.member("client_email", clientEmail)
            writer.member("client_id", "100000000000000000002")
            writer.member("auth_uri", "https://accounts.google.com/o/oauth2/auth")
            writer.member("token_uri", tokenURI)
            writer.member("universe_domain", "googleapis.com")
        }
        return writer.bytes
    }
}

/// The consent of a user with access to the Play Console, as a backend without a service account uses it.
package struct PlayUserConsent: Sendable, Hashable {
    package let clientId: String
    package let clientSecret: String
    package let refreshToken: String

    package static let standard = PlayUserConsent(
        clientId: "100000000003-simulated.apps.googleusercontent.com", clientSecret: "simulated-client-secret",
        refreshToken: "1//simulated-refresh-token")
}
