/// The App Store environment that a fact belongs to. Part of every identity: equal ids in two environments are two
/// things.
package enum Environment: String, Sendable, Hashable, CaseIterable {
    case production
    case sandbox
    /// StoreKit testing in Xcode. Not signed by Apple.
    case xcode
    /// Tests with StoreKitTest and its like. Not signed by Apple.
    case localTesting = "local_testing"
    /// The body named no environment that Apple uses. Kept apart from both others, so nothing is lost or mixed.
    case unknown
}

/// An app in an environment: the unit in which events have gapless positions.
package struct StreamKey: Sendable, Hashable {
    /// The app's bundle id.
    package let app: String
    package let environment: Environment

    package init(app: String, environment: Environment) {
        self.app = app
        self.environment = environment
    }
}
