/// An address within the console. Every part is percent-encoded, so no id can lead out of it.
package struct Address: Sendable, Hashable {
    private var path: String
    package private(set) var query: [Pair] = []
    private var fragment: String?

    package struct Pair: Sendable, Hashable {
        package let name: String
        package let value: String
    }

    /// The page below `/console` whose path has these segments.
    package init(_ segments: String...) {
        path = "/console" + segments.map { "/" + Self.encoded($0) }.joined()
    }

    /// The address with a further parameter, or with another value of it; without it if the value is nil.
    package func with(_ name: String, _ value: String?) -> Address {
        var copy = self
        copy.query.removeAll { $0.name == name }
        if let value { copy.query.append(Pair(name: name, value: value)) }
        return copy
    }

    /// The address with the two times of a page, if that has them.
    package func withClocks(of page: Address) -> Address {
        page.query.reduce(self) { ["at", "knownAt"].contains($1.name) ? $0.with($1.name, $1.value) : $0 }
    }

    package func at(_ fragment: String) -> Address {
        var copy = self
        copy.fragment = fragment
        return copy
    }

    package var withoutQuery: Address {
        var copy = self
        copy.query = []
        copy.fragment = nil
        return copy
    }

    package var text: String {
        var text = path
        for (index, pair) in query.enumerated() {
            text += "\(index == 0 ? "?" : "&")\(Self.encoded(pair.name))=\(Self.encoded(pair.value))"
        }
        if let fragment { text += "#\(Self.encoded(fragment))" }
        return text
    }

    /// Source: RFC 3986, section 2.3.
    private static func encoded(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
                UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += digits.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }
        // A browser resolves these segments away.
        return result == "." ? "%2E" : result == ".." ? "%2E%2E" : result
    }
}
