import Encoding
import Glibc

/// A decoded version 1 notification. Not verified, so it must not be trusted.
package struct V1Notification: Sendable {
    let document: JSONDocument

    /// - Parameter document: Its root must be an object.
    /// - Throws: ``UndecodableBody/notANotification`` if it has no `notification_type`. Other missing or unreadable
    ///   fields become defects of the event.
    init(_ document: JSONDocument) throws(UndecodableBody) {
        guard let type = document.root["notification_type"], !type.isNull else { throw .notANotification }
        self.document = document
    }

    /// The shared secret that the body contains; nil if it is absent or blank.
    var password: String? {
        document.root["password"]?.string.flatMap { isBlank($0) ? nil : $0 }
    }

    /// Returns the body with every value of `password`, and every other string that contains the secret, replaced by an
    /// empty string; and whether the event of the resulting body may differ.
    func withoutSecret() -> (body: [UInt8], mayDiffer: Bool) {
        var emptied = document.root.values(named: "password")
        let passwords = emptied.map(\.contentRange)
        // The password may contain the only bytes that are not UTF-8.
        var mayDiffer = document.holdsNonASCII
        if let secret = password.map({ Array($0.utf8) }) {
            // The whole string is emptied: removing only the secret could join the remaining parts to the secret again.
            document.forEachString { text in
                guard holds(secret, in: text), !passwords.contains(text.contentRange) else { return }
                emptied.append(text)
                mayDiffer = true
            }
        }
        var result: [UInt8] = []
        result.reserveCapacity(document.bytes.count)
        var copied = 0
        for value in emptied.sorted(by: { $0.contentRange.lowerBound < $1.contentRange.lowerBound }) {
            let range = value.contentRange
            // Skips a value that was already emptied, or is inside one.
            guard range.lowerBound >= copied, range.upperBound > copied else { continue }
            result += document.bytes[copied..<range.lowerBound]
            if !value.isString { result += [UInt8(ascii: "\""), UInt8(ascii: "\"")] }
            copied = range.upperBound
        }
        return (result + document.bytes[copied...], mayDiffer)
    }

    private func holds(_ secret: [UInt8], in text: JSONValue) -> Bool {
        if contains(secret, in: document.bytes, within: text.contentRange) { return true }
        guard text.isEscaped else { return false }
        let bytes = text.unescapedBytes
        return contains(secret, in: bytes, within: bytes.indices)
    }
}

func isBlank(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) }
}

/// Compares the first and the last byte of the needle at eight offsets at a time. A body is mostly base64, which
/// contains the same letters as the secret, so stopping at each occurrence of one byte would be slow.
private func contains(_ needle: [UInt8], in haystack: [UInt8], within range: Range<Int>) -> Bool {
    guard let first = needle.first, let last = needle.last, needle.count <= range.count else { return false }
    return haystack.withUnsafeBytes { bytes in
        guard let base = bytes.baseAddress else { return false }
        let ones: UInt64 = 0x0101_0101_0101_0101
        let firsts = ones &* UInt64(first)
        let lasts = ones &* UInt64(last)
        var place = range.lowerBound
        let lastPlace = range.upperBound - needle.count
        while place &+ 7 <= lastPlace {
            let differing =
                ((base + place).loadUnaligned(as: UInt64.self) ^ firsts)
                | ((base + (place &+ needle.count &- 1)).loadUnaligned(as: UInt64.self) ^ lasts)
            // Sets the top bit of each zero byte, and possibly of bytes above it.
            if (differing &- ones) & ~differing & (ones &* 0x80) != 0 {
                for candidate in place...place + 7 where memcmp(base + candidate, needle, needle.count) == 0 {
                    return true
                }
            }
            place &+= 8
        }
        guard place <= lastPlace else { return false }
        return (place...lastPlace).contains { memcmp(base + $0, needle, needle.count) == 0 }
    }
}
