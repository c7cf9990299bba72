import AppStore
import Foundation
import Subscriptions
import Testing

@Suite("Parts of a body's evidence that can be stored decoded")
struct EvidenceTests {
    private static let receipt = String(repeating: "QUJD", count: 100)
    private let apps = Apps([App(bundleId: testBundle, sharedSecrets: [testSecret])])
    private let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])

    private func signed(_ body: [UInt8]) throws -> Evidence {
        guard case .v2(let notification) = try AppleNotification(decoding: body) else {
            throw UndecodableBody.notANotification
        }
        return notification.evidence
    }

    private func kept(_ body: JSON) throws -> Evidence {
        try apps.verify(body.bytes, receivedAt: day("2026-01-01")).evidence
    }

    private func innerTexts(_ evidence: Evidence) -> [[UInt8]] {
        evidence.pieces.flatMap { piece -> [[UInt8]] in
            guard case .jws(let jws) = piece else { return [] }
            return jws.inner.map { $0.jws.pieces.flatMap { $0 } }
        }
    }

    private func decoded(_ evidence: Evidence) -> [[UInt8]] {
        evidence.pieces.compactMap { piece in
            guard case .base64(let text) = piece else { return nil }
            return text.bytes
        }
    }

    @Test("a signed notification gives the signed texts inside it")
    func inner() throws {
        let body = V2FieldTests.body
        var texts: [[UInt8]] = []
        _ = body.filled { part in
            texts.append(unsignedJWS(part))
            return unsignedJWS(part)
        }

        let evidence = try signed(body.unsigned)

        #expect(evidence.bytes == body.unsigned)
        #expect(Set(innerTexts(evidence)) == Set(texts))
        #expect(texts.count == 2)
    }

    @Test("text around the signed payload is dropped, and escapes of the outer JSON are resolved")
    func around() throws {
        let body = V2FieldTests.body.unsigned
        let text = String(decoding: body, as: UTF8.self)
        let changed = text.replacingOccurrences(
            of: "{\"signedPayload\":\"e", with: "{\"a\":1,\"signedPayload\":\"\\u0065")

        let evidence = try signed(Array(changed.utf8))

        #expect(changed != text)
        #expect(evidence.bytes == body)
        #expect(innerTexts(evidence).count == 2)
    }

    @Test("a signed text that contains escapes inside another is stored unchanged")
    func escaped() throws {
        let escaped = V2FieldTests.body.filled { part in
            Array("\\u0065".utf8) + unsignedJWS(part).dropFirst()
        }
        let body = envelope(unsignedJWS(escaped))

        let evidence = try signed(body)

        #expect(try AppleNotification(decoding: body).event(receivedAt: day("2026-01-01")).transactions.count == 1)
        #expect(evidence.bytes == body)
        #expect(innerTexts(evidence).isEmpty)
    }

    @Test("a version 1 body gives its receipts at every level")
    func receipts() throws {
        let body = body.with(["latest_receipt": .text(Self.receipt)])
            .withUnified(["latest_receipt": .text(Self.receipt + "QQ==")])
        let expected = body.with(["password": ""])

        let evidence = try kept(body)

        #expect(evidence.bytes == expected.bytes)
        let receipt = Array(String(repeating: "ABC", count: 100).utf8)
        #expect(Set(decoded(evidence)) == [receipt, receipt + [65]])
    }

    @Test(
        "a receipt that is not canonical base64 is stored unchanged",
        arguments: ["QQ", "QR==", "====", "-_-_", "QUJ!"])
    func oddReceipts(end: String) throws {
        let body = body.with(["latest_receipt": .text(Self.receipt + end)])

        let evidence = try kept(body)

        #expect(evidence.bytes == body.with(["password": ""]).bytes)
        #expect(decoded(evidence).isEmpty)
    }

    @Test("a receipt that contains or equals the secret is emptied")
    func secretReceipts() throws {
        let receipt = Self.receipt + testSecret
        let holding = try kept(body.with(["latest_receipt": .text(receipt)]))
        let apps = Apps([App(bundleId: testBundle, sharedSecrets: [receipt])])
        let being = try apps.verify(
            body.with(["password": .text(receipt), "latest_receipt": .text(receipt)]).bytes,
            receivedAt: day("2026-01-01")
        ).evidence

        for evidence in [holding, being] {
            #expect(evidence.bytes == body.with(["password": "", "latest_receipt": ""]).bytes)
            #expect(decoded(evidence).isEmpty)
        }
    }
}
