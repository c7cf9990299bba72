import Crypto
import Encoding
import Foundation
import Testing

@testable import EventLog

@Suite("JSON Web Tokens of the head key")
struct HeadKeyJWTTests {
    /// The key of RFC 8037, appendix A.1.
    private static let pem = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
        -----END PRIVATE KEY-----

        """

    @Test("the key set contains the key and the thumbprint of RFC 8037")
    func keySet() throws {
        let key = try #require(HeadKey(pem: Self.pem))
        var writer = JSONWriter()

        key.publicKey.writeJWK(to: &writer)

        #expect(
            writer.text == """
                {"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig",\
                "kid":"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",\
                "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
                """)
    }

    @Test("a text has a header with type and key, and its signature fits nothing else")
    func text() throws {
        let key = try #require(HeadKey(pem: Self.pem))

        let text = try key.jwt(type: "example+jwt") { $0.member("sub", "u-1") }

        let parts = text.split(separator: ".").map { Array($0.utf8)[...] }
        let decoded = try parts.map { try #require(Base64.decode($0, .url)) }
        #expect(decoded.count == 3)
        #expect(
            String(decoding: decoded[0], as: UTF8.self)
                == #"{"alg":"EdDSA","typ":"example+jwt","kid":"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"}"#)
        #expect(String(decoding: decoded[1], as: UTF8.self) == #"{"sub":"u-1"}"#)
        let signed = Array(text.utf8.prefix(parts[0].count + 1 + parts[1].count))
        let publicKey = try Curve25519.Signing.PublicKey(rawRepresentation: key.publicKey.bytes)
        #expect(publicKey.isValidSignature(decoded[2], for: signed))
        #expect(!publicKey.isValidSignature(decoded[2], for: signed.dropLast()))
    }
}
