import Crypto
import CryptoExtras
import Encoding
import Foundation
import PlayStore
import StoreClient
import TestSupport
import Testing

@Suite("Purchases of Google Play that backends hand in")
struct PurchaseRoutesTests {
    private static let start = TestBundle.now.advanced(by: .seconds(-3600))
    private static let end = TestBundle.now.advanced(by: .seconds(86_400))
    private static let path = "purchases/subscriptionsv2/tokens/token-1"

    private static func withServer(_ test: (TestBundle, ScriptedGoogle) async throws -> Void) async throws {
        let google = try ScriptedGoogle()
        let app = GoogleApp(
            try ScriptedGoogle.configured().play, credentials: try ScriptedGoogle.account(),
            licenseKey: try ScriptedGoogle.key().publicKey.derRepresentation.base64EncodedString())
        let other = GoogleApp(PlayApp(packageName: "com.example.silent", pushAuthentication: .none))
        try await TestBundle.withServer(apps: [], store: google, googleApps: [app, other]) { server async throws in
            try await test(server, google)
        }
    }

    private static func handIn(
        _ body: String, app: String = ScriptedGoogle.app, on server: TestBundle
    ) async throws -> HTTPAnswer {
        try await server.owner.post(Array(body.utf8), to: "/purchases?app=\(app)&environment=any")
    }

    @Test("a purchase is asked about, stored, acknowledged and linked; handed in again, it is known")
    func answered() async throws {
        try await Self.withServer { server, google in
            google.answer(
                Self.path,
                ScriptedGoogle.subscription(start: Self.start, end: Self.end, isAcknowledged: false),
                ScriptedGoogle.subscription(start: Self.start, end: Self.end))
            google.answer(
                "purchases/subscriptions/premium/tokens/token-1:acknowledge",
                ScriptedGoogle.Reply(status: 204, body: ""))
            let body = #"{"purchaseToken":"token-1","productId":"premium","customerId":"u-1"}"#

            let first = try await Self.handIn(body, on: server)
            let second = try await Self.handIn(body, on: server)

            #expect(first.status == 200, "\(first.body)")
            #expect(first.json["environment"] as? String == "production")
            #expect(first.json["storeState"] as? String == "ACTIVE")
            #expect(
                first.body.contains(
                    #""checks":{"genuine":true,"ofThisApp":true,"registered":"new","inForce":true}"#), "\(first.body)")
            #expect(first.json["linked"] as? Bool == true)
            #expect(second.status == 200)
            #expect(second.body.contains(#""registered":"known""#), "\(second.body)")
            #expect(google.requests.count { $0.hasPrefix("POST") } == 1)
            #expect(
                try await server.sql("select source from subledger.event order by position").prefix(2)
                    == ["google-device", "backend"])
        }
    }

