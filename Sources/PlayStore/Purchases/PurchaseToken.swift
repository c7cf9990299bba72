import Crypto
import Encoding

/// A purchase token, which identifies a purchase on Google Play.
package struct PurchaseToken: Sendable, Hashable {
    package let text: String

    /// Nil for a text that is no token: empty, longer than ``Limits/purchaseTokenBytesMax``, or with characters other
    /// than visible ASCII.
    package init?(_ text: String) {
        guard (1...Limits.purchaseTokenBytesMax).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21..<0x7F).contains($0) })
        else { return nil }
        self.text = text
    }

    /// The id of the purchase in facts and keys: the token itself, or for a token longer than
    /// ``Limits/purchaseKeyBytesMax`` its SHA-256.
    package var key: String {
        isLong ? "sha256:" + Hex.text(Array(SHA256.hash(data: Array(text.utf8)))) : text
    }

    package var isLong: Bool { text.utf8.count > Limits.purchaseKeyBytesMax }
}
