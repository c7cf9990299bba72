import Foundation
import TestSupport
import Testing

@Suite("The OpenAPI document matches the private listener")
struct OpenAPITests {
    private static let scopes: Set = ["publishable", "submit", "read", "link", "operate", "webhooks", "admin"]

    @Test("the document and the router have the same paths and methods")
    func operations() async throws {
        try await TestBundle.withServer { server in
            let document = try await HTTPClient(port: server.backend.port).get("/openapi.json").json
            let paths = try #require(document["paths"] as? [String: [String: Any]])
            let described = paths.flatMap { path, item in
                item.keys.filter { $0 != "parameters" }.map { "\($0.uppercased()) \(path)" }
            }

            #expect(document["openapi"] as? String == "3.1.0")
            #expect(Set(described).subtracting(server.operations) == [])
            #expect(Set(server.operations).subtracting(described) == [])
        }
    }

    @Test("an operation requires the same scope in the document and in the server")
    func security() async throws {
        try await TestBundle.withServer { server in
            let nobody = HTTPClient(port: server.backend.port)
            let document = try await nobody.get("/openapi.json").json
            let paths = try #require(document["paths"] as? [String: [String: Any]])
            for (path, item) in paths {
                for (method, operation) in item where method != "parameters" {
                    let security = try #require((operation as? [String: Any])?["security"] as? [[String: [String]]])
                    let scopes = security.flatMap { $0["token"] ?? [] }
                    let answer = try await nobody.send(
                        method.uppercased(), path.replacing(/\{[^}]*\}/, with: "1"))

                    #expect(scopes.isEmpty == (answer.status == 200), "\(method) \(path)")
                    #expect(Self.scopes.isSuperset(of: scopes), "\(method) \(path)")
                    // A token of scope read is accepted only by operations of scope read.
                    let read = try await server.backend.send(
                        method.uppercased(), path.replacing(/\{[^}]*\}/, with: "1"))
                    #expect((read.status == 403) == !(scopes.isEmpty || scopes.contains("read")), "\(method) \(path)")
                }
            }
        }
    }
}