    @Test("a test purchase grants nothing, unless the request asks for it")
    func environments() async throws {
        try await Self.withServer { server, google in
            google.answer(Self.path, ScriptedGoogle.subscription(start: Self.start, end: Self.end, isTest: true))
            let body = Array(#"{"purchaseToken":"token-1"}"#.utf8)
            let usual = try await server.owner.post(body, to: "/purchases?app=\(ScriptedGoogle.app)")
            let any = try await server.owner.post(body, to: "/purchases?app=\(ScriptedGoogle.app)&environment=any")

            #expect(usual.status == 422)
            #expect(usual.json["field"] as? String == "environment")
            #expect(any.status == 200, "\(any.body)")
            #expect(any.json["environment"] as? String == "sandbox")
        }
    }

    @Test("an expired purchase is genuine and not in force")
    func expired() async throws {
        try await Self.withServer { server, google in
            google.answer(
                Self.path, ScriptedGoogle.subscription("EXPIRED", start: Self.start, end: Self.start))

            let answer = try await Self.handIn(#"{"purchaseToken":"token-1"}"#, on: server)

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.body.contains(#""inForce":false"#), "\(answer.body)")
        }
    }

    @Test("a one-time purchase is found although the token does not say what it is")
    func oneTime() async throws {
        try await Self.withServer { server, google in
            google.answer(Self.path, ScriptedGoogle.error(400, "invalidValue"))
            google.answer(
                "purchases/productsv2/tokens/token-1",
                ScriptedGoogle.Reply(
                    body: """
                        {"purchaseStateContext":{"purchaseState":"PURCHASED"},\
                        "purchaseCompletionTime":"\(Self.start)","orderId":"GPA.7","regionCode":"DE",\
                        "acknowledgementState":"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED",\
                        "productLineItem":[{"productId":"coins","productOfferDetails":{"quantity":2,\
                        "consumptionState":"CONSUMPTION_STATE_YET_TO_BE_CONSUMED"}}]}
                        """))

            let answer = try await Self.handIn(#"{"purchaseToken":"token-1"}"#, on: server)

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.json["storeState"] as? String == "PURCHASED")
            #expect(answer.body.contains(#""inForce":true"#), "\(answer.body)")
        }
    }

    @Test("an order that Google does not answer about keeps no customer waiting, and is asked about again")
    func slowOrder() async throws {
        try await Self.withServer { server, google in
            google.answer(Self.path, ScriptedGoogle.subscription(start: Self.start, end: Self.end))
            google.hold("orders/GPA.1")
            let late = Task {
                try? await Task.sleep(for: .seconds(10))
                google.hold("orders/GPA.1", false)
            }
            let body = #"{"purchaseToken":"token-1","customerId":"u-1"}"#

            let first = try await Self.handIn(body, on: server)
            late.cancel()
            await late.value
            let due = try await server.sql(
                "select concat_ws(' ', result, rank, due_at is not null) from subledger.google_purchase")
            let second = try await Self.handIn(body, on: server)

            #expect(first.status == 200, "\(first.body)")
            #expect(first.json["linked"] as? Bool == true)
            #expect(due == ["appended 1 t"])
            #expect(second.status == 200)
            #expect(
                google.requests == ["GET \(Self.path)", "GET orders/GPA.1", "GET \(Self.path)", "GET orders/GPA.1"])
        }
    }

    @Test("while Google cannot be asked, the purchase is kept and the response is 202")
    func pending() async throws {
        try await Self.withServer { server, google in
            google.fail(1000)

            let answer = try await Self.handIn(#"{"purchaseToken":"token-1"}"#, on: server)

            #expect(answer.status == 202, "\(answer.body)")
            #expect(answer.json["state"] as? String == "pending")
            #expect(
                try await server.sql(
                    "select concat_ws(' ', purchase_token, result, due_at is not null) from subledger.google_purchase")
                    == ["token-1 unavailable t"])
            #expect(try await server.sql("select source from subledger.event").isEmpty)
        }
    }

    @Test("a purchase that Google does not know is refused, and a rejected account is 503")
    func refused() async throws {
        try await Self.withServer { server, google in
            let unknown = try await Self.handIn(#"{"purchaseToken":"token-1"}"#, on: server)
            #expect(unknown.status == 422, "\(unknown.body)")
            #expect(unknown.json["field"] as? String == "purchaseToken")

            google.answer(Self.path, ScriptedGoogle.error(403, "userInsufficientPermission"))
            let forbidden = try await Self.handIn(#"{"purchaseToken":"token-1"}"#, on: server)
            #expect(forbidden.status == 503, "\(forbidden.body)")
        }
    }

    @Test("signed text is accepted with the app's signature over exactly these bytes")
    func signed() async throws {
        try await Self.withServer { server, google in
            google.answer(Self.path, ScriptedGoogle.subscription(start: Self.start, end: Self.end))
            let text =
                #"{"orderId":"GPA.1","packageName":"com.example.play","productId":"premium","purchaseToken":"token-1"}"#
            func body(_ text: String, _ signature: String) throws -> String {
                String(
                    decoding: try JSONSerialization.data(withJSONObject: [
                        "signedPurchase": text, "signature": signature,
                    ]), as: UTF8.self)
            }
            func signature(_ text: String, _ key: _RSA.Signing.PrivateKey) throws -> String {
                try key.signature(for: Insecure.SHA1.hash(data: Data(text.utf8)), padding: .insecurePKCS1v1_5)
                    .rawRepresentation.base64EncodedString()
            }
            let genuine = try signature(text, ScriptedGoogle.key())

            let accepted = try await Self.handIn(try body(text, genuine), on: server)
            let changed = try await Self.handIn(try body(text + " ", genuine), on: server)
            let forged = try await Self.handIn(
                try body(text, try signature(text, ScriptedGoogle.otherKey())), on: server)
            let foreign = text.replacing("com.example.play", with: "com.example.other")
            let ofOther = try await Self.handIn(
                try body(foreign, try signature(foreign, ScriptedGoogle.key())), on: server)

            #expect(accepted.status == 200, "\(accepted.body)")
            #expect(changed.status == 422)
            #expect(changed.json["field"] as? String == "signature")
            #expect(forged.status == 422)
            #expect(ofOther.status == 422)
            #expect(ofOther.json["detail"] as? String == "the purchase is of another app")
            #expect(google.requests.count { !$0.contains("orders/") } == 1)
        }
    }

    @Test("a malformed body is answered 400, an app that cannot be asked about 404")
    func malformed() async throws {
        try await Self.withServer { server, _ in
            for body in [
                "{}", "[]", #"{"purchaseToken":1}"#, #"{"purchaseToken":""}"#, #"{"purchaseToken":"a b"}"#,
                #"{"purchaseToken":"a","signedPurchase":"b","signature":"c"}"#, #"{"signedPurchase":"b"}"#,
            ] {
                #expect(try await Self.handIn(body, on: server).status == 400, "\(body)")
            }
            let silent = try await Self.handIn(
                #"{"purchaseToken":"token-1"}"#, app: "com.example.silent", on: server)
            #expect(silent.status == 404)
            let long = #"{"purchaseToken":""# + String(repeating: "a", count: 1000) + #""}"#
            #expect(try await Self.handIn(long, on: server).status == 422)
        }
    }
}
