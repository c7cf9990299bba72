import Crypto
import Encoding

/// A receipt as a device or the App Store hands it out: what a question to verifyReceipt is about. Nothing in it is
/// verified.
package struct Receipt: Sendable, Hashable {
    /// The two formats of receipts, which Apple names after the iOS versions that introduced them.
    package enum Style: String, Sendable {
        /// iOS 7: a signed container in DER with all purchases of an app.
        case app
        /// iOS 6: a property list with one transaction.
        case transaction
    }

    /// The decoded bytes.
    package let bytes: [UInt8]
    /// SHA-256 of the bytes.
    package let digest: [UInt8]

    /// Maximum length of the base64 text. Receipts grow with each purchase; more than 1 MiB has been reported.
    package static let bytesMax = 5 << 20

    /// The tag of a DER sequence, with which every app receipt begins.
    private static let sequenceTag: UInt8 = 0x30

    /// Decodes base64 in the standard alphabet. Line breaks are ignored, and padding may be missing.
    package init(base64 text: String) throws(ReceiptProblem) {
        guard text.utf8.count <= Self.bytesMax else { throw .tooLong }
        guard !isBlank(text) else { throw .empty }
        var digits = Array(text.utf8)
        digits.removeAll { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
        guard !digits.contains(UInt8(ascii: " ")) else { throw .blanksInsteadOfPlus }
        if digits.last != UInt8(ascii: "=") {
            digits += repeatElement(UInt8(ascii: "="), count: (4 - digits.count % 4) % 4)
        }
        guard let bytes = Base64.decode(digits[...], .standard) else { throw .notBase64 }
        self.init(stored: bytes)
    }

    /// - Parameter bytes: The decoded bytes.
    package init(stored bytes: [UInt8]) {
        self.bytes = bytes
        digest = Array(SHA256.hash(data: bytes))
    }

    package var style: Style { bytes.first == Self.sequenceTag ? .app : .transaction }

    /// Canonical base64: padded, on one line.
    package var base64: String {
        var text: [UInt8] = []
        Base64.append(bytes[...], .standard, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}
