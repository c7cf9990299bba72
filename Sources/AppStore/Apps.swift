import Crypto

/// An app whose notifications are taken.
package struct App: Sendable, Hashable {
    package let bundleId: String
    /// The app-specific or account-wide shared secrets that V1 notifications may carry; more than one while a
    /// secret is being changed.
    package let sharedSecrets: [String]
    /// Takes V1 notifications that carry no secret at all. Anybody who knows the URL can then make them up.
    package let acceptsWithoutSecret: Bool

    package init(bundleId: String, sharedSecrets: [String], acceptsWithoutSecret: Bool = false) {
        self.bundleId = bundleId
        self.sharedSecrets = sharedSecrets
        self.acceptsWithoutSecret = acceptsWithoutSecret
    }
}

/// The configured apps, asked by bundle id and by secret.
package struct Apps: Sendable {
    private let apps: [(bundleId: String, secretDigests: [SHA256.Digest], acceptsWithoutSecret: Bool)]

    package init(_ apps: [App]) {
        self.apps = apps.map { app in
            (app.bundleId, app.sharedSecrets.map { SHA256.hash(data: Array($0.utf8)) }, app.acceptsWithoutSecret)
        }
    }

    func isConfigured(_ bundleId: String) -> Bool {
        apps.contains { $0.bundleId == bundleId }
    }

    func acceptsWithoutSecret(_ bundleId: String) -> Bool {
        apps.contains { $0.bundleId == bundleId && $0.acceptsWithoutSecret }
    }

    /// The apps with this secret. Takes as long for a wrong secret as for a right one: digests are compared in
    /// constant time, and all of them are compared.
    func bundleIds(withSecret secret: String) -> [String] {
        let digest = SHA256.hash(data: Array(secret.utf8))
        return apps.filter { app in
            app.secretDigests.reduce(false) { found, known in (known == digest) || found }
        }.map(\.bundleId)
    }
}
