import Foundation
import StandardWebhooks
import Testing

@Suite("Webhook verifier")
struct WebhookVerifierTests {
    let secret = SigningKey.makeShared()
    let privateKey = SigningKey.makeEd25519()
    let body = Data(#"{"type":"test"}"#.utf8)
    let sent = Date(timeIntervalSince1970: 1_795_750_200.9)

    private func headers(_ keys: [SigningKey]) -> WebhookHeaders {
        WebhookHeaders(signing: body, id: "msg_1", at: sent, with: keys)
    }

    private func verify(
        _ headers: WebhookHeaders, _ keys: [SigningKey], body: Data? = nil, after seconds: TimeInterval = 0
    ) throws(VerificationError) {
        try WebhookVerifier(keys: keys.map(\.verificationKey)).verify(
            body ?? self.body, headers, now: sent.addingTimeInterval(seconds))
    }

    @Test("a message is valid with the key that signed it, and with no other")
    func keys() throws {
        for key in [secret, privateKey] { try verify(headers([key]), [key]) }

        for (signer, other) in [
            (secret, SigningKey.makeShared()), (privateKey, .makeEd25519()), (secret, privateKey), (privateKey, secret),
        ] {
            #expect(throws: VerificationError.noMatchingSignature) { try verify(headers([signer]), [other]) }
        }
        #expect(throws: VerificationError.noMatchingSignature) { try verify(headers([secret]), []) }
    }

    @Test("during a rotation, either key is enough on either side")
    func rotation() throws {
        let new = SigningKey.makeShared()
        let both = headers([new, secret])

        #expect(both.signature.split(separator: " ").count == 2)
        try verify(both, [secret])
        try verify(both, [new])
        try verify(headers([secret]), [new, secret])
        try verify(headers([privateKey, secret]), [privateKey])
    }

    @Test("one byte changed anywhere makes a message invalid")
    func changes() {
        for key in [secret, privateKey] {
            let valid = headers([key])
            for index in body.indices {
                var changed = body
                changed[index] ^= 1
                #expect(throws: VerificationError.noMatchingSignature) { try verify(valid, [key], body: changed) }
            }
            #expect(throws: VerificationError.noMatchingSignature) { try verify(valid, [key], body: body + [0]) }
            let others = [
                WebhookHeaders(id: "msg_2", timestamp: valid.timestamp, signature: valid.signature),
                WebhookHeaders(id: valid.id, timestamp: "1795750201", signature: valid.signature),
                WebhookHeaders(id: valid.id, timestamp: "01795750200", signature: valid.signature),
                WebhookHeaders(
                    id: valid.id, timestamp: valid.timestamp, signature: String(valid.signature.dropLast(4))),
                WebhookHeaders(
                    id: valid.id, timestamp: valid.timestamp, signature: "v2" + valid.signature.dropFirst(2)),
            ]
            for other in others {
                #expect(throws: VerificationError.noMatchingSignature) { try verify(other, [key]) }
            }
        }
    }

    @Test("an attempt is valid for five minutes in either direction")
    func tolerance() throws {
        let headers = headers([secret])
        // The timestamp is that of the second in which the attempt began.
        try verify(headers, [secret], after: 299)
        try verify(headers, [secret], after: -300)

        #expect(throws: VerificationError.tooOld) { try verify(headers, [secret], after: 299.2) }
        #expect(throws: VerificationError.tooNew) { try verify(headers, [secret], after: -301) }
        let strict = WebhookVerifier(keys: [secret.verificationKey], tolerance: .seconds(10))
        #expect(throws: VerificationError.tooOld) {
            try strict.verify(body, headers, now: sent.addingTimeInterval(11))
        }
    }

    @Test("missing and malformed headers are named")
    func malformed() {
        let valid = headers([secret])
        for name in [WebhookHeaders.idName, WebhookHeaders.timestampName, WebhookHeaders.signatureName] {
            #expect(throws: VerificationError.missingHeader(name)) {
                try WebhookVerifier(keys: [secret.verificationKey]).verify(body, now: sent) { asked in
                    asked == name ? nil : valid.fields.first { $0.name == asked }?.value
                }
            }
        }
        for timestamp in ["now", "-1", "1795750200.5", " 1795750200", "99999999999999999999"] {
            let headers = WebhookHeaders(id: valid.id, timestamp: timestamp, signature: valid.signature)
            #expect(throws: VerificationError.malformedTimestamp) { try verify(headers, [secret]) }
        }
        for signature in ["v1", "v1,", ",", "v1,?", " ", "v1a,AAAA", "v1,AAAA"] {
            let headers = WebhookHeaders(id: valid.id, timestamp: valid.timestamp, signature: signature)
            #expect(throws: VerificationError.noMatchingSignature) { try verify(headers, [secret, privateKey]) }
        }
    }

    @Test("signatures of unknown versions beside a valid one are skipped")
    func laterVersions() throws {
        let valid = headers([secret])
        for noise in ["v2,AAAA", "junk", "v1,?", "v1a,AAAA"] {
            try verify(
                WebhookHeaders(id: valid.id, timestamp: valid.timestamp, signature: "\(noise)  \(valid.signature)"),
                [secret])
        }
    }
}
