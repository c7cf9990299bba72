import Encoding

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

    private static func encoded(_ text: String) -> String {
        let result = PercentEncoding.encoded(text)
        // A browser resolves these segments away.
        return result == "." ? "%2E" : result == ".." ? "%2E%2E" : result
    }
}
