import Crypto
import Encoding
import Subscriptions

/// A configured app, whose notifications are accepted.
package struct App: Sendable, Hashable {
    package let bundleId: String
    /// The app's App Store id. If it is configured, signed production notifications must contain it.
    package let appAppleId: Int64?
    package let environments: Set<Environment>
    /// The app-specific or account-wide shared secrets, the current one first; more than one while a secret is being
    /// replaced. V1 notifications may contain any of them, and questions about receipts contain one.
    package let sharedSecrets: [String]
    /// True if V1 notifications without a secret are accepted. Anyone who knows the URL can then forge them.
    package let acceptsWithoutSecret: Bool
    /// Who owns a subscription that several app users bought or linked, and which tokens identify an app user.
    package let ownership: OwnershipRules
    /// How often the App Store is asked about receipts of the app.
    package let callBudget: CallBudget
    /// When its subscriptions are checked with the App Store.
    package let checks: CheckPolicy
    /// Whether scheduled checks are made. They need a key or a shared secret, too.
    package let polling: Bool
    /// Since when notifications of the app are posted to this installation, as the operator says; nil to go by the first
    /// one that arrived.
    package let listeningSince: Instant?
    /// The key for the App Store Server API; nil if it is not asked about the app.
    package let serverAPIKey: ServerAPIKey?

    /// Apple's secrets are 32 hexadecimal digits. A short secret could be guessed, and could occur in bodies by chance.
    package static let sharedSecretBytesMin = 16

    /// Data of Xcode and local tests is not signed by Apple, so it is accepted only if configured.
    package static let usualEnvironments: Set<Environment> = [.production, .sandbox]

    /// - Precondition: No shared secret is shorter than ``sharedSecretBytesMin``.
    package init(
        bundleId: String, appAppleId: Int64? = nil, environments: Set<Environment> = Self.usualEnvironments,
        sharedSecrets: [String] = [], acceptsWithoutSecret: Bool = false, ownership: OwnershipRules = .standard,
        callBudget: CallBudget = .standard, checks: CheckPolicy = .standard, polling: Bool = true,
        listeningSince: Instant? = nil, serverAPIKey: ServerAPIKey? = nil
    ) {
        precondition(sharedSecrets.allSatisfy { $0.utf8.count >= Self.sharedSecretBytesMin }, "a secret is too short")
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environments = environments
        self.sharedSecrets = sharedSecrets
        self.acceptsWithoutSecret = acceptsWithoutSecret
        self.ownership = ownership
        self.callBudget = callBudget
        self.checks = checks
        self.polling = polling
        self.listeningSince = listeningSince
        self.serverAPIKey = serverAPIKey
    }

    /// Whether the App Store is asked about its subscriptions at the scheduled times: by its API with a key, or else with
    /// receipts.
    package var isPolled: Bool { polling && (serverAPIKey != nil || !sharedSecrets.isEmpty) }
}

/// The configured apps, with lookups by bundle id and by secret.
package struct Apps: Sendable {
    private let apps: [(app: App, secretDigests: [SHA256.Digest])]

    package init(_ apps: [App]) {
        self.apps = apps.map { app in (app, app.sharedSecrets.map { SHA256.hash(data: Array($0.utf8)) }) }
    }

    func app(_ bundleId: String) -> App? {
        apps.first { $0.app.bundleId == bundleId }?.app
    }

    /// The apps with this secret. The time does not depend on the secret: all digests are compared, each in constant
    /// time.
    func apps(withSecret secret: String) -> [App] {
        let digest = SHA256.hash(data: Array(secret.utf8))
        return apps.filter { app in
            app.secretDigests.reduce(false) { found, known in (known == digest) || found }
        }.map(\.app)
    }
}

extension [App] {
    /// The keys of those that are asked about by the App Store Server API, by bundle id.
    package var serverAPIKeys: [String: ServerAPIKey] {
        Dictionary(compactMap { app in app.serverAPIKey.map { (app.bundleId, $0) } }, uniquingKeysWith: { $1 })
    }
}
