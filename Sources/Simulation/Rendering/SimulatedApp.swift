import Subscriptions

/// The app whose notifications are simulated.
package struct SimulatedApp: Sendable, Hashable {
    package var bundleId: String
    /// The app's Apple ID. Apple always sends it in production and omits it in the sandbox for unreleased apps.
    package var appAppleId: Int64?
    package var environment: Subscriptions.Environment
    /// The `password` in bodies of version 1; nil omits it.
    package var sharedSecret: String?
    package var bundleVersion = "42"
    /// The length of app receipts as base64 text.
    package var receiptCharacters = 16_000

    package init(
        bundleId: String, appAppleId: Int64? = nil, environment: Subscriptions.Environment = .sandbox,
        sharedSecret: String? = nil
    ) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environment = environment
        self.sharedSecret = sharedSecret
    }

    /// The environment's name in version 2.
    package var environmentName: String { environment == .production ? "Production" : "Sandbox" }
}
