import AppStore
import Encoding
import Foundation
import Subscriptions
import TestSupport
import Testing

private let receivedAt = day("2026-01-01")

private func refusal(_ apps: Apps, _ body: JSON) -> Refusal? {
    do {
        _ = try apps.verify(body.bytes, receivedAt: receivedAt)
        return nil
    } catch {
        return error
    }
}

@Suite("Verification by shared secret")
struct VerificationTests {
    private let apps = Apps([
        App(bundleId: testBundle, sharedSecrets: [testSecret, "fedcba9876543210fedcba9876543210"]),
        App(bundleId: "com.example.other", sharedSecrets: ["00000000000000000000000000000other"]),
    ])
    private let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])

    @Test(
        "each configured secret of the named app is accepted, the old and the new one",
        arguments: [
            testSecret, "fedcba9876543210fedcba9876543210",
        ])
    func right(secret: String) throws {
        let verified = try apps.verify(body.with(["password": .text(secret)]).bytes, receivedAt: receivedAt)

        #expect(verified.stream == StreamKey(app: testBundle, environment: .production))
        #expect(verified.event.type == "DID_RENEW")
        #expect(verified.event.transactions.count == 1)
    }

    @Test(
        "a wrong secret is rejected",
        arguments: [
            "0123456789abcdef0123456789abcdee", "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef0123456789abcde",
            "0123456789abcdef0123456789abcdef0", "00000000000000000000000000000other", "x",
        ])
    func wrong(secret: String) {
        #expect(refusal(apps, body.with(["password": .text(secret)])) == .secretWrong(app: testBundle))
    }

    @Test("a missing or blank secret is rejected (quirk 12)", arguments: [nil, "\"\"", "\" \"", "\"   \"", "null"])
    func missing(password: String?) {
        let body = password.map { self.body.with(["password": .raw($0)]) } ?? self.body.without("password")

        #expect(refusal(apps, body) == .secretMissing)
    }

    @Test("a blank secret does not match an app without a secret")
    func noSecretConfigured() {
        let apps = Apps([App(bundleId: testBundle, sharedSecrets: [])])

        #expect(refusal(apps, body.with(["password": ""])) == .secretMissing)
        #expect(refusal(apps, body) == .secretWrong(app: testBundle))
    }

    @Test("a body with a valid secret that names an unconfigured app is rejected as unknown")
    func unknownApp() {
        #expect(refusal(apps, body.with(["bid": "com.example.unknown"])) == .appUnknown)
        #expect(refusal(Apps([]), body) == .secretWrong(app: nil))
    }

    @Test("a body without a valid secret gets the same answer for every app, configured or not")
    func configuredAppsAreNotTold() throws {
        let bodies = [nil, "", "guessed-guessed-guessed"].flatMap { (secret: String?) in
            [testBundle, "com.example.other", "com.example.unknown", nil].map { (app: String?) in
                var body = body
                body["password"] = secret.map { .text($0) }
                body["bid"] = app.map { .text($0) }
                return body
            }
        }

        let refusals = bodies.map { refusal(apps, $0) }

        #expect(Set(refusals.map { $0?.description }).count == 1)
        #expect(refusals.allSatisfy { ["secret_missing", "secret_wrong"].contains($0?.label) })
    }

    @Test("the app is identified by its secret if the body names none", arguments: [nil, "\" \"", "\"\"", "null"])
    func toldBySecret(bid: String?) throws {
        let body = bid.map { self.body.with(["bid": .raw($0)]) } ?? self.body.without("bid")

        let verified = try apps.verify(body.bytes, receivedAt: receivedAt)

        #expect(verified.stream.app == testBundle)
        #expect(refusal(apps, body.with(["password": "nobody's"])) == .secretWrong(app: nil))
    }

    @Test("an old body names its app in the receipt, and that app's secret is required")
    func bundleInReceipt() throws {
        let body = oldBody("INITIAL_BUY", row: oldRow("1000000000000001", "2019-01-01", "2019-02-01"))

        let verified = try apps.verify(body.bytes, receivedAt: receivedAt)

        #expect(verified.stream == StreamKey(app: testBundle, environment: .production))
        #expect(
            refusal(apps, body.with(["password": "00000000000000000000000000000other"]))
                == .secretWrong(app: testBundle))
    }

    @Test("apps with the same secret are identified by name, and a body without a name is ambiguous")
    func sharedSecret() throws {
        let apps = Apps([
            App(bundleId: testBundle, sharedSecrets: [testSecret]),
            App(bundleId: "com.example.other", sharedSecrets: [testSecret]),
        ])

        let verified = try apps.verify(body.with(["bid": "com.example.other"]).bytes, receivedAt: receivedAt)

        #expect(verified.stream.app == "com.example.other")
        #expect(refusal(apps, body.without("bid")) == .appAmbiguous)
    }

    @Test("sandbox and production of one app are separate streams even with equal ids (quirk 40, invariant 10)")
    func environments() throws {
        let production = try apps.verify(body.bytes, receivedAt: receivedAt)
        let sandbox = try apps.verify(
            body.with(["environment": "Sandbox"]).withUnified(["environment": "Sandbox"]).bytes,
            receivedAt: receivedAt)

        #expect(production.stream == StreamKey(app: testBundle, environment: .production))
        #expect(sandbox.stream == StreamKey(app: testBundle, environment: .sandbox))
        #expect(production.event.transactions == sandbox.event.transactions)
        #expect(production.event.dedupeKey != sandbox.event.dedupeKey)
    }

    @Test("an undecodable body is rejected before its secret is checked")
    func undecodable() {
        #expect(refusal(apps, [:]) == .undecodable(.notANotification))
        #expect(refusal(apps, ["signedPayload": "a.b.c"]) == .undecodable(.malformed(.notBase64, .notification)))
        #expect(refusal(apps, []) == .undecodable(.notAnObject))
    }

    @Test("error descriptions contain no secret")
    func refusalsNameNoSecret() {
        let refusals = [
            refusal(apps, body.with(["password": "wrong-secret-value"])),
            refusal(apps, body.with(["bid": "com.example.unknown", "password": "wrong-secret-value"])),
        ]

        for refusal in refusals {
            #expect(refusal != nil && refusal?.description.contains("wrong-secret-value") == false)
        }
    }
}

