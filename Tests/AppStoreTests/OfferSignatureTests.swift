import AppStore
import Crypto
import Encoding
import Foundation
import Testing

/// The claims and the order of the older form are those of Apple's articles about signing requests and promotional offers.
@Suite("Signatures of offers")
struct OfferSignatureTests {
    private static let now = Instant(iso8601: "2026-11-01T00:00:00.500Z")!
    private static let nonce = "0a1b2c3d-1111-4222-8333-000000000001"

    private let secret = P256.Signing.PrivateKey()

    private func sign(_ request: OfferSignature.Request) throws -> OfferSignature {
        let key = try ServerAPIKey(issuerId: "issuer", keyId: "KEY1", pem: secret.pemRepresentation)
        return try key.signature(of: request, for: "com.example.app", nonce: Self.nonce, at: Self.now)
    }

    /// The members of the header and of the payload, after the signature is verified.
    private func read(_ signature: OfferSignature) throws -> (header: NSDictionary, claims: NSDictionary) {
        guard case .text(let text) = signature else { throw Failure() }
        let parts = text.split(separator: ".")
        let bytes = try parts.map { try #require(Base64.decode(Array($0.utf8)[...], .url)) }
        try #require(bytes.count == 3)
        let given = try P256.Signing.ECDSASignature(rawRepresentation: bytes[2])
        #expect(secret.publicKey.isValidSignature(given, for: Array("\(parts[0]).\(parts[1])".utf8)))
        let objects = try bytes.prefix(2).map {
            try #require(try JSONSerialization.jsonObject(with: Data($0)) as? NSDictionary)
        }
        return (objects[0], objects[1])
    }

    private struct Failure: Error {}

    @Test("a promotional offer is signed for the audience of such offers, with and without a transaction")
    func promotional() throws {
        let (header, claims) = try read(
            sign(.promotional(productId: "monthly", offerId: "winter", transactionId: "2000000000000001")))

        #expect(header == ["alg": "ES256", "kid": "KEY1", "typ": "JWT"])
        #expect(
            claims == [
                "iss": "issuer", "bid": "com.example.app", "aud": "promotional-offer", "iat": 1_793_491_200,
                "nonce": Self.nonce, "productId": "monthly", "offerIdentifier": "winter",
                "transactionId": "2000000000000001",
            ])
        #expect(
            try read(sign(.promotional(productId: "monthly", offerId: "winter", transactionId: nil)))
                .claims["transactionId"] == nil)
    }

    @Test("whether a customer may have an introductory offer is signed, either way", arguments: [true, false])
    func introductory(isAllowed: Bool) throws {
        let claims = try read(
            sign(.introductory(productId: "monthly", isAllowed: isAllowed, transactionId: "2000000000000001"))
        ).claims

        #expect(
            claims == [
                "iss": "issuer", "bid": "com.example.app", "aud": "introductory-offer-eligibility",
                "iat": 1_793_491_200, "nonce": Self.nonce, "productId": "monthly",
                "allowIntroductoryOffer": isAllowed, "transactionId": "2000000000000001",
            ])
    }

    @Test("the older form signs the parameters, divided by invisible separators, an absent account token as nothing")
    func discount() throws {
        for token in [nil, "0a1b2c3d-1111-4222-8333-000000000014"] {
            let signature = try sign(.discount(productId: "monthly", offerId: "winter", accountToken: token))
            guard case .discount(let discount) = signature else { throw Failure() }
            let text = [
                "com.example.app", "KEY1", "monthly", "winter", token ?? "", Self.nonce, "1793491200500",
            ].joined(separator: "\u{2063}")
            let bytes = try #require(Base64.decode(Array(discount.signature.utf8)[...], .standard))

            #expect((discount.keyId, discount.nonce, discount.timestamp) == ("KEY1", Self.nonce, 1_793_491_200_500))
            let given = try P256.Signing.ECDSASignature(derRepresentation: bytes)
            #expect(secret.publicKey.isValidSignature(given, for: Array(text.utf8)))
        }
    }
}
