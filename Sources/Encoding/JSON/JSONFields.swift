/// Reads the fields of one object. The accepted types are those observed in real bodies, not only the documented ones.
///
/// An unreadable field becomes a defect and counts as absent; other fields are not affected. `null` also counts as absent, but is
/// no defect, and so do texts that the store sends instead of nothing. ``rest`` contains the fields that were not read.
package struct JSONFields {
    /// What a store sends.
    package enum Dialect: Sendable {
        /// Blank texts instead of nothing, and keys that stand twice. Ids are ASCII.
        case apple
        /// Empty texts instead of nothing.
        case google
    }

    /// The path of the object, such as `unified_receipt.latest_receipt_info`; empty for the body itself. It is written only for a
    /// defect.
    package enum Path {
        case fixed(StaticString, index: Int? = nil)
        case made(String)

        package var text: String {
            switch self {
            case .fixed(let base, let index): base.description + (index.map { "[\($0)]" } ?? "")
            case .made(let text): text
            }
        }
    }

    package let object: JSONValue
    package let path: Path
    private let dialect: Dialect
    package private(set) var defects: [Defect] = []
    /// Keys with unreadable values.
    package private(set) var unreadableKeys: Set<String> = []
    /// One bit for each of the first 64 entries of the object, set if the entry was read.
    private var asked: UInt64 = 0

    package init(_ object: JSONValue, at path: Path, _ dialect: Dialect) {
        self.object = object
        self.path = path
        self.dialect = dialect
    }

    /// The entries that were not read. Entries after the first 64 are always included.
    package var rest: [(key: JSONValue, value: JSONValue)] {
        object.members.enumerated().filter { $0.offset >= 64 || asked & (1 << UInt64($0.offset)) == 0 }.map(\.element)
    }

    // MARK: Defects

    /// Records a defect of a field whose value is not used.
    package mutating func note(_ key: StaticString, _ problem: String) {
        unreadableKeys.insert(key.description)
        report(key, problem)
    }

    /// Records a defect of a field whose value is used.
    package mutating func report(_ key: StaticString, _ problem: String) {
        let place = path.text
        defects.append(Defect(path: place.isEmpty ? key.description : "\(place).\(key)", problem: problem))
    }

    /// Adds the defects of an object that was read inside this one.
    package mutating func add(_ inner: JSONFields) {
        defects += inner.defects
    }

    // MARK: Values

    /// The value of the key without any conversion, or of the last one of duplicates; nil if it is absent or `null`.
    package mutating func raw(_ key: StaticString) -> JSONValue? {
        let entries = object.entries(named: key)
        asked |= entries.bits
        if entries.count > 1, dialect == .apple {
            report(key, "key stands \(entries.count) times, the last one counts")
        }
        guard let last = entries.last, !last.isNull else { return nil }
        return last
    }

    /// The text of a string, or a number as it is written; nil if it is absent, stands for nothing or is unreadable.
    package mutating func scalar(_ key: StaticString, expecting what: String) -> String? {
        guard let value = raw(key) else { return nil }
        return scalar(value, key, expecting: what)
    }

    private mutating func scalar(_ value: JSONValue, _ key: StaticString, expecting what: String) -> String? {
        if let number = value.numberText { return number }
        switch dialect {
        case .google:
            guard let text = value.string, !text.utf8.contains(0) else {
                note(key, "is not a text")
                return nil
            }
            return text.isEmpty ? nil : text
        case .apple:
            guard value.isString else {
                note(key, "is not \(what)")
                return nil
            }
            guard let text = value.string else {
                note(key, "is not Unicode text")
                return nil
            }
            // An unescaped NUL would have been rejected by the parser.
            guard !value.isEscaped || !text.utf8.contains(0) else {
                note(key, "holds a NUL character")
                return nil
            }
            return isBlank(text) ? nil : text
        }
    }

    package mutating func text(_ key: StaticString) -> String? {
        scalar(key, expecting: "a text")
    }

    /// Apple's ids have about 16 digits, and Google's fewer than 200 characters. Longer ones must still fit in an index of the
    /// database.
    private static let identifierBytesMax = 255

    /// An id in a string or a number, as it is written. Numbers are never converted to floating point.
    package mutating func identifier(_ key: StaticString) -> String? {
        guard let value = raw(key), let text = scalar(value, key, expecting: "an id") else { return nil }
        guard text.utf8.count <= Self.identifierBytesMax else {
            note(key, "is longer than \(Self.identifierBytesMax) bytes")
            return nil
        }
        guard dialect == .apple else { return text }
        guard value.isPlainASCII || text.utf8.allSatisfy({ $0 < 0x80 }) else {
            note(key, "is an id with characters beyond ASCII")
            return nil
        }
        if !value.isString, !text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            note(key, "is a number that is no whole number")
            return nil
        }
        return text
    }

    /// A whole number that fits in an `integer` column.
    package mutating func integer(_ key: StaticString) -> Int? {
        guard let text = scalar(key, expecting: "a whole number") else { return nil }
        guard let number = Int32(text) else {
            note(key, "is not a whole number")
            return nil
        }
        return Int(number)
    }

    /// A whole number that fits in 64 bits.
    package mutating func integer64(_ key: StaticString) -> Int64? {
        guard let text = scalar(key, expecting: "a whole number") else { return nil }
        guard let number = Int64(text) else {
            note(key, "is not a whole number")
            return nil
        }
        return number
    }

    /// `true`, `false`, 1 or 0, as a string or not: V1 uses all of them. Nil if it is absent, which Google's answers use for
    /// false.
    package mutating func flag(_ key: StaticString) -> Bool? {
        guard let value = raw(key) else { return nil }
        if let native = value.bool { return native }
        var text = value.string ?? value.numberText
        if dialect == .apple {
            guard let scalar = scalar(value, key, expecting: "a yes or no") else { return nil }
            text = scalar
        }
        switch text?.lowercased() {
        case "true", "1": return true
        case "false", "0": return false
        default:
            note(key, "is neither true nor false")
            return nil
        }
    }
}

package func isBlank(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) }
}
