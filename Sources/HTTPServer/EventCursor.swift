import Foundation
import Subscriptions

/// Where a reader of the log goes on. Positions are never given out anew, so it holds across restarts, rebuilds and a
/// restored database, and for other filters too.
struct EventCursor: Hashable {
    let stream: StreamKey
    /// All up to this one was read.
    let position: Int64

    private static let version = "1"

    init(stream: StreamKey, position: Int64) {
        self.stream = stream
        self.position = position
    }

    /// Nil for what ``text`` never is.
    init?(_ text: String) {
        let padded =
            text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
            + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded), let content = String(data: data, encoding: .utf8) else {
            return nil
        }
        let parts = content.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == Self.version, let position = Int64(parts[1]), position >= 0,
            let environment = Subscriptions.Environment(rawValue: String(parts[2]))
        else { return nil }
        self.init(stream: StreamKey(app: String(parts[3]), environment: environment), position: position)
        guard self.text == text else { return nil }
    }

    /// Base64url without padding: safe in a URL as it is.
    var text: String {
        Data("\(Self.version) \(position) \(stream.environment.rawValue) \(stream.app)".utf8).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
