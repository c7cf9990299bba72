import AppStore

/// The base URLs of the App Store Server API, up to `/inApps`.
package struct ServerAPIAddresses: Sendable, Hashable {
    private let production: String
    private let sandbox: String

    /// Apple's hosts.
    ///
    /// - Source: Apple, "App Store Server API".
    package static let apple = ServerAPIAddresses(
        production: "https://api.storekit.apple.com", sandbox: "https://api.storekit-sandbox.apple.com")

    /// - Precondition: Both URLs are accepted by ``ReceiptAddresses/accepts(_:)``. A slash at the end is ignored.
    package init(production: String, sandbox: String) {
        precondition(
            ReceiptAddresses.accepts(production) && ReceiptAddresses.accepts(sandbox), "a URL is not accepted")
        self.production = Self.base(production)
        self.sandbox = Self.base(sandbox)
    }

    package subscript(host: ReceiptHost) -> String {
        switch host {
        case .production: production
        case .sandbox: sandbox
        }
    }

    private static func base(_ url: String) -> String { url.hasSuffix("/") ? String(url.dropLast()) : url }
}
