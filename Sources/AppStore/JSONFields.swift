import Encoding
import Subscriptions

/// Reads the fields of one object. The accepted types are those observed in real bodies, not only the documented ones.
///
/// An unreadable field becomes a defect and counts as absent; other fields are not affected. Blank strings and `null`
/// also count as absent, but are not defects, since Apple uses them. ``rest`` contains the fields that were not read.
struct JSONFields {
    let object: JSONValue
    /// The path of the object, such as `unified_receipt.latest_receipt_info`; empty for the body itself.
    let base: StaticString
    let index: Int?
    private(set) var defects: [Defect] = []

    init(_ object: JSONValue, base: StaticString = "", index: Int? = nil) {
        self.object = object
        self.base = base
        self.index = index
    }

    /// Keys with unreadable values.
    private(set) var unreadableKeys: Set<String> = []

    /// One bit for each of the first 64 entries of the object, set if the entry was read.
    private var asked: UInt64 = 0

    /// The entries that were not read. Entries after the first 64 are always included.
    var rest: [(key: JSONValue, value: JSONValue)] {
        object.members.enumerated().filter { $0.offset >= 64 || asked & (1 << UInt64($0.offset)) == 0 }.map(\.element)
    }

    /// Records a defect of a field whose value is not used.
    mutating func note(_ key: StaticString, _ problem: String) {
        unreadableKeys.insert(key.description)
        report(key, problem)
    }

    /// Records values that this version does not know, in fields that decide access, ownership or money.
    mutating func note(
        _ unknown: [(field: UnknownValue.Field, value: String)], named name: (UnknownValue.Field) -> StaticString
    ) {
        for (field, value) in unknown where value != Transaction.unreadable {
            report(name(field), UnknownValue.problem(value, of: field))
        }
    }

    /// Records an end that is not after the start of its period.
    mutating func noteDuration(of row: Transaction, _ key: StaticString) {
        guard let start = row.purchaseDate, let end = row.expiresDate, end <= start else { return }
        report(key, "is not after the date of the purchase, so that it gives no access")
    }

    private mutating func report(_ key: StaticString, _ problem: String) {
        let place = base.description + (index.map { "[\($0)]" } ?? "")
        defects.append(Defect(path: place.isEmpty ? key.description : "\(place).\(key)", problem: problem))
    }

    /// The value of the key, or of the last one of duplicates; nil if it is absent or `null`.
    private mutating func value(_ key: StaticString) -> JSONValue? {
        let entries = object.entries(named: key)
        asked |= entries.bits
        if entries.count > 1 { report(key, "key stands \(entries.count) times, the last one counts") }
        guard let last = entries.last, !last.isNull else { return nil }
        return last
    }

    /// The text of a string, or a number as it is written; nil if it is absent, blank or unreadable.
    private mutating func scalar(_ key: StaticString, expecting what: String) -> String? {
        guard let value = value(key) else { return nil }
        return scalar(value, key, expecting: what)
    }

