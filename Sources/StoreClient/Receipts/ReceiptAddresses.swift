import AppStore
import Foundation

/// The URLs of verifyReceipt.
package struct ReceiptAddresses: Sendable, Hashable {
    private let production: String
    private let sandbox: String

    /// Apple's hosts.
    ///
    /// - Source: Apple, "verifyReceipt".
    package static let apple = ReceiptAddresses(
        production: "https://buy.itunes.apple.com/verifyReceipt",
        sandbox: "https://sandbox.itunes.apple.com/verifyReceipt")

    /// - Precondition: Both URLs are accepted by ``accepts(_:)``.
    package init(production: String, sandbox: String) {
        precondition(Self.accepts(production) && Self.accepts(sandbox), "a URL is not accepted")
        self.production = production
        self.sandbox = sandbox
    }

    /// True for `https` URLs, and for `http` URLs of this machine: requests contain receipts and secrets.
    package static func accepts(_ url: String) -> Bool {
        guard let parts = URLComponents(string: url), let host = parts.host, !host.isEmpty, parts.user == nil,
            parts.password == nil, parts.fragment == nil
        else { return false }
        switch parts.scheme?.lowercased() {
        case "https": return true
        case "http": return isLoopback(host)
        default: return false
        }
    }

    package subscript(host: ReceiptHost) -> String {
        switch host {
        case .production: production
        case .sandbox: sandbox
        }
    }

    private static func isLoopback(_ host: String) -> Bool {
        if ["localhost", "::1", "[::1]"].contains(host.lowercased()) { return true }
        // An address, not a name such as 127.example.com.
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        return numbers.count == 4 && !numbers.contains(nil) && numbers[0] == 127
    }
}
