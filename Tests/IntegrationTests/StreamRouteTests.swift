import Encoding
import EventLog
import Foundation
import TestSupport
import Testing

@Suite("GET /streams returns signed heads")
struct StreamRouteTests {
    @Test("each stream has a head that the server's key signed, which moves with every event")
    func heads() async throws {
        try await TestBundle.withServer { server in
            #expect(try await server.backend.get("/streams").body == "{\"streams\":[]}\n")
            var heads: [SignedHead] = []
            for number in 1...2 {
                #expect(try await server.apple.post(try V1Body(number: number).bytes).status == 200)
                let answer = try await server.backend.get("/streams")
                let list = try JSONDocument(Array(answer.body.utf8)).root["streams"]?.elements ?? []
                #expect(list.count == 1)
                heads += list.compactMap { SignedHead(json: $0) }
            }

            #expect(heads.map(\.head.position) == [1, 2])
            #expect(heads[0].head.chain != heads[1].head.chain)
            #expect(heads.allSatisfy { $0.head.stream.app == V1Body.app && $0.signedAt == TestBundle.now })
            #expect(heads.allSatisfy { $0.isSigned(byOneOf: [TestBundle.headKey.publicKey]) })
        }
    }
}
