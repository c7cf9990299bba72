import AppStore
import Foundation
import Synchronization
import Testing

private let leafResponder = RevocationChain.leafResponder
private let intermediateResponder = RevocationChain.intermediateResponder

@Suite("A chain is good or revoked only if its issuers say so")
struct RevocationCheckTests {
    @Test("leaf and intermediate good: good, each asked for once")
    func good() async throws {
        let bundle = try RevocationBundle()

        #expect(await bundle.verdict() == .good)
        #expect(bundle.responder.asked == [leafResponder, intermediateResponder])
    }

    @Test("one of them revoked: revoked", arguments: [leafResponder, intermediateResponder])
    func revoked(address: String) async throws {
        let bundle = try RevocationBundle()
        bundle.responder.at(address, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
    }

    /// What a responder does instead of answering well, by its name.
    private static let silences: [(String, RevocationResponder.Behaviour)] = [
        ("unknown status", { try RevocationAnswer(status: .unknown).der(to: $0, by: $1) }),
        ("good, stale", { try RevocationAnswer(nextUpdate: Date() - 5000).der(to: $0, by: $1) }),
        ("revoked, stale", { try RevocationAnswer(status: .revoked, nextUpdate: Date() - 5000).der(to: $0, by: $1) }),
        ("good, from the future", { try RevocationAnswer(thisUpdate: Date() + 5000).der(to: $0, by: $1) }),
        ("good, produced in the future", { try RevocationAnswer(producedAt: Date() + 5000).der(to: $0, by: $1) }),
        ("good, for ever", { try RevocationAnswer(nextUpdate: nil).der(to: $0, by: $1) }),
        ("good by another key", { try RevocationAnswer(signer: try stranger()).der(to: $0, by: $1) }),
        (
            "revoked by another key",
            {
                try RevocationAnswer(status: .revoked, signer: try stranger()).der(to: $0, by: $1)
            }
        ),
        (
            "revoked by a certificate of the issuer that is not for this",
            { request, issuer in
                let responder = try issuer.responder(hasUsage: false)
                return try RevocationAnswer(status: .revoked, signer: responder, certificate: responder.certificate)
                    .der(to: request, by: issuer)
            }
        ),
        ("good for another certificate", { try RevocationAnswer(certID: try otherCertID(in: $0)).der(to: $0, by: $1) }),
        ("good, to another question", { try RevocationAnswer(nonce: try otherNonce(in: $0)).der(to: $0, by: $1) }),
        (
            "good, one byte of it flipped",
            { request, issuer in
                var answer = try RevocationAnswer().der(to: request, by: issuer)
                answer[answer.count / 2] ^= 1
                return answer
            }
        ),
        ("try later", { _, _ in try RevocationAnswer.response(status: 3) }),
        ("nothing", { _, _ in [] }),
        ("garbage", { _, _ in Array("<html>".utf8) }),
        ("one byte too much", { _, _ in [UInt8](repeating: 0, count: 1 << 20 + 1) }),
        ("unreachable", { _, _ in throw RevocationResponder.Unreachable() }),
    ]

    @Test(
        "anything else from one of them: unknown",
        arguments: silences.map(\.0), [leafResponder, intermediateResponder])
    func silence(name: String, address: String) async throws {
        let behaviour = try #require(Self.silences.first { $0.0 == name }).1
        let bundle = try RevocationBundle()
        bundle.responder.at(address, behaviour)

        #expect(await bundle.verdict() == .unknown)
    }

    @Test("the largest answer allowed is read, one byte more is not")
    func size() async throws {
        let certificates = try RevocationChain()
        let answer = Captured()
        let first = try RevocationBundle(certificates)
        first.responder.at(leafResponder) { request, issuer in
            // Without a nonce it answers the next question as well.
            let der = try RevocationAnswer(hasNonce: false).der(to: request, by: issuer)
            answer.bytes.withLock { $0 = der }
            return der
        }
        #expect(await first.verdict() == .good)
        let bytes = answer.bytes.withLock { $0 }

        for (bytesMax, expected) in [(bytes.count, RevocationVerdict.good), (bytes.count - 1, .unknown)] {
            let bundle = try RevocationBundle(certificates) { $0.answerBytesMax = bytesMax }
            // Shorter than the leaf's: it names the root, and signatures differ in length by less than the names do.
            bundle.responder.at(leafResponder) { _, _ in bytes }
            bundle.responder.at(intermediateResponder) { request, issuer in
                try RevocationAnswer(hasNonce: false).der(to: request, by: issuer)
            }

            #expect(await bundle.verdict() == expected)
        }
    }

    private final class Captured: Sendable {
        let bytes = Mutex<[UInt8]>([])
    }

    @Test("a responder that the issuer appointed may answer, without a nonce too", arguments: [true, false])
    func appointed(hasNonce: Bool) async throws {
        let bundle = try RevocationBundle()
        bundle.responder.everywhere { request, issuer in
            let responder = try issuer.responder(hasUsage: true)
            return try RevocationAnswer(hasNonce: hasNonce, signer: responder, certificate: responder.certificate)
                .der(to: request, by: issuer)
        }

        #expect(await bundle.verdict() == .good)
    }

    @Test("a leaf nobody answers for does not hide a revoked intermediate")
    func leafAway() async throws {
        let bundle = try RevocationBundle()
        bundle.responder.at(leafResponder) { _, _ in throw RevocationResponder.Unreachable() }
        bundle.responder.at(intermediateResponder, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
        #expect(bundle.responder.asked == [leafResponder, intermediateResponder])
    }

    @Test("nor does a leaf whose responder is silent")
    func leafSilent() async throws {
        let bundle = try RevocationBundle { $0.answerWaitMax = .seconds(2) }
        bundle.responder.at(leafResponder) { _, _ in
            try await Task.sleep(for: .seconds(3600))
            return []
        }
        bundle.responder.at(intermediateResponder, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
        // Not twice: it had its time.
        #expect(bundle.responder.asked == [leafResponder, intermediateResponder])
    }

    @Test("silence ends at its limit, even that of a transport that cannot be cancelled")
    func deaf() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle { $0.answerWaitMax = .milliseconds(50) }
        bundle.responder.everywhere { _, _ in
            await gate.pass()
            return []
        }

        #expect(await bundle.verdict() == .unknown)
        gate.open()
    }

    @Test("a check ends at its limit")
    func slow() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle { $0.checkWaitMax = .milliseconds(50) }
        bundle.responder.everywhere { _, _ in
            await gate.pass()
            return []
        }

        #expect(await bundle.verdict() == .unknown)
        #expect(try await bundle.reported(1) == [.unknown])
        gate.open()
    }
}

@Suite("A chain for which nobody can be asked is unknown")
struct RevocationAddressTests {
    @Test("no responder named at all: unknown, and nobody is asked")
    func none() async throws {
        let bundle = try RevocationBundle(RevocationChain(leafResponder: nil, intermediateResponder: nil))

        #expect(await bundle.verdict() == .unknown)
        #expect(bundle.responder.asked.isEmpty)
    }

