import AppStore
import EventLog
import Foundation
import TestSupport
import Testing

@Suite("Signatures of offers by HTTP")
struct OfferRoutesTests {
    private static func answers(_ use: (HTTPClient, String) async throws -> Void) async throws {
        let keyed = App(
            bundleId: "com.example.keyed", appAppleId: 1_400_000_001, serverAPIKey: try DeliveryBundle.key())
        try await TestBundle.withServer(
            apps: [keyed, App(bundleId: "com.example.keyless", appAppleId: 1_400_000_002)]
        ) {
            try await use($0.client(with: .submit), "/offers/signatures?app=com.example.keyed")
        }
    }

    @Test("a backend gets a signature of each type")
    func types() async throws {
        try await Self.answers { client, path in
            for (body, members) in [
                (#"{"type":"promotional","productId":"p","offerId":"o"}"#, ["app", "jws", "type"]),
                (#"{"type":"promotional","productId":"p","offerId":"o","transactionId":"1"}"#, ["app", "jws", "type"]),
                (
                    #"{"type":"introductory","productId":"p","allowed":false,"transactionId":"1"}"#,
                    ["app", "jws", "type"]
                ),
                (
                    #"{"type":"promotional-v1","productId":"p","offerId":"o","appAccountToken":null}"#,
                    ["app", "keyId", "nonce", "signature", "timestamp", "type"]
                ),
            ] {
                let answer = try await client.post(Array(body.utf8), to: path)
                #expect(answer.status == 200)
                #expect(answer.json.keys.sorted() == members)
            }
        }
    }

    @Test("the account token is signed in lower case, and each signature has a nonce of its own")
    func token() async throws {
        try await Self.answers { client, path in
            let body =
                #"{"type":"promotional-v1","productId":"p","offerId":"o","appAccountToken":"0A1B2C3D-1111-4222-8333-000000000014"}"#
            var nonces: Set<String> = []
            for _ in 0..<2 {
                let answer = try await client.post(Array(body.utf8), to: path)
                nonces.insert(try #require(answer.json["nonce"] as? String))
            }
            #expect(nonces.count == 2)
            #expect(nonces.allSatisfy { $0 == $0.lowercased() && UUID(uuidString: $0) != nil })
        }
    }

    @Test(
        "what is not such a request is refused with the field",
        arguments: [
            (#"{}"#, "type"), (#"{"type":"other"}"#, "type"), (#"{"type":"promotional"}"#, "productId"),
            (#"{"type":"promotional","productId":"p"}"#, "offerId"),
            (#"{"type":"promotional","productId":"p","offerId":""}"#, "offerId"),
            (#"{"type":"promotional","productId":"p","offerId":"o\u2063"}"#, "offerId"),
            (#"{"type":"promotional","productId":7,"offerId":"o"}"#, "productId"),
            (#"{"type":"promotional","productId":"p","offerId":"o","allowed":true}"#, "allowed"),
            (#"{"type":"promotional-v1","productId":"p","offerId":"o","appAccountToken":"me"}"#, "appAccountToken"),
            (#"{"type":"introductory","productId":"p","transactionId":"1"}"#, "allowed"),
            (#"{"type":"introductory","productId":"p","allowed":true}"#, "transactionId"),
        ])
    func malformed(body: String, field: String) async throws {
        try await Self.answers { client, path in
            let answer = try await client.post(Array(body.utf8), to: path)
            #expect(answer.status == 400)
            #expect(answer.json["field"] as? String == field, "\(answer.body)")
        }
    }

    @Test("without a key there is no signature")
    func refusals() async throws {
        try await Self.answers { client, path in
            let body = Array(#"{"type":"promotional","productId":"p","offerId":"o"}"#.utf8)
            for app in ["com.example.keyless", "com.example.nobody"] {
                let answer = try await client.post(body, to: "/offers/signatures?app=\(app)")
                #expect(answer.status == 404)
            }
        }
    }
}