    private mutating func scalar(_ value: JSONValue, _ key: StaticString, expecting what: String) -> String? {
        if let number = value.numberText { return number }
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

    /// The value without any conversion.
    mutating func raw(_ key: StaticString) -> JSONValue? {
        value(key)
    }

    mutating func text(_ key: StaticString) -> String? {
        scalar(key, expecting: "a text")
    }

    /// An account token in lower case, because Apple does not guarantee its case. The nil UUID is reported as a defect.
    mutating func accountToken(_ key: StaticString) -> String? {
        let token = text(key)?.lowercased()
        if token == CustomerKey.nilAccountToken { report(key, Defect.nilAccountToken) }
        return token
    }

    /// The strings of an array; other elements are skipped and reported as a defect.
    mutating func texts(_ key: StaticString) -> [String] {
        guard let value = value(key) else { return [] }
        let elements = value.elements(atMost: 100)
        let texts = elements.compactMap(\.string).filter { !$0.utf8.contains(0) }
        if !value.isArray || texts.count < elements.count { note(key, "is not an array of texts") }
        return texts
    }

    /// Apple's ids have about 16 digits. Longer ones must still fit in an index of the database.
    private static let identifierBytesMax = 255

    /// An id in a string or a number, as it is written. Numbers are never converted to floating point.
    mutating func identifier(_ key: StaticString) -> String? {
        guard let value = value(key), let text = scalar(value, key, expecting: "an id") else { return nil }
        guard text.utf8.count <= Self.identifierBytesMax else {
            note(key, "is longer than \(Self.identifierBytesMax) bytes")
            return nil
        }
        guard value.isPlainASCII || text.utf8.allSatisfy({ $0 < 0x80 }) else {
            note(key, "is an id with characters beyond ASCII")
            return nil
        }
        if !value.isString, !text.utf8.allSatisfy(isDigit) {
            note(key, "is a number that is no whole number")
            return nil
        }
        return text
    }

    /// A whole number that fits in an `integer` column.
    mutating func integer(_ key: StaticString) -> Int? {
        guard let text = scalar(key, expecting: "a whole number") else { return nil }
        guard let number = Int32(text).map({ Int($0) }) else {
            note(key, "is not a whole number")
            return nil
        }
        return number
    }

    /// A whole number that fits in 64 bits.
    mutating func integer64(_ key: StaticString) -> Int64? {
        guard let text = scalar(key, expecting: "a whole number") else { return nil }
        guard let number = Int64(text) else {
            note(key, "is not a whole number")
            return nil
        }
        return number
    }

    /// `true`, `false`, 1 or 0, as a string or not: V1 uses all of them.
    mutating func flag(_ key: StaticString) -> Bool? {
        guard let value = value(key) else { return nil }
        if let native = value.bool { return native }
        guard let text = scalar(value, key, expecting: "a yes or no") else { return nil }
        switch text.lowercased() {
        case "true", "1": return true
        case "false", "0": return false
        default:
            note(key, "is neither true nor false")
            return nil
        }
    }

    /// The first readable date of several fields with the same date. Fields in Pacific time are never read, since
    /// daylight saving makes one hour of each year ambiguous.
    ///
    /// Milliseconds of a time before there were receipts, such as nine digits, are not believed if a formatted date beside them
    /// disagrees by years.
    mutating func instant(_ renderings: StaticString...) -> Instant? {
        var unread: StaticString?
        for (index, key) in renderings.enumerated() {
            guard let text = scalar(key, expecting: "a date") else { continue }
            guard let instant = parse(date: text) else {
                unread = unread ?? key
                continue
            }
            if instant < Self.receiptsSince, let formatted = formattedDate(in: renderings[(index + 1)...]),
                abs(formatted.milliseconds - instant.milliseconds) > Self.yearMilliseconds
            {
                report(key, "is years from the formatted date, which counts")
                return formatted
            }
            return instant
        }
        if let unread { note(unread, "is not a date between 1970 and 9999") }
        return nil
    }

    /// 2001: no purchase is older, and milliseconds since 1970 have 13 digits from then on.
    private static let receiptsSince = Instant(milliseconds: 1_000_000_000_000) ?? .earliest
    private static let yearMilliseconds: Int64 = 366 * 86_400_000

    /// The first of the fields with a date in words.
    private mutating func formattedDate(in renderings: ArraySlice<StaticString>) -> Instant? {
        for key in renderings {
            guard let text = scalar(key, expecting: "a date"), Int64(text) == nil else { continue }
            if let instant = parse(date: text) { return instant }
        }
        return nil
    }

    /// Parses milliseconds since 1970, which iOS 6 style receipts also have in `expires_date`, or
    /// `2019-11-08 08:13:55 Etc/GMT`.
    private func parse(date text: String) -> Instant? {
        if text.utf8.first.map(isDigit) == true, let milliseconds = Int64(text) {
            return Instant(milliseconds: milliseconds)
        }
        let parts = text.split(separator: " ")
        guard parts.count == 3, ["Etc/GMT", "GMT", "UTC"].contains(parts[2]) else { return nil }
        return Instant(iso8601: "\(parts[0])T\(parts[1])Z")
    }
}

private func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
}

func isBlank(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) }
}