@Suite("Removing the secret from the body")
struct SecretCutTests {
    private let apps = Apps([App(bundleId: testBundle, sharedSecrets: [testSecret])])
    private let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])

    private func cut(_ text: String) throws -> String {
        let bytes = try apps.verify(Array(text.utf8), receivedAt: receivedAt).evidence.bytes
        _ = try JSONDocument(bytes)
        _ = try JSONSerialization.jsonObject(with: Data(bytes))
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("the body is stored byte for byte without the secret")
    func simple() throws {
        let text = "\r\n" + body.written.replacingOccurrences(of: ", ", with: " ,\t") + "\n"

        let cut = try cut(text)

        #expect(cut == text.replacingOccurrences(of: testSecret, with: ""))
    }

    @Test(
        "the published samples are stored byte for byte without the secret",
        arguments: [
            "seed000-did-change-renewal-status", "seed000-did-change-renewal-status.expired-keys",
        ])
    func samples(name: String) throws {
        let text = String(decoding: try fixture(name), as: UTF8.self)

        let cut = try cut(text)

        #expect(cut == text.replacingOccurrences(of: testSecret, with: ""))
    }

    @Test("the last of two passwords is used, and both are removed")
    func duplicates() throws {
        let right =
            #"{"password": "first-secret-value", "password": "\#(testSecret)", "#
            + body.without("password").written.dropFirst()
        let wrong =
            #"{"password": "\#(testSecret)", "password": "last-secret-value", "#
            + body.without("password").written.dropFirst()

        let cut = try cut(right)

        #expect(!cut.contains("first-secret-value") && !cut.contains(testSecret))
        #expect(
            cut
                == right.replacingOccurrences(of: "first-secret-value", with: "")
                .replacingOccurrences(of: testSecret, with: ""))
        #expect(throws: Refusal.secretWrong(app: testBundle)) {
            try apps.verify(Array(wrong.utf8), receivedAt: receivedAt)
        }
    }

    @Test(
        "the secret is removed from every other place",
        arguments: [
            #""note": "\#(testSecret)""#, #""note": "before \#(testSecret) behind""#,
            #""note": {"deep": [1, ["\#(testSecret)"]]}"#, #""nested": {"password": "\#(testSecret)"}"#,
            #""\#(testSecret)": 1"#, #""note": "\#(testSecret)\#(testSecret)""#,
        ])
    func elsewhere(member: String) throws {
        let text = "{\(member), " + body.written.dropFirst()

        let cut = try cut(text)

        #expect(!cut.contains(testSecret))
        #expect(cut.hasSuffix(body.written.dropFirst().replacingOccurrences(of: testSecret, with: "")))
    }

    @Test("the secret is removed from other places even if it is written with escapes")
    func elsewhereEscaped() throws {
        let text = #"{"note": "0123456789\u0061bcdef0123456789abcdef", "# + body.written.dropFirst()

        let cut = try cut(text)

        #expect(!cut.contains("bcdef0123456789abcdef"))
    }

    /// The bytes of the secret can start with the last digit of an escape. Removing only them would break the escape.
    @Test("removing the secret next to an escape leaves valid JSON")
    func besideAnEscape() throws {
        let text = #"{"note": "\u0030123456789abcdef0123456789abcdef", "# + body.written.dropFirst()

        let cut = try cut(text)

        #expect(!cut.contains("123456789abcdef0123456789abcdef"))
    }

    @Test(
        "a password with escapes in its key or value is removed",
        arguments: [
            #""pass\u0077ord": "\#(testSecret)""#, #""\u0070assword": "\#(testSecret)""#,
            #""password": "\u0030123456789abcdef0123456789abcdef""#,
        ])
    func escaped(member: String) throws {
        let text = "{\(member), " + body.without("password").written.dropFirst()

        let cut = try cut(text)

        #expect(!cut.contains("123456789abcdef0123456789abcdef"))
        #expect(cut.hasSuffix(String(body.without("password").written.dropFirst())))
    }

    @Test("removing a secret of digits leaves valid JSON if a number contains the same digits")
    func digits() throws {
        let digits = "1400000001400000001"
        let apps = Apps([App(bundleId: testBundle, sharedSecrets: [digits])])
        let body = body.with(["password": .text(digits), "auto_renew_adam_id": .raw(digits)])

        let cut = try apps.verify(body.bytes, receivedAt: receivedAt).evidence.bytes

        #expect(throws: Never.self) { try JSONDocument(cut) }
    }

    @Test("a body that is not a notification without its secret is rejected")
    func secretIsAKey() {
        let apps = Apps([App(bundleId: testBundle, sharedSecrets: ["notification_type"])])

        #expect(refusal(apps, body.with(["password": "notification_type"])) == .undecodable(.notANotification))
    }

    @Test("a body without its secret gives the same event")
    func sameEvent() throws {
        let verified = try apps.verify(body.bytes, receivedAt: receivedAt)

        let again = try AppleNotification(decoding: verified.evidence.bytes).event(receivedAt: receivedAt)

        #expect(again == verified.event)
    }
}
