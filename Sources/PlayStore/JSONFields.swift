import Encoding
import Subscriptions

/// How Google's objects are read: numbers also as text, and false, zero and empty values left out.
extension JSONFields {
    /// - Parameter path: The path of the object, such as `lineItems[0]`; empty for the body itself.
    init(_ object: JSONValue, path: String = "") {
        self.init(object, at: .made(path), .google)
    }

    /// Records a value that this version does not know, in a field that decides access, ownership or money.
    mutating func note(_ value: String?, of field: UnknownValue.Field) {
        guard let value, !field.known.contains(value) else { return }
        note(field.name, UnknownValue.problem(value, of: field))
    }

    /// An object: its presence is a statement even if it is empty.
    mutating func object(_ key: StaticString) -> JSONFields? {
        guard let value = raw(key) else { return nil }
        guard value.isObject else {
            note(key, "is not an object")
            return nil
        }
        return JSONFields(value, path: place(of: key))
    }

    /// The objects of an array, at most `limit`.
    mutating func objects(_ key: StaticString, limit: Int) -> [JSONFields] {
        guard let value = raw(key) else { return [] }
        let elements = value.elements(atMost: limit + 1)
        if !value.isArray { note(key, "is not an array") }
        if elements.count > limit { note(key, "has more than \(limit) elements, the others are ignored") }
        let base = place(of: key)
        var fields: [JSONFields] = []
        for (index, element) in elements.prefix(limit).enumerated() {
            if element.isObject {
                fields.append(JSONFields(element, path: "\(base)[\(index)]"))
            } else {
                note(key, "element \(index) is not an object")
            }
        }
        return fields
    }

    mutating func purchaseToken(_ key: StaticString) -> PurchaseToken? {
        guard let text = text(key) else { return nil }
        guard let token = PurchaseToken(text) else {
            note(key, "is not a purchase token")
            return nil
        }
        return token
    }

    private func place(of key: StaticString) -> String {
        let path = path.text
        return path.isEmpty ? key.description : "\(path).\(key)"
    }

    /// An RFC 3339 date with 0 to 9 fraction digits.
    mutating func instant(_ key: StaticString) -> Instant? {
        guard let text = text(key) else { return nil }
        guard let instant = Instant(iso8601: text) else {
            note(key, "is not a date between 1970 and 9999")
            return nil
        }
        return instant
    }

    /// Milliseconds since 1970.
    mutating func milliseconds(_ key: StaticString) -> Instant? {
        guard let number = integer64(key) else { return nil }
        guard let instant = Instant(milliseconds: number) else {
            note(key, "is not a date between 1970 and 9999")
            return nil
        }
        return instant
    }

    /// Google's name of an enum value, without the prefix; a value that this version does not know as it is.
    mutating func name(_ key: StaticString, without prefix: String) -> String? {
        guard let text = text(key) else { return nil }
        return text.hasPrefix(prefix) ? String(text.dropFirst(prefix.count)) : text
    }
}
