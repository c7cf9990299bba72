import Encoding
import Glibc
import Subscriptions

/// A decoded version 1 notification. Not verified, so it must not be trusted.
package struct V1Notification: Sendable {
    let document: JSONDocument
    /// Has already read the app, which is needed before the event.
    let normaliser: V1Normaliser

    /// The bundle id at the top level of the body or in its receipt info; nil if there is none.
    var bundleId: String? { normaliser.bundleId }

    /// - Parameter document: Its root must be an object.
    /// - Throws: ``UndecodableBody/notANotification`` if it has no `notification_type`. Other missing or unreadable
    ///   fields become defects of the event.
    init(_ document: JSONDocument) throws(UndecodableBody) {
        guard let type = document.root["notification_type"], !type.isNull else { throw .notANotification }
        self.document = document
        normaliser = V1Normaliser(document)
    }

    /// The shared secret that the body contains; nil if it is absent or blank.
    var password: String? {
        document.root["password"]?.string.flatMap { isBlank($0) ? nil : $0 }
    }

    /// Returns the body with every value of `password`, and every other string that contains the secret, replaced by an
    /// empty string; and whether the event of the resulting body may differ.
    func withoutSecret() -> (evidence: Evidence, mayDiffer: Bool) {
        var emptied = document.root.values(named: "password")
        let passwords = Set(emptied.map(\.contentRange))
        var receipts: [JSONValue] = []
        // The password may contain the only bytes that are not UTF-8.
        var mayDiffer = document.holdsNonASCII
        let secret = password.map { Array($0.utf8) }
        document.forEachString { text in
            let holdsSecret = secret.map { holds($0, in: text) } ?? false
            let mayBeReceipt = text.contentRange.count >= Self.receiptCharactersMin && !text.isEscaped
            guard holdsSecret || mayBeReceipt, !passwords.contains(text.contentRange) else { return }
            if holdsSecret {
                // The whole string is emptied: removing only the secret could join the remaining parts to it again.
                emptied.append(text)
                mayDiffer = true
            } else {
                receipts.append(text)
            }
        }
        return (evidence(emptying: emptied, decoding: receipts), mayDiffer)
    }

    /// Receipts have thousands of characters. Below this, decoding a text would not save anything worth storing.
    private static let receiptCharactersMin = 256

    /// - Parameter receipts: Texts that may be base64, none of them among the emptied values.
    private func evidence(emptying emptied: [JSONValue], decoding receipts: [JSONValue]) -> Evidence {
        var replacements: [(range: Range<Int>, piece: Evidence.Piece?)] = emptied.map { value in
            (value.contentRange, value.isString ? nil : .bytes([UInt8(ascii: "\""), UInt8(ascii: "\"")]))
        }
        replacements += receipts.compactMap { text in
            Base64Text(document.bytes[text.contentRange], .standard).map { (text.contentRange, .base64($0)) }
        }
        var pieces: [Evidence.Piece] = []
        var copied = 0
        for (range, piece) in replacements.sorted(by: { $0.range.lowerBound < $1.range.lowerBound }) {
            // Skips a value that was already emptied, or is inside one.
            guard range.lowerBound >= copied, range.upperBound > copied else { continue }
            pieces.append(.bytes(document.bytes[copied..<range.lowerBound]))
            if let piece { pieces.append(piece) }
            copied = range.upperBound
        }
        pieces.append(.bytes(document.bytes[copied...]))
        return Evidence(pieces)
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
