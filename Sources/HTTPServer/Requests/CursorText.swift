import Foundation

/// The text of cursors: base64url without padding, so it needs no escaping in a URL.
enum CursorText {
    static func encode(_ content: String) -> String {
        Data(content.utf8).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    /// Nil if ``encode(_:)`` cannot have returned the text.
    static func decode(_ text: String) -> String? {
        let padded =
            text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
            + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded), let content = String(data: data, encoding: .utf8),
            encode(content) == text
        else { return nil }
        return content
    }
}
