import Encoding
import Postgres

/// A query as people read and copy it: the statement that the console ran, with its parameters as literals.
package struct ReadableSQL: Sendable {
    package enum Literal: Sendable {
        case text(String?)
        case number(Int64)
        case time(Instant?)
        case texts([String])
        case numbers([Int64])

        var sql: String {
            switch self {
            case .text(nil), .time(nil): "null"
            case .text(let text?): Self.quoted(text)
            case .number(let number): "\(number)"
            case .time(let time?): "timestamptz '\(time.description)'"
            case .texts(let texts): "array[\(texts.map(Self.quoted).joined(separator: ", "))]::text[]"
            case .numbers(let numbers): "array[\(numbers.map { "\($0)" }.joined(separator: ", "))]::bigint[]"
            }
        }

        /// - Source: PostgreSQL, "String Constants": with `standard_conforming_strings`, only quotes are special.
        private static func quoted(_ text: String) -> String {
            "'\(text.replacing("'", with: "''"))'"
        }
    }

    package let text: String

    init(_ statement: Statement, _ literals: [Literal]) {
        var text = statement.sql
        // From the last one on, so that $1 does not match in $10. A literal is not searched again.
        var parts: [Substring] = []
        while let dollar = text.lastIndex(of: "$") {
            let rest = text[text.index(after: dollar)...]
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            guard let number = Int(digits), literals.indices.contains(number - 1) else {
                parts.append(text[dollar...])
                text = String(text[..<dollar])
                continue
            }
            parts.append(rest[digits.endIndex...])
            parts.append(Substring(literals[number - 1].sql))
            text = String(text[..<dollar])
        }
        self.text = text + parts.reversed().joined() + ";"
    }
}
