import AppStore
import Foundation
import Simulation
import Subscriptions
import Testing

/// A place of a signed text inside a notification.
enum InnerPart: CaseIterable, Sendable, CustomTestStringConvertible {
    case transaction, renewal, appTransaction

    var part: AppStore.V2Notification.Part {
        switch self {
        case .transaction: .transaction
        case .renewal: .renewal
        case .appTransaction: .appTransaction
        }
    }

    var testDescription: String { part.rawValue }

    static let signedAt = "2024-06-01"

    /// A notification that contains such a part.
    func body(environment: String = "Production") -> V2Body {
        switch self {
        case .transaction, .renewal:
            V2Body(
                "DID_RENEW", at: Self.signedAt, v2Row("2", "2024-06-01", "2024-07-01"), v2Renewal(),
                environment: environment)
        case .appTransaction: rescinded(at: Self.signedAt, environment: environment)
        }
    }

    private var path: WritableKeyPath<V2Body, JSON?> {
        switch self {
        case .transaction: \.transaction
        case .renewal: \.renewal
        case .appTransaction: \.appTransaction
        }
    }

    func changing(_ body: V2Body, _ change: (JSON) -> JSON) -> V2Body {
        var copy = body
        copy[keyPath: path] = body[keyPath: path].map(change)
        return copy
    }

    /// The body with the text of this part changed after signing; the outer notification is genuine.
    func replacing(in body: V2Body, _ change: (_ jws: [UInt8]) -> [UInt8]) -> [UInt8] {
        let target = body[keyPath: path]!.written
        let outer = body.filled { payload in
            let jws = JWSSigner.standard.sign(payload.bytes)
            return payload.written == target ? change(jws) : jws
        }
        return envelope(JWSSigner.standard.sign(outer.bytes))
    }
}

@Suite("Signed parts of a signed notification")
struct V2InnerTests {
    @Test("genuine parts inside a genuine notification are accepted", arguments: InnerPart.allCases)
    func good(part: InnerPart) async {
        #expect(await V2Receiver().refusal(part.body().signed()) == nil)
        #expect(await V2Receiver().refusal(part.replacing(in: part.body()) { $0 }) == nil)
    }

