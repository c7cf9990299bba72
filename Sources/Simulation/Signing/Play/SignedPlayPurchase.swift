import Crypto
import Encoding
import Foundation

/// The text that an app gets with a purchase, with the signature over its exact bytes.
package struct SignedPlayPurchase: Sendable, Hashable {
    package let text: [UInt8]
    /// SHA1withRSA, as base64.
    package let signature: String

    package init(_ handIn: PlayHandIn, packageName: String, key: RSATestKey = RSATestKeys.license) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("orderId", handIn.orderId)
            writer.member("packageName", packageName)
            writer.member("productId", handIn.productId)
            writer.member("purchaseTime", handIn.at.milliseconds)
            writer.member("purchaseState", 0)
            writer.member("purchaseToken", handIn.purchaseToken)
            writer.member("obfuscatedAccountId", handIn.accountId)
            writer.member("quantity", 1)
            if handIn.isSubscription { writer.member("autoRenewing", true) }
            writer.member("acknowledged", false)
        }
        self.init(text: writer.bytes, key: key)
    }

    /// Signs any text.
    package init(text: [UInt8], key: RSATestKey) {
        self.text = text
        signature = Base64.text(key.signature(of: Insecure.SHA1.hash(data: text)))
    }

    /// The app's public key as the Play Console shows it: base64 of a DER SubjectPublicKeyInfo.
    package static func publicKey(_ key: RSATestKey = RSATestKeys.license) -> String {
        Base64.text(Array(key.privateKey.publicKey.derRepresentation))
    }
}
