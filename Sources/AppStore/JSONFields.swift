import Encoding
import Subscriptions

/// How Apple's objects are read.
extension JSONFields {
    /// - Parameter base: The path of the object or of the array that it is in, such as `unified_receipt.latest_receipt_info`;
    ///   empty for the body itself.
    init(_ object: JSONValue, base: StaticString = "", index: Int? = nil) {
        self.init(object, at: .fixed(base, index: index), .apple)
    }

    /// Records values that this version does not know, in fields that decide access, ownership or money.
    mutating func note(
        _ unknown: [(field: UnknownValue.Field, value: String)], named name: (UnknownValue.Field) -> StaticString
    ) {
        for (field, value) in unknown where value != Transaction.unreadable {
            let isInOtherWords = field == .productType && EarlierReading.isInForce
            report(
                name(field),
                isInOtherWords
                    ? "is of no kind of product that this version knows" : UnknownValue.problem(value, of: field))
        }
    }

    /// Records an end that is not after the start of its period, and a missing one of what renews.
    mutating func noteDuration(of row: Transaction, _ key: StaticString) {
        if let end = row.expiresDate {
            guard let start = row.purchaseDate, end <= start else { return }
            report(key, "is not after the date of the purchase, so that it gives no access")
        } else if row.isRenewable, !unreadableKeys.contains(key.description) {
            report(key, "is missing, although the purchase is of a subscription that renews")
        }
    }

    /// An account token in lower case, because Apple does not guarantee its case. The nil UUID is reported as a defect.
    mutating func accountToken(_ key: StaticString) -> String? {
        let token = text(key)?.lowercased()
        if token == CustomerKey.nilAccountToken { report(key, Defect.nilAccountToken) }
        return token
    }

    /// The strings of an array; other elements are skipped and reported as a defect.
    mutating func texts(_ key: StaticString) -> [String] {
        guard let value = raw(key) else { return [] }
        let elements = value.elements(atMost: 100)
        let texts = elements.compactMap(\.string).filter { !$0.utf8.contains(0) }
        if !value.isArray || texts.count < elements.count { note(key, "is not an array of texts") }
        return texts
    }

    /// The first readable date of several fields with the same date. Fields in Pacific time come last, since daylight saving
    /// makes one hour of each year ambiguous.
    ///
    /// Milliseconds of a time before there were receipts, such as nine digits, are not believed if a formatted date beside them
    /// disagrees by years. Zero is how programs write a date that is not there.
    mutating func instant(_ renderings: StaticString...) -> Instant? {
        var unread: StaticString?
        for (index, key) in renderings.enumerated() {
            guard let text = scalar(key, expecting: "a date") else { continue }
            guard let instant = parse(date: text) else {
                unread = unread ?? key
                continue
            }
            guard instant > .earliest || EarlierReading.isInForce else {
                report(key, "is the beginning of 1970, which counts as no date")
                continue
            }
            if instant < Self.receiptsSince, !EarlierReading.isInForce,
                let formatted = formattedDate(in: renderings[(index + 1)...]),
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

    /// Parses milliseconds since 1970, which iOS 6 style receipts also have in `expires_date`, `2019-11-08 08:13:55 Etc/GMT`,
    /// or RFC 3339, which Apple's documents promise. Xcode signs milliseconds with a fraction.
    private func parse(date text: String) -> Instant? {
        if text.utf8.first.map(isDigit) == true, let milliseconds = Int64(text) ?? withoutFraction(text) {
            return Instant(milliseconds: milliseconds)
        }
        let parts = text.split(separator: " ")
        guard parts.count == 3 else { return EarlierReading.isInForce ? nil : Instant(iso8601: text) }
        let isPacific = parts[2] == "America/Los_Angeles"
        guard isPacific || ["Etc/GMT", "GMT", "UTC", "Etc/UTC"].contains(parts[2]) else { return nil }
        if isPacific || parts[2] == "Etc/UTC", EarlierReading.isInForce { return nil }
        return isPacific
            ? Instant(pacificDate: parts[0], time: parts[1]) : Instant(iso8601: "\(parts[0])T\(parts[1])Z")
    }

    /// The milliseconds before a decimal point; nil if it is no such number of 13 digits.
    private func withoutFraction(_ text: String) -> Int64? {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].count == 13, parts[1].allSatisfy(isDigit), !EarlierReading.isInForce else {
            return nil
        }
        return Int64(Substring(parts[0]))
    }
}

private func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
}

extension Transaction {
    /// Receipts state no type, and a group of subscriptions that renew only.
    fileprivate var isRenewable: Bool {
        type.map { $0 == ProductType.autoRenewable.rawValue } ?? (subscriptionGroupIdentifier != nil)
    }
}
