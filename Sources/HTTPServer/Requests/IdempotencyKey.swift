import HTTPTypes
import Hummingbird

/// Reads header `Idempotency-Key`, by which a server recognises a repeated request.
///
/// The draft makes it a string in quotes. Most clients send the text alone, so both are accepted, and are the same key.
///
/// - Source: IETF, draft-ietf-httpapi-idempotency-key-header, section 2.1; RFC 9651, section 3.3.3.
enum IdempotencyKey {
    static let name = "Idempotency-Key"

    /// Nil if the request has none.
    static func of(_ request: Request) throws(RequestQuery.Malformed) -> String? {
        guard let field = HTTPField.Name(name) else { return nil }
        let values = request.headers[values: field]
        guard let value = values.first else { return nil }
        guard values.count == 1, let key = text(value), (1...Limits.idempotencyKeyBytesMax).contains(key.utf8.count)
        else {
            throw RequestQuery.Malformed(
                problem: "\(name) must be one text of 1 to \(Limits.idempotencyKeyBytesMax) printable ASCII characters",
                field: name)
        }
        return key
    }

    private static func text(_ value: String) -> String? {
        guard value.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return nil }
        guard value.hasPrefix("\"") else { return value.contains(where: { "\", ;\\".contains($0) }) ? nil : value }
        var key = ""
        var isEscaped = false
        for (index, character) in value.enumerated().dropFirst() {
            switch character {
            case "\"" where !isEscaped: return index == value.count - 1 ? key : nil
            case "\\" where !isEscaped: isEscaped = true
            case "\"", "\\":
                isEscaped = false
                key.append(character)
            default:
                if isEscaped { return nil }
                key.append(character)
            }
        }
        return nil
    }
}
