import Encoding
import Glibc
import Subscriptions

// The evidence of a body that is not signed. V1 notifications contain the shared secret of their app; answers of
// verifyReceipt should not, but it must not reach the log.

extension JSONDocument {
    /// Returns the body to store: every value of `password`, and every other string that contains a secret, is replaced
    /// by an empty string, and long base64 is decoded. Also returns whether the event of the stored body may differ.
    func evidence(without secrets: [String]) -> (evidence: Evidence, mayDiffer: Bool) {
        var emptied = root.values(named: "password")
        let passwords = Set(emptied.map(\.contentRange))
        var receipts: [JSONValue] = []
        // The password may contain the only bytes that are not UTF-8.
        var mayDiffer = holdsNonASCII
        let secrets = secrets.map { Array($0.utf8) }
        forEachString { text in
            let holdsSecret = secrets.contains { holds($0, in: text) }
            let mayBeReceipt = text.contentRange.count >= receiptCharactersMin && !text.isEscaped
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

    /// - Parameter receipts: Texts that may be base64, none of them among the emptied values.
    private func evidence(emptying emptied: [JSONValue], decoding receipts: [JSONValue]) -> Evidence {
        var replacements: [(range: Range<Int>, piece: Evidence.Piece?)] = emptied.map { value in
            (value.contentRange, value.isString ? nil : .bytes([UInt8(ascii: "\""), UInt8(ascii: "\"")]))
        }
        replacements += receipts.compactMap { text in
            Base64Text(bytes[text.contentRange], .standard).map { (text.contentRange, .base64($0)) }
        }
        var pieces: [Evidence.Piece] = []
        var copied = 0
        for (range, piece) in replacements.sorted(by: { $0.range.lowerBound < $1.range.lowerBound }) {
            // Skips a value that was already emptied, or is inside one.
            guard range.lowerBound >= copied, range.upperBound > copied else { continue }
            pieces.append(.bytes(bytes[copied..<range.lowerBound]))
            if let piece { pieces.append(piece) }
            copied = range.upperBound
        }
        pieces.append(.bytes(bytes[copied...]))
        return Evidence(pieces)
    }

    private func holds(_ secret: [UInt8], in text: JSONValue) -> Bool {
        if contains(secret, in: bytes, within: text.contentRange) { return true }
        guard text.isEscaped else { return false }
        let unescaped = text.unescapedBytes
        return contains(secret, in: unescaped, within: unescaped.indices)
    }
}

/// Receipts have thousands of characters. Below this, decoding a text would not save anything worth storing.
private let receiptCharactersMin = 256

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
