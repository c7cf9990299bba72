import Crypto
import Foundation
import Simulation
import Subscriptions
import Testing

/// The three segments of a compact JWS.
struct SplitJWS {
    let header: Data
    let payload: Data
    let signature: Data
    let signed: Data

    init(_ text: some Collection<UInt8>) throws {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        try #require(parts.count == 3)
        header = try Self.decode(parts[0])
        payload = try Self.decode(parts[1])
        signature = try Self.decode(parts[2])
        signed = Data(parts[0]) + [UInt8(ascii: ".")] + Data(parts[1])
    }

    private static func decode(_ segment: some Collection<UInt8>) throws -> Data {
        var text = String(decoding: segment, as: UTF8.self)
        try #require(!text.contains { "+/=".contains($0) }, "not base64url, or padded")
        text = text.replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.count % 4) % 4)
        return try #require(Data(base64Encoded: text))
    }

    func isSigned(by key: P256.Signing.PublicKey) -> Bool {
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
        return key.isValidSignature(signature, for: signed)
    }

    var json: [String: Any] {
        get throws { try #require(try JSONSerialization.jsonObject(with: payload) as? [String: Any]) }
    }
}

@Suite("Signed texts have Apple's form")
struct JWSSignerTests {
    private let key = TestCertificates.standard.leafKey.publicKey

    @Test("a signed text has three segments, a header of algorithm and chain only, and a signature of 64 bytes")
    func form() throws {
        let chain = TestCertificates.standard
        let payload = Array("{\"hello\":\"w\u{F6}rld\"}".utf8)

        let jws = try SplitJWS(JWSSigner(chain).sign(payload))

        let list = chain.x5c.map { "\"\($0)\"" }.joined(separator: ",")
        #expect(String(decoding: jws.header, as: UTF8.self) == "{\"alg\":\"ES256\",\"x5c\":[\(list)]}")
        #expect(Array(jws.payload) == payload)
        #expect(jws.signature.count == 64)
        #expect(jws.isSigned(by: key))
        #expect(!jws.isSigned(by: TestKeys.p256("another signer").publicKey))
    }

    @Test("algorithm and certificates in the header can be forged")
    func lies() throws {
        let jws = try SplitJWS(JWSSigner(.standard, algorithm: "none", x5c: ["AA=="]).sign([]))

        #expect(String(decoding: jws.header, as: UTF8.self) == "{\"alg\":\"none\",\"x5c\":[\"AA==\"]}")
    }

    @Test("recorded signatures reproduce a body byte for byte")
    func tape() throws {
        let signer = JWSSigner(.standard)
        let life = try scriptedLife()
        let notification = try #require(
            life.notifications[0].version2Notification(app: testApp, customer: life.customer))
        var first = SignatureTape()
        let body = notification.body(signer, &first)
        var second = SignatureTape(first.signatures)

        #expect(notification.body(signer, &second) == body)
        #expect(first.signatures.count == 3)
        #expect(notification.body(signer) != body)
    }

    private func scriptedLife() throws -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-02-20"))
        return life
    }
}
