import Encoding

/// What an app needs to buy a product with an offer that the developer decides on: a text that proves the decision.
///
/// - Source: Apple, "Generating JWS to sign App Store requests", and for the older form "Generating a signature for
///   promotional offers".
package enum OfferSignature: Sendable, Hashable {
    /// A signed text for StoreKit.
    case text(String)
    /// The older form, for `SKPaymentDiscount` and `Product.PurchaseOption.promotionalOffer(offerID:keyID:…)`.
    case discount(Discount)

    package struct Discount: Sendable, Hashable {
        package let keyId: String
        /// A UUID in lower case.
        package let nonce: String
        /// Milliseconds since 1970.
        package let timestamp: Int64
        /// In Base64.
        package let signature: String
    }

    /// What is signed.
    package enum Request: Sendable, Hashable {
        /// - Parameters:
        ///   - transactionId: Of any transaction of the customer, or the customer's id of the app transaction. The App
        ///     Store recommends one; nil if there is none.
        case promotional(productId: String, offerId: String, transactionId: String?)
        /// The older form.
        ///
        /// - Parameter accountToken: A UUID in lower case; nil if the purchase will have none.
        case discount(productId: String, offerId: String, accountToken: String?)
        /// Whether the customer may have the introductory offer of a product.
        case introductory(productId: String, isAllowed: Bool, transactionId: String)
    }
}

extension ServerAPIKey {
    /// Signs that a customer may use an offer.
    ///
    /// - Parameters:
    ///   - nonce: A new UUID in lower case: the App Store accepts each once.
    ///   - now: Our clock.
    package func signature(
        of request: OfferSignature.Request, for bundleId: String, nonce: String, at now: Instant
    ) throws -> OfferSignature {
        func text(_ audience: String, _ claims: (inout JSONWriter) -> Void) throws -> OfferSignature {
            .text(
                try signed { writer in
                    writer.member("iss", issuerId)
                    writer.member("bid", bundleId)
                    writer.member("aud", audience)
                    writer.member("iat", now.milliseconds / 1000)
                    writer.member("nonce", nonce)
                    claims(&writer)
                })
        }
        switch request {
        case .promotional(let productId, let offerId, let transactionId):
            return try text("promotional-offer") { writer in
                writer.member("productId", productId)
                writer.member("offerIdentifier", offerId)
                writer.member("transactionId", transactionId)
            }
        case .introductory(let productId, let isAllowed, let transactionId):
            return try text("introductory-offer-eligibility") { writer in
                writer.member("productId", productId)
                writer.member("allowIntroductoryOffer", isAllowed)
                writer.member("transactionId", transactionId)
            }
        case .discount(let productId, let offerId, let accountToken):
            let timestamp = now.milliseconds
            let signed = [bundleId, keyId, productId, offerId, accountToken ?? "", nonce, String(timestamp)]
            var signature: [UInt8] = []
            Base64.append(
                try self.signature(of: Array(signed.joined(separator: Self.invisibleSeparator).utf8))[...], .standard,
                to: &signature)
            return .discount(
                OfferSignature.Discount(
                    keyId: keyId, nonce: nonce, timestamp: timestamp,
                    signature: String(decoding: signature, as: UTF8.self)))
        }
    }

    private static let invisibleSeparator = "\u{2063}"
}
