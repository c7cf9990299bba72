/// SQL text known at compile time: a literal, into which only other such texts can be interpolated, never data.
package struct SQL: ExpressibleByStringInterpolation, Sendable {
    package typealias StringLiteralType = StaticString

    package let text: String

    package init(stringLiteral literal: StaticString) {
        text = literal.description
    }

    package init(stringInterpolation: StringInterpolation) {
        text = stringInterpolation.text
    }

    fileprivate init(text: String) {
        self.text = text
    }

    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        package init(literalCapacity: Int, interpolationCount: Int) {}

        package mutating func appendLiteral(_ literal: StaticString) {
            text += literal.description
        }

        package mutating func appendInterpolation(_ part: SQL) {
            text += part.text
        }
    }
}

extension [SQL] {
    package func joined(separator: SQL) -> SQL {
        SQL(text: map(\.text).joined(separator: separator.text))
    }
}