    @Test("one of two named: unknown, though what there is is good")
    func half() async throws {
        for certificates in [try RevocationChain(leafResponder: nil), try RevocationChain(intermediateResponder: nil)] {
            let bundle = try RevocationBundle(certificates)

            #expect(await bundle.verdict() == .unknown)
            #expect(bundle.responder.asked.count == 1)
        }
    }

    @Test("one of two named, and it says revoked: revoked")
    func halfRevoked() async throws {
        let bundle = try RevocationBundle(RevocationChain(leafResponder: nil))
        bundle.responder.at(intermediateResponder, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
    }

    @Test("a root that names a responder, which the library refuses, is not revoked for that")
    func root() async throws {
        let bundle = try RevocationBundle(RevocationChain(rootResponder: "http://root.test/"))

        #expect(await bundle.verdict() == .unknown)
        #expect(bundle.responder.asked.isEmpty)
    }

    @Test("validity counts at the validation time: an expired leaf may be good, one outside is not revoked for that")
    func validity() async throws {
        let certificates = try RevocationChain(leafUntil: "2022-01-01")

        for (time, expected) in [("2021-12-31", RevocationVerdict.good), ("2022-01-02", .unknown)] {
            let bundle = try RevocationBundle(certificates)
            let chain = certificates.chain(validationTime: date(time))

            #expect(await bundle.checker.verdict(of: chain) == expected)
            #expect(bundle.responder.asked.isEmpty == (expected == .unknown))
        }
    }

    @Test("a leaf of another issuer is not revoked for that")
    func broken() async throws {
        let bundle = try RevocationBundle()
        let other = try RevocationChain()
        let chain = CertificateChain(
            id: ChainID(sha256: [1]), leaf: other.leaf, intermediate: bundle.certificates.intermediate.certificate,
            root: bundle.certificates.root.certificate, validationTime: RevocationChain.validationTime)

        #expect(await bundle.checker.verdict(of: chain) == .unknown)
        #expect(bundle.responder.asked.isEmpty)
    }
}

private func stranger() throws -> RevocationChain.Issuer {
    try RevocationChain().intermediate
}

/// Another serial number: the last bytes of a CertID.
private func otherCertID(in request: [UInt8]) throws -> [UInt8] {
    var certID = try RevocationAnswer.Request(request).certID
    certID[certID.count - 1] ^= 1
    return certID
}

private func otherNonce(in request: [UInt8]) throws -> [UInt8] {
    var extensions = try RevocationAnswer.Request(request).extensions
    extensions[extensions.count - 1] ^= 1
    return extensions
}
