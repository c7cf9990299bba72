import Crypto
import Subscriptions

/// An app whose notifications are taken.
package struct App: Sendable, Hashable {
    package let bundleId: String
    /// The App Store's number of the app. What is signed for production must carry it, if it is known here.
    package let appAppleId: Int64?
    package let environments: Set<Environment>
    /// The app-specific or account-wide shared secrets that V1 notifications may carry; more than one while a
    /// secret is being changed.
    package let sharedSecrets: [String]
    /// Takes V1 notifications that carry no secret at all. Anybody who knows the URL can then make them up.
    package let acceptsWithoutSecret: Bool

    /// Apple's secrets are 32 hexadecimal digits. A shorter text can be guessed, and occurs in bodies by chance.
    package static let sharedSecretBytesMin = 16

    /// Data of Xcode and local tests is not signed by Apple, so it is taken on request only.
    package static let usualEnvironments: Set<Environment> = [.production, .sandbox]

    /// - Precondition: No shared secret is shorter than ``sharedSecretBytesMin``.
    package init(
        bundleId: String, appAppleId: Int64? = nil, environments: Set<Environment> = Self.usualEnvironments,
        sharedSecrets: [String] = [], acceptsWithoutSecret: Bool = false
    ) {
        precondition(sharedSecrets.allSatisfy { $0.utf8.count >= Self.sharedSecretBytesMin }, "a secret is too short")
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environments = environments
        self.sharedSecrets = sharedSecrets
        self.acceptsWithoutSecret = acceptsWithoutSecret
    }
}

/// The configured apps, asked by bundle id and by secret.
package struct Apps: Sendable {
    private let apps: [(app: App, secretDigests: [SHA256.Digest])]

    package init(_ apps: [App]) {
        self.apps = apps.map { app in (app, app.sharedSecrets.map { SHA256.hash(data: Array($0.utf8)) }) }
    }

    func app(_ bundleId: String) -> App? {
        apps.first { $0.app.bundleId == bundleId }?.app
    }

    /// The apps with this secret. Takes as long for a wrong secret as for a right one: digests are compared in
    /// constant time, and all of them are compared.
    func apps(withSecret secret: String) -> [App] {
        let digest = SHA256.hash(data: Array(secret.utf8))
        return apps.filter { app in
            app.secretDigests.reduce(false) { found, known in (known == digest) || found }
        }.map(\.app)
    }
}
