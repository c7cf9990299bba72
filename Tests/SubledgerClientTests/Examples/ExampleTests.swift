import Crypto
import Foundation
import Testing

@testable import SubledgerClient

@Suite("The examples of the articles compile, and do what the articles say")
struct ExampleTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    private static let catalog = folder.appendingPathComponent("../../../Sources/subledger/Documentation.docc")

    @Test(
        "the articles contain the examples that are compiled here",
        arguments: [
            ("SignedAnswers", "SignedAnswerExample"), ("Client", "ClientSetupExample"),
            ("Client", "ClientScreenExample"),
        ])
    func articles(_ article: String, _ example: String) throws {
        let text = try String(contentsOf: Self.catalog.appendingPathComponent("\(article).md"), encoding: .utf8)
        let file = try String(contentsOf: Self.folder.appendingPathComponent("\(example).swift"), encoding: .utf8)
        let mark = "to the letter.\n\n"
        let code = try #require(file.range(of: mark).map { file[$0.upperBound...] })

        #expect(code.count > 500 && text.contains("\n\n\(code)```\n"))
    }

    @Test("the example for signed answers accepts a genuine one only, and leaves out what has ended")
    func signedAnswers() throws {
        let device = Device()
        device.pass(Date().timeIntervalSince(device.time))
        let server = FakeServer(device)
        let key = FakeServer.base64URL(Data(server.key.publicKey.rawRepresentation))
        func active(_ text: String, app: String = FakeServer.app, customer: String = "u-1") throws -> [String]? {
            try activeEntitlements(text, key: key, app: app, customer: customer)
        }

        #expect(try active(server.signedAnswer("u-1")) == [])
        #expect(try active(server.signedAnswer("u-1"), app: "com.example.other") == nil)
        #expect(try active(server.signedAnswer("u-1"), customer: "u-2") == nil)
        #expect(try active(server.signedAnswer("u-1", .init(validUntil: Date(timeIntervalSinceNow: -1.5)))) == nil)
        #expect(try active(server.signedAnswer("u-1", .init(type: "JWT"))) == nil)
        #expect(try active(server.signedAnswer("u-1", .init(key: Curve25519.Signing.PrivateKey()))) == nil)
    }

    /// The example of `GET /customers/{customerId}/entitlements` in the OpenAPI document.
    @Test("the example of the OpenAPI document is signed by the key of the example of the key set")
    func openAPI() throws {
        let file = Self.folder.appendingPathComponent("../../../Sources/HTTPServer/OpenAPI/openapi.json")
        let text = try String(contentsOf: file, encoding: .utf8)
        let token = try #require(text.firstMatch(of: /"(eyJ[A-Za-z0-9._-]+)"/)?.output.1)
        let key = try #require(text.firstMatch(of: /"x": "([A-Za-z0-9_-]{43})"/)?.output.1)

        let checked = try EntitlementToken(
            String(token),
            .init(
                keys: [try #require(ServerKey(String(key)))], app: "com.example.magazine", customerId: "u-1",
                environment: "production"))

        #expect(checked.grants.map(\.id) == ["plus", "premium"])
        #expect(checked.position == 38)
        #expect(checked.grants.map(\.until) == [checked.validUntil, checked.validUntil])
    }
}
