import Crypto
import CryptoExtras
import Encoding
import Testing

@testable import PlayStore

@Suite("A signed purchase")
struct SignedPurchaseTests {
    let text = Array(
        """
        {"orderId":"GPA.1","packageName":"com.example.app","productId":"premium","purchaseTime":1761022799877,\
        "purchaseState":0,"purchaseToken":"token-1","obfuscatedAccountId":"u-1","acknowledged":false}
        """.utf8)

    func key() throws -> PlayLicenseKey {
        try PlayLicenseKey(base64: Base64.text(Array(TestKeys.first.publicKey.derRepresentation)))
    }

    func signature(_ text: [UInt8], _ key: _RSA.Signing.PrivateKey = TestKeys.first) throws -> String {
        Base64.text(
            Array(
                try key.signature(for: Insecure.SHA1.hash(data: text), padding: .insecurePKCS1v1_5).rawRepresentation))
    }

    @Test("is accepted with the signature of the app's key over exactly its bytes")
    func accepted() throws {
        let purchase = try key().verify(text, signature: signature(text), packageName: "com.example.app")

        #expect(purchase.purchaseToken.text == "token-1")
        #expect(purchase.productId == "premium")
        #expect(purchase.obfuscatedAccountId == "u-1")
        #expect(purchase.purchaseTime == Instant(milliseconds: 1_761_022_799_877))
    }

    @Test("is rejected with one byte changed, another key, or another app")
    func rejected() throws {
        let signature = try signature(text)
        var changed = text
        changed[20] ^= 1

        #expect(throws: SignedPurchaseRefusal.signature) {
            try key().verify(changed, signature: signature, packageName: "com.example.app")
        }
        #expect(throws: SignedPurchaseRefusal.signature) {
            try key().verify(text + [0x20], signature: signature, packageName: "com.example.app")
        }
        #expect(throws: SignedPurchaseRefusal.signature) {
            try key().verify(
                text, signature: try self.signature(text, TestKeys.second), packageName: "com.example.app")
        }
        #expect(throws: SignedPurchaseRefusal.signature) {
            try key().verify(text, signature: "?", packageName: "com.example.app")
        }
        #expect(throws: SignedPurchaseRefusal.otherApp) {
            try key().verify(text, signature: signature, packageName: "com.example.other")
        }
        let other = Array("{}".utf8)
        #expect(throws: SignedPurchaseRefusal.unreadable) {
            try key().verify(other, signature: try self.signature(other), packageName: "com.example.app")
        }
    }

    @Test("needs a key as the Play Console shows it, line breaks included")
    func keys() throws {
        let text = Base64.text(Array(TestKeys.first.publicKey.derRepresentation))
        _ = try PlayLicenseKey(base64: String(text.prefix(64)) + "\n " + String(text.dropFirst(64)) + "\n")
        #expect(throws: PlayLicenseKey.Unreadable.self) { try PlayLicenseKey(base64: "") }
        #expect(throws: PlayLicenseKey.Unreadable.self) { try PlayLicenseKey(base64: String(text.dropLast(8))) }
    }
}
