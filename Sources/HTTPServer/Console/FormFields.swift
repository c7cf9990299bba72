import Foundation

/// Parses the body of a form.
///
/// - Source: URL Standard, "application/x-www-form-urlencoded parsing".
enum FormFields {
    static func parse(_ body: [UInt8]) -> [(name: String, value: String)] {
        body.split(separator: UInt8(ascii: "&")).compactMap { pair in
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decoded(parts[0]) else { return nil }
            guard let value = parts.count > 1 ? decoded(parts[1]) : "" else { return nil }
            return (name, value)
        }
    }

    private static func decoded(_ bytes: ArraySlice<UInt8>) -> String? {
        String(validating: bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }, as: UTF8.self)?
            .removingPercentEncoding
    }
}
