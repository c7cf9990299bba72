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

    @Test("the last signed checkpoint of a stream is returned as text, with the cosignatures of this checkpoint")
    func checkpoint() async throws {
        try await TestBundle.withServer { server in
            let path = "/streams/\(V1Body.app)/production/checkpoint"
            #expect(try await server.backend.get(path).status == 404)
            #expect(try await server.apple.post(try V1Body(number: 1).bytes).status == 200)
            #expect(try await server.backend.get(path).status == 404)
            let folder = TestFolder.path("route")
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let signer = CheckpointSigner(
                key: TestBundle.headKey, installation: "test", record: CheckpointRecord(folder: folder),
                now: { TestBundle.now })
            let connection = try await TestCluster.connect(server.database.with(role: "subledger_projector"))
            let store = TreeStore(connection: connection)
            let stream = try #require(try await store.streams().first)
            let signed = try #require(try await signer.buildAndSign(stream, in: store))

            let answer = try await server.backend.get(path)
            #expect(answer.status == 200)
            #expect(answer.body == signed.note.encoded)
            #expect(answer.headers["content-type"] == "text/plain; charset=utf-8")
            let witness = HeadKey()
            let line = try witness.cosign(signed.note.text, as: TestWitness.name, at: 1)
            try await store.keep(signed.with([line]), of: stream.id, by: TestWitness.name, at: TestBundle.now)
            #expect(try await server.backend.get(path).body == signed.with([line]).note.encoded)

            #expect(try await server.apple.post(try V1Body(number: 2).bytes).status == 200)
            let grown = try #require(try await store.streams().first)
            let next = try #require(try await signer.buildAndSign(grown, in: store))
            #expect(try await server.backend.get(path).body == next.note.encoded)
            await connection.close()

            let malformed = try await server.backend.get("/streams/\(V1Body.app)/moon/checkpoint")
            #expect(malformed.status == 400)
            #expect(try await server.backend.get("/streams/other/production/checkpoint").status == 404)
            #expect(try await HTTPClient(port: server.backend.port).get(path).status == 401)
        }
    }
}
