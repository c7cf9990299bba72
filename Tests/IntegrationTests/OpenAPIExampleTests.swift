import Foundation
import TestSupport
import Testing

@Suite("The examples of the OpenAPI document")
struct OpenAPIExampleTests {
    /// The content of an answer in one media type.
    private struct Content {
        /// Such as `GET /streams 200 application/json`.
        let name: String
        let schema: JSONTree
        let examples: [JSONTree]
    }

    private static func contents(_ schema: OpenAPISchema) throws -> [Content] {
        var found: [Content] = []
        for (path, item) in try #require(schema.document["paths"]).members {
            for (method, operation) in item.members where method != "parameters" {
                for (status, response) in try #require(operation["responses"]).members {
                    let answer = try #require(schema.resolved(response), "\(method) \(path) \(status)")
                    for (type, content) in answer["content"]?.members ?? [:] {
                        found.append(
                            Content(
                                name: "\(method.uppercased()) \(path) \(status) \(type)",
                                schema: try #require(content["schema"]),
                                examples: [content["example"]].compactMap(\.self)
                                    + (content["examples"]?.members.values.compactMap { $0["value"] } ?? [])))
                    }
                }
            }
        }
        return found
    }

    @Test("every answer with a body has an example, and each example fits its schema")
    func fit() throws {
        let schema = try OpenAPISchema.read()
        let contents = try Self.contents(schema)

        #expect(contents.count > 200)
        for content in contents {
            #expect(!content.examples.isEmpty, "\(content.name)")
            for example in content.examples {
                #expect(schema.problems(of: example, content.schema) == [], "\(content.name)")
            }
        }
    }

    @Test("an example with a member too few or of another type does not fit")
    func misfit() throws {
        let schema = try OpenAPISchema.read()
        let problem: JSONTree = .object(["$ref": .string("#/components/schemas/Problem")])
        let period: JSONTree = .object(["$ref": .string("#/components/schemas/Period")])
        let start: JSONTree = .string("2025-09-19T21:18:25.000Z")

        #expect(schema.problems(of: .object([:]), problem) == [": required"])
        #expect(schema.problems(of: .string("Not Found"), problem).contains(": type"))
        let open: JSONTree = .object(["start": start, "end": .null, "cause": .string("paid"), "position": .number(1)])
        let wrong: JSONTree = .object(["start": .null, "end": .null, "cause": .string("paid"), "position": .number(1)])
        #expect(schema.problems(of: open, period) == [])
        #expect(schema.problems(of: wrong, period) == ["/start: type"])
    }

    @Test("no schema is null alone: generators of clients fail on it, and accept null beside another type")
    func nulls() throws {
        func places(_ value: JSONTree, _ path: String) -> [String] {
            let inner =
                value.members.flatMap { places($1, "\(path)/\($0)") }
                + value.elements.enumerated().flatMap { places($1, "\(path)/\($0)") }
            return value["type"] == .string("null") ? [path] + inner : inner
        }

        let document = try OpenAPISchema.read().document

        #expect(places(document, "") == [])
        #expect(places(.object(["a": .array([.object(["type": .string("null")])])]), "") == ["/a/0"])
    }

    @Test(
        "an answer of the server is an example, to the byte",
        arguments: [
            ("GET", "/streams", "/streams", nil, Sender.nobody),
            ("GET", "/streams", "/streams", nil, .stranger),
            ("GET", "/subscriptions/1", "/subscriptions/{originalTransactionId}", nil, .reader),
            ("GET", "/customers/1", "/customers/{customerId}", nil, .reader),
            ("GET", "/customers/1?environment=x", "/customers/{customerId}", nil, .reader),
            ("GET", "/events?app=none", "/events", nil, .reader),
            ("GET", "/changes?app=none", "/changes", nil, .reader),
            ("GET", "/receipts/5f0c3a3e-6a0e-4c0e-9a53-0d2f4a7c1b11", "/receipts/{receiptId}", nil, .owner),
            ("POST", "/customers/entitlements", "/customers/entitlements", "{", .reader),
            ("PUT", "/customers/u-1/links?app=none", "/customers/{customerId}/links", #"{"links":[]}"#, .owner),
            ("POST", "/transactions?app=none", "/transactions", #"{"signedTransaction":"a"}"#, .owner),
            ("GET", "/consumption-requests/1?app=none", "/consumption-requests/{transactionId}", nil, .reader),
            ("DELETE", "/consumption-policies/x?app=none", "/consumption-policies/{productId}", nil, .owner),
            ("GET", "/health/live", "/health/live", nil, .nobody),
        ])
    func truth(method: String, path: String, template: String, body: String?, sender: Sender) async throws {
        let schema = try OpenAPISchema.read()
        let contents = try Self.contents(schema)
        try await TestBundle.withServer { server in
            let client =
                switch sender {
                case .nobody: HTTPClient(port: server.backend.port)
                case .stranger: HTTPClient(port: server.backend.port, token: "unknown")
                case .reader: server.backend
                case .owner: server.owner
                }

            let answer = try await client.send(method, path, body: body.map { Array($0.utf8) })

            let tree = try JSONDecoder().decode(JSONTree.self, from: Data(answer.body.utf8))
            let name = "\(method) \(template) \(answer.status) "
            let content = try #require(contents.first { $0.name.hasPrefix(name) }, "\(name)")
            #expect(content.examples.contains(tree), "\(name): \(answer.body)")
        }
    }

    enum Sender {
        case nobody, stranger, reader, owner
    }
}
