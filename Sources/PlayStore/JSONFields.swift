import Encoding
import Subscriptions

/// Reads the fields of one object as Google sends them: numbers also as text, and false, zero and empty values left out.
///
/// An unreadable field becomes a defect and counts as absent; other fields are not affected.
struct JSONFields {
    let object: JSONValue
    /// The path of the object, such as `lineItems[0]`; empty for the body itself.
    let path: String
    private(set) var defects: [Defect] = []

    init(_ object: JSONValue, path: String = "") {
        self.object = object
        self.path = path
    }

    /// Records a defect of a field whose value is not used.
    mutating func note(_ key: StaticString, _ problem: String) {
        defects.append(Defect(path: path.isEmpty ? key.description : "\(path).\(key)", problem: problem))
    }

    /// Records a value that this version does not know, in a field that decides access, ownership or money.
    mutating func note(_ value: String?, of field: UnknownValue.Field) {
        guard let value, !field.known.contains(value) else { return }
        note(field.name, UnknownValue.problem(value, of: field))
    }

    /// The value without any conversion; nil if it is absent or `null`.
    func raw(_ key: StaticString) -> JSONValue? {
        guard let value = object[key], !value.isNull else { return nil }
        return value
    }

    /// An object: its presence is a statement even if it is empty.
    mutating func object(_ key: StaticString) -> JSONFields? {
        guard let value = raw(key) else { return nil }
        guard value.isObject else {
            note(key, "is not an object")
            return nil
        }
        return JSONFields(value, path: path.isEmpty ? key.description : "\(path).\(key)")
    }

    /// The objects of an array, at most `limit`.
    mutating func objects(_ key: StaticString, limit: Int) -> [JSONFields] {
        guard let value = raw(key) else { return [] }
        let elements = value.elements(atMost: limit + 1)
        if !value.isArray { note(key, "is not an array") }
        if elements.count > limit { note(key, "has more than \(limit) elements, the others are ignored") }
        let base = path.isEmpty ? key.description : "\(path).\(key)"
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

    /// Adds the defects of an object that was read inside this one.
    mutating func add(_ inner: JSONFields) {
        defects += inner.defects
    }

    /// A text, or a number as it is written; nil if it is absent or empty.
    mutating func text(_ key: StaticString) -> String? {
        guard let value = raw(key) else { return nil }
        if let number = value.numberText { return number }
        guard let text = value.string, !text.utf8.contains(0) else {
            note(key, "is not a text")
            return nil
        }
        return text.isEmpty ? nil : text
    }

    /// An id that fits in an index.
    mutating func identifier(_ key: StaticString) -> String? {
        guard let text = text(key) else { return nil }
        guard text.utf8.count <= Limits.identifierBytesMax else {
            note(key, "is longer than \(Limits.identifierBytesMax) bytes")
            return nil
        }
        return text
    }

    mutating func purchaseToken(_ key: StaticString) -> PurchaseToken? {
        guard let text = text(key) else { return nil }
        guard let token = PurchaseToken(text) else {
            note(key, "is not a purchase token")
            return nil
        }
        return token
    }

    /// A whole number that fits in 32 bits.
    mutating func integer(_ key: StaticString) -> Int? {
        guard let text = text(key) else { return nil }
        guard let number = Int32(text) else {
            note(key, "is not a whole number")
            return nil
        }
        return Int(number)
    }

    mutating func integer64(_ key: StaticString) -> Int64? {
        guard let text = text(key) else { return nil }
        guard let number = Int64(text) else {
            note(key, "is not a whole number")
            return nil
        }
        return number
    }

    /// Nil if it is absent, which Google's answers use for false.
    mutating func flag(_ key: StaticString) -> Bool? {
        guard let value = raw(key) else { return nil }
        if let flag = value.bool { return flag }
        switch value.string?.lowercased() ?? value.numberText {
        case "true", "1": return true
        case "false", "0": return false
        default:
            note(key, "is neither true nor false")
            return nil
        }
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
