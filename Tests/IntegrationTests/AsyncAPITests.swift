import Encoding
import Foundation
import Outbound
import Subscriptions
import TestSupport
import Testing

@Suite("The AsyncAPI document describes the messages that are sent")
struct AsyncAPITests {
    private static func read() throws -> OpenAPISchema { try OpenAPISchema.read("asyncapi.json") }

    /// All references of a document.
    private static func references(_ value: JSONTree) -> [JSONTree] {
        let own = value["$ref"] == nil ? [] : [value]
        return own + value.members.values.flatMap(references) + value.elements.flatMap(references)
    }

    @Test("every reference leads somewhere, and what both documents describe is the same")
    func references() throws {
        let (messages, requests) = (try Self.read(), try OpenAPISchema.read())
        let all = Self.references(messages.document)

        #expect(all.count > 10)
        for reference in all { #expect(messages.resolved(reference) != nil, "\(reference)") }
        for name in ["Change", "Entitlement", "Environment", "Instant"] {
            let path: JSONTree = .object(["$ref": .string("#/components/schemas/\(name)")])
            let schema = try #require(messages.resolved(path))
            #expect(schema == requests.resolved(path), "\(name)")
        }
    }

    @Test("the document has a type for each kind of change")
    func types() throws {
        let schema = try Self.read()
        let message = try #require(schema.document["components"]?["schemas"]?["Message"])
        let types = message["properties"]?["type"]?["enum"]?.elements.compactMap(\.string) ?? []

        #expect(types.sorted() == Change.Kind.allCases.map { "subledger.subscription.\($0.rawValue).v1" }.sorted())
    }

    @Test("a message and a test message fit their schemas")
    func messages() async throws {
        let schema = try Self.read()
        func problems(_ body: [UInt8], _ name: String) throws -> [String] {
            let tree = try JSONDecoder().decode(JSONTree.self, from: Data(body))
            return schema.problems(of: tree, .object(["$ref": .string("#/components/schemas/\(name)")]))
        }
        try await OutboundBundle.with { bundle in
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in try await bundle.delivered() }
            let change = try #require(bundle.receiver.messages.first).body
            let endpoint = try #require(try await bundle.status()).endpoint
            let test = OutboundMessage.test(of: endpoint, at: bundle.clock.now).body

            #expect(try problems(change, "Message") == [])
            #expect(try problems(test, "TestMessage") == [])
            #expect(try !problems(test, "Message").isEmpty)
        }
    }
}
