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

    /// A name in snake case: `productId` is `product_id`.
    package init(snakeCase name: StaticString) {
        var snake = ""
        for character in name.description {
            if character.isUppercase { snake += "_" }
            snake += character.lowercased()
        }
        text = snake
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
