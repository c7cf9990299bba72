import Subscriptions

/// The app whose notifications are made up.
package struct SimulatedApp: Sendable, Hashable {
    package var bundleId: String
    /// Apple's number for the app. Apple leaves it out in the sandbox for apps that were never released, and sends it
    /// always in production.
    package var appAppleId: Int64?
    package var environment: Subscriptions.Environment
    /// What bodies of version 1 carry as `password`; nil leaves it out.
    package var sharedSecret: String?
    package var bundleVersion = "42"
    /// Of the base64 text that stands in for the receipt in bodies of version 1.
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

    /// As version 2 writes it.
    package var environmentName: String { environment == .production ? "Production" : "Sandbox" }
}
