import Foundation
import StandardWebhooks
import Testing

/// Messages that other implementations signed: see `Fixtures/README.md`.
@Suite("Standard Webhooks, compared with the reference")
struct ReferenceTests {
    struct Message: Codable {
        let id: String
        let timestamp: Int64
        let body: String
        let signingKey: String
        let verificationKey: String
        var signature: String
    }

    /// Those that the reference implementation signed.
    static func messages() throws -> [Message] {
        let url = try #require(Bundle.module.url(forResource: "reference", withExtension: "json"))
        return try JSONDecoder().decode([Message].self, from: Data(contentsOf: url))
    }

    @Test("the vector of the specification is signed and verified")
    func specification() throws {
        let key = try SigningKey("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
        let body = Data(#"{"email":"test@example.com","username":"test_user"}"#.utf8)
        let date = Date(timeIntervalSince1970: 1_649_367_553)

        let headers = WebhookHeaders(signing: body, id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", at: date, with: [key])

        #expect(headers.timestamp == "1649367553")
        #expect(headers.signature == "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=")
        try WebhookVerifier(keys: [key.verificationKey]).verify(body, headers, now: date)
    }

    @Test("what the reference signed is verified")
    func verified() throws {
        for message in try Self.messages() {
            let verifier = WebhookVerifier(keys: [try VerificationKey(message.verificationKey)])

            try verifier.verify(
                Data(message.body.utf8),
                WebhookHeaders(id: message.id, timestamp: String(message.timestamp), signature: message.signature),
                now: Date(timeIntervalSince1970: TimeInterval(message.timestamp)))
        }
    }

    /// Signatures of both kinds are functions of key and message, so what the reference verifies is what it signs. With
    /// `SUBLEDGER_WRITE_SIGNED=FILE`, writes the messages signed here, for the reference to verify.
    @Test("messages are signed with the reference's signatures")
    func signed() throws {
        var signed = try Self.messages()
        for index in signed.indices {
            let message = signed[index]
            let headers = WebhookHeaders(
                signing: Data(message.body.utf8), id: message.id,
                at: Date(timeIntervalSince1970: TimeInterval(message.timestamp)),
                with: [try SigningKey(message.signingKey)])
            #expect(headers.signature == message.signature)
            signed[index].signature = headers.signature
        }
        if let path = ProcessInfo.processInfo.environment["SUBLEDGER_WRITE_SIGNED"] {
            try JSONEncoder().encode(signed).write(to: URL(fileURLWithPath: path))
        }
    }
}
