import Crypto
import CryptoExtras
import Encoding
import Subscriptions

/// A purchase as Google Play gave it to an app, signed for the app. Created only by ``PlayLicenseKey``.
///
/// It proves that the purchase was made in the app, and not that it is still paid for: the API answers that.
package struct SignedPurchase: Sendable, Hashable {
    package let packageName: String
    package let purchaseToken: PurchaseToken
    /// The first product of the purchase; nil if the text names none.
    package let productId: String?
    package let orderId: String?
    package let purchaseTime: Instant?
    /// The app user as stated by the app at the purchase.
    package let obfuscatedAccountId: String?

    fileprivate init(_ text: [UInt8]) throws(SignedPurchaseRefusal) {
        guard let root = try? JSONDocument(text).root, root.isObject else { throw .unreadable }
        var fields = JSONFields(root)
        guard let packageName = fields.identifier("packageName"),
            let token = fields.purchaseToken("purchaseToken") ?? fields.purchaseToken("token")
        else { throw .unreadable }
        self.packageName = packageName
        purchaseToken = token
        let products = fields.raw("productIds")?.elements(atMost: 1).first?.string
        productId = fields.identifier("productId") ?? products
        orderId = fields.identifier("orderId")
        purchaseTime = fields.milliseconds("purchaseTime")
        obfuscatedAccountId = fields.identifier("obfuscatedAccountId")
    }
}

/// Why a signed purchase was refused.
package enum SignedPurchaseRefusal: String, Error, Sendable, Hashable, CustomStringConvertible {
    /// The signature is not base64, or not one of the app's key over exactly these bytes.
    case signature
    /// Signed, and not a purchase.
    case unreadable
    /// A purchase of another app.
    case otherApp = "other_app"

    package var description: String {
        switch self {
        case .signature:
            "the signature is not the app's: expected base64 of RSA with SHA-1 over the bytes of the purchase"
        case .unreadable: "the signed text is not a purchase: expected packageName and purchaseToken"
        case .otherApp: "the purchase is of another app"
        }
    }
}

/// The public key with which Google Play signs the purchases of an app: the license key of the Play Console.
package struct PlayLicenseKey: Sendable {
    private let key: _RSA.Signing.PublicKey

    package struct Unreadable: Error, Hashable, CustomStringConvertible {
        package var description: String {
            "not a license key of the Play Console: expected base64 of an RSA public key (DER, SubjectPublicKeyInfo)"
        }
    }

    /// - Parameter text: Base64 as the Play Console shows it; line breaks and spaces are ignored.
    package init(base64 text: String) throws(Unreadable) {
        let compact = text.utf8.filter { $0 != 0x20 && !(0x09...0x0D).contains($0) }
        guard let der = Base64.decode(compact[...], .standard),
            // Keys of old apps have 1,024 bits.
            let key = try? _RSA.Signing.PublicKey(unsafeDERRepresentation: der)
        else { throw Unreadable() }
        self.key = key
    }

    /// Verifies that Google Play signed the purchase for the app.
    ///
    /// - Parameters:
    ///   - text: The bytes of the purchase exactly as the app got them: another order of members is another text.
    ///   - signature: Base64.
    package func verify(
        _ text: [UInt8], signature: String, packageName: String
    ) throws(SignedPurchaseRefusal) -> SignedPurchase {
        guard let bytes = Base64.decode(Array(signature.utf8)[...], .standard) else { throw .signature }
        // SHA-1 because that is what Google Play signs with.
        let digest = Insecure.SHA1.hash(data: text)
        let signature = _RSA.Signing.RSASignature(rawRepresentation: bytes)
        guard key.isValidSignature(signature, for: digest, padding: .insecurePKCS1v1_5) else { throw .signature }
        let purchase = try SignedPurchase(text)
        guard purchase.packageName == packageName else { throw .otherApp }
        return purchase
    }
}
