import Encoding

extension CanonicalJSON {
    /// An additional field that is an object; nil if there is none.
    func object(_ key: StaticString) -> JSONValue? {
        field(key).flatMap { $0.isObject ? $0 : nil }
    }

    /// An additional field; nil if there is none.
    func field(_ key: StaticString) -> JSONValue? {
        // Most additional fields are others, and a search costs less than parsing them.
        guard utf8.contains("\"\(key)\"".utf8) else { return nil }
        return (try? JSONDocument(utf8).root)?[key]
    }
}
