import Foundation

/// Where tests put their databases and data folders.
package enum TestFolder {
    /// `deploy/test` sets TMPDIR, to a folder in memory if there is one. Its path is short, because that of a socket
    /// has 107 bytes at most.
    package static let root = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"

    /// A path of its own for each call, at which there is nothing yet.
    package static func path(_ purpose: String) -> String {
        "\(root)/subledger-\(purpose)-\(UUID().uuidString.prefix(8).lowercased())"
    }
}
