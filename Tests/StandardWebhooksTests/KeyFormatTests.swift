import Crypto
import Foundation
import StandardWebhooks
import Testing

@Suite("Webhook keys")
struct KeyFormatTests {
    private func base64(_ count: Int) -> String { Data(repeating: 7, count: count).base64EncodedString() }

    @Test("keys are read as they are written")
    func texts() throws {
        let secret = SigningKey.makeShared()
        let privateKey = SigningKey.makeEd25519()

        #expect(secret.text.hasPrefix("whsec_"))
        #expect(privateKey.text.hasPrefix("whsk_"))
        #expect(try SigningKey(secret.text).text == secret.text)
        #expect(try SigningKey(privateKey.text).text == privateKey.text)
        let publicText = try #require(privateKey.verificationKey.publicText)
        #expect(publicText.hasPrefix("whpk_"))
        #expect(try VerificationKey(publicText).publicText == publicText)
        #expect(secret.verificationKey.publicText == nil)
        #expect(SigningKey.makeShared().text != secret.text)
    }

    @Test("a shared secret has 24 to 64 bytes")
    func secretLengths() throws {
        for count in [24, 32, 64] {
            _ = try SigningKey("whsec_" + base64(count))
            _ = try VerificationKey("whsec_" + base64(count))
        }
        for count in [0, 1, 23, 65] {
            #expect(throws: KeyFormatError.length(count)) { try SigningKey("whsec_" + base64(count)) }
            #expect(throws: KeyFormatError.length(count)) { try VerificationKey("whsec_" + base64(count)) }
        }
    }

    @Test("a private key is a seed, or a seed with its public key")
    func privateKeys() throws {
        let seed = Data(repeating: 7, count: 32)
        let key = try SigningKey("whsk_" + seed.base64EncodedString())

        #expect(try SigningKey(key.text).text == key.text)
        let wrong = seed + Data(repeating: 8, count: 32)
        #expect(throws: KeyFormatError.halvesDiffer) { try SigningKey("whsk_" + wrong.base64EncodedString()) }
        for count in [0, 31, 33, 63, 65] {
            #expect(throws: KeyFormatError.length(count)) { try SigningKey("whsk_" + base64(count)) }
        }
        for count in [0, 31, 33] {
            #expect(throws: KeyFormatError.length(count)) { try VerificationKey("whpk_" + base64(count)) }
        }
    }

    @Test("other texts are no keys")
    func otherTexts() {
        for text in ["", "whsec", "WHSEC_" + base64(32), base64(32), "whpk_" + base64(32), " whsec_" + base64(32)] {
            #expect(throws: KeyFormatError.unknownPrefix) { try SigningKey(text) }
        }
        #expect(throws: KeyFormatError.unknownPrefix) { try VerificationKey("whsk_" + base64(64)) }
        for text in ["whsec_?", "whsec_" + base64(32).dropLast(), "whsec_" + base64(32) + "\n"] {
            #expect(throws: KeyFormatError.notBase64) { try SigningKey(text) }
        }
    }

    @Test("no description shows a secret")
    func descriptions() {
        for key in [SigningKey.makeShared(), .makeEd25519()] {
            let secret = key.text.drop { $0 != "_" }.dropFirst().prefix(12)
            var dumped = ""
            dump(key, to: &dumped)
            dump(key.verificationKey, to: &dumped)
            for text in ["\(key)", String(reflecting: key), dumped, String(reflecting: key.verificationKey)] {
                #expect(!text.contains(secret))
            }
        }
    }
}
