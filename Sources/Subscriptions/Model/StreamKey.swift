/// The store's environment of a fact. Google's test purchases are of the sandbox. Part of every identity: equal ids in two environments are different things.
package enum Environment: String, Sendable, Hashable, CaseIterable {
    case production
    case sandbox
    /// StoreKit testing in Xcode. Not signed by Apple.
    case xcode
    /// Local tests, for example with StoreKitTest. Not signed by Apple.
    case localTesting = "local_testing"
    /// The body's environment is missing or unknown. Such events have streams of their own, so that nothing is lost or
    /// mixed.
    case unknown
}

/// An app in an environment. Events have gapless positions within a stream.
package struct StreamKey: Sendable, Hashable {
    /// The app's bundle id, or its package name on Google Play.
    package let app: String
    package let environment: Environment

    package init(app: String, environment: Environment) {
        self.app = app
        self.environment = environment
    }
}
