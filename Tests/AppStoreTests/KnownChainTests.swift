import AppStore
import Simulation
import Subscriptions
import Testing

@Suite("Cache of verified chains")
struct KnownChainTests {
    private static let payload = V2Body("TEST", at: "2024-06-01").payload.bytes
    private let verifier = SignatureVerifier(roots: V2Receiver.roots(.standard), knownChainsMax: 2)

    private static func certificates(lastYear: Int) -> TestCertificates {
        .shaped { $0.leafValidity = .days("2024-01-01", "\(lastYear)-12-31") }
    }

    private func verify(_ jws: [UInt8]) async throws -> ChainID {
        try await verifier.verify(try SignedObject(jws[...]), fallback: V2Receiver.receivedAt).certificates.id
    }

    /// A forged body with trusted certificates and a header that was not sent before.
    private static func forged(_ number: Int, x5c: [String] = TestCertificates.standard.x5c) -> [UInt8] {
        let header = V2Text.header(x5c: V2Text.list(x5c), more: ",\"a\":\(number)")
        var text = V2Text(header: header, payload: payload)
        text.key = TestKeys.p256("forger")
        return text.text + [UInt8(ascii: ".")] + base64URL(Array(text.signature.rawRepresentation))
    }

    @Test("a chain is cached once, regardless of the other members of the header")
    func once() async throws {
        let first = try await verify(JWSSigner.standard.sign(Self.payload))
        let text = V2Text(header: V2Text.header(more: ",\"kid\":\"1\""), payload: Self.payload)
        let second = try await verify(
            text.text + [UInt8(ascii: ".")] + base64URL(Array(text.signature.rawRepresentation)))

        #expect(first == second)
        #expect(verifier.knownChains == [first])
    }

    @Test("forged bodies with fresh headers neither add a chain nor evict one")
    func forged() async throws {
        let genuine = try await verify(JWSSigner.standard.sign(Self.payload))
        let known = TestCertificates.standard.x5c
        let chains = [known, known.prefix(2) + ["AAAA"], Self.certificates(lastYear: 2026).x5c]

        for number in 0..<5 {
            for x5c in chains {
                let jws = Self.forged(number, x5c: x5c)
                await #expect(throws: Refusal.unverified(.signature, .renewal)) { try await verify(jws) }
            }
        }
        await #expect(throws: Refusal.unverified(.untrusted, .renewal)) {
            try await verify(JWSSigner(.stranger).sign(Self.payload))
        }

        #expect(verifier.knownChains == [genuine])
    }

    @Test("the least recently used chain is evicted, and a forged body does not count as a use")
    func eviction() async throws {
        let chains = (2025...2027).map(Self.certificates)
        let signers = chains.map { JWSSigner($0) }
        let first = try await verify(signers[0].sign(Self.payload))
        let second = try await verify(signers[1].sign(Self.payload))
        _ = try await verify(signers[0].sign(Self.payload))
        await #expect(throws: Refusal.self) { try await verify(Self.forged(1, x5c: chains[1].x5c)) }
        let third = try await verify(signers[2].sign(Self.payload))

        #expect(Set([first, second, third]).count == 3)
        #expect(verifier.knownChains == [first, third])
    }

    @Test("a cached chain is verified at the time of each signature")
    func validity() async throws {
        let signer = JWSSigner(Self.certificates(lastYear: 2024))
        _ = try await verify(signer.sign(Self.payload))

        await #expect(throws: Refusal.unverified(.expired, .renewal)) {
            try await verify(signer.sign(V2Body("TEST", at: "2025-06-01").payload.bytes))
        }
    }
}