    @Test(
        "a part of another signer is rejected even inside a genuine notification", arguments: InnerPart.allCases
    )
    func stranger(part: InnerPart) async {
        let forged = part.replacing(in: part.body()) { _ in
            JWSSigner(.stranger).sign(Array(#"{"transactionId":"666"}"#.utf8))
        }

        #expect(await V2Receiver().refusal(forged) == .unverified(.untrusted, part.part))
    }

    @Test("a part whose payload was changed after signing is rejected", arguments: InnerPart.allCases)
    func changed(part: InnerPart) async {
        let forged = part.replacing(in: part.body()) { jws in
            let segments = jws.split(separator: UInt8(ascii: ".")).map(Array.init)
            let other = base64URL(
                part.body().changing { $0 = part.changing($0) { $0.with(["price": 1]) } }.payload.bytes)
            return Array([segments[0], other, segments[2]].joined(separator: ".".utf8))
        }

        #expect(await V2Receiver().refusal(forged) == .unverified(.signature, part.part))
    }

    @Test("a part without an algorithm or with too long a signature is rejected", arguments: InnerPart.allCases)
    func form(part: InnerPart) async {
        let none = part.replacing(in: part.body()) { jws in
            let segments = jws.split(separator: UInt8(ascii: ".")).map(Array.init)
            return Array([base64URL(Array(#"{"alg":"none"}"#.utf8)), segments[1], []].joined(separator: ".".utf8))
        }
        let long = part.replacing(in: part.body()) { $0 + Array("AAAA".utf8) }

        #expect(await V2Receiver().refusal(none) == .unverified(.algorithm, part.part))
        #expect(await V2Receiver().refusal(long) == .unverified(.signatureForm, part.part))
    }

    @Test("a part that is not a signed text makes the body undecodable", arguments: InnerPart.allCases)
    func malformed(part: InnerPart) async {
        let two = part.replacing(in: part.body()) { $0.split(separator: UInt8(ascii: "."))[0] + Array(".e30".utf8) }
        let list = part.replacing(in: part.body()) { _ in JWSSigner.standard.sign(Array("[]".utf8)) }

        #expect(await V2Receiver().refusal(two) == .undecodable(.malformed(.notThreeSegments, part.part)))
        #expect(await V2Receiver().refusal(list) == .undecodable(.malformed(.payloadNotAnObject, part.part)))
    }

    @Test("a part of another app is rejected", arguments: [InnerPart.transaction, .appTransaction])
    func otherApp(part: InnerPart) async {
        let other = part.changing(part.body()) { $0.with(["bundleId": "com.example.other"]) }
        let missing = part.changing(part.body()) { $0.without("bundleId") }

        #expect(await V2Receiver().refusal(other.signed()) == .mismatch(part.part))
        // Some old purchases name no app. The notification that names it is signed, too.
        #expect(await V2Receiver().refusal(missing.signed()) == (part == .transaction ? nil : .mismatch(part.part)))
    }

    @Test("a purchase and renewal info without an environment, as before 2022, are of that of the notification")
    func withoutEnvironment() async {
        for part in [InnerPart.transaction, .renewal] {
            let body = part.changing(part.body(environment: "Sandbox")) { $0.without("environment") }

            #expect(await V2Receiver().refusal(body.signed()) == nil)
        }
        let appTransaction = InnerPart.appTransaction.changing(InnerPart.appTransaction.body()) {
            $0.without("receiptType")
        }
        #expect(await V2Receiver().refusal(appTransaction.signed()) == .mismatch(.appTransaction))
    }

    @Test("a part of another app is rejected even if both apps are configured")
    func otherConfiguredApp() async {
        let receiver = V2Receiver([
            App(bundleId: testBundle, appAppleId: Int64(testAppleId)), App(bundleId: "com.example.other"),
        ])
        let other = InnerPart.transaction.changing(InnerPart.transaction.body()) {
            $0.with(["bundleId": "com.example.other"])
        }

        #expect(await receiver.refusal(other.signed()) == .mismatch(.transaction))
    }

    @Test(
        "a part of another environment is rejected", arguments: InnerPart.allCases,
        [("Production", "Sandbox"), ("Sandbox", "Production")])
    func otherEnvironment(part: InnerPart, environments: (String, String)) async {
        let body = part.changing(part.body(environment: environments.0)) {
            $0.with([part == .appTransaction ? "receiptType" : "environment": .text(environments.1)])
        }

        #expect(await V2Receiver().refusal(body.signed()) == .mismatch(part.part))
    }

    @Test("renewal info is accepted without an app")
    func renewalWithoutApp() async {
        let body = V2Body("DID_CHANGE_RENEWAL_STATUS", at: "2024-06-01", nil, v2Renewal())

        #expect(await V2Receiver().refusal(body.signed()) == nil)
    }

    @Test("an app transaction of another App Store id is rejected only in production")
    func otherAppleId() async {
        func body(_ environment: String) -> [UInt8] {
            let body = InnerPart.appTransaction.body(environment: environment)
            return InnerPart.appTransaction.changing(body) { $0.with(["appAppleId": 987_654_321]) }.signed()
        }

        #expect(await V2Receiver().refusal(body("Production")) == .appleIdWrong(app: testBundle))
        #expect(await V2Receiver().refusal(body("Sandbox")) == nil)
    }

    @Test("a genuine part in the place of another kind is rejected")
    func swappedPlaces() async throws {
        var body = InnerPart.transaction.body()
        (body.transaction, body.renewal) = (body.renewal, body.transaction)

        // Renewal info has no bundle id, so it does not match this app as a transaction.
        #expect(await V2Receiver().refusal(body.signed()) == .mismatch(.transaction))
    }
}
