import AppStore
import Foundation
import Synchronization
import TestSupport
import Testing

private let leafResponder = RevocationChain.leafResponder
private let intermediateResponder = RevocationChain.intermediateResponder

@Suite("Verdict on a chain from the responses of its issuers")
struct RevocationCheckTests {
    @Test("a chain is good if leaf and intermediate are good, and each responder is asked once")
    func good() async throws {
        let bundle = try RevocationBundle()

        #expect(await bundle.verdict() == .good)
        #expect(bundle.responder.asked == [leafResponder, intermediateResponder])
    }

    @Test(
        "a chain is revoked if one of its certificates is revoked", arguments: [leafResponder, intermediateResponder])
    func revoked(address: String) async throws {
        let bundle = try RevocationBundle()
        bundle.responder.at(address, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
    }

    /// Responses that are not a valid verdict, by name.
    private static let silences: [(String, RevocationResponder.Behaviour)] = [
        ("unknown status", { try RevocationAnswer(status: .unknown).der(to: $0, by: $1) }),
        ("good, stale", { try RevocationAnswer(nextUpdate: Date() - 5000).der(to: $0, by: $1) }),
        ("revoked, stale", { try RevocationAnswer(status: .revoked, nextUpdate: Date() - 5000).der(to: $0, by: $1) }),
        ("good, from the future", { try RevocationAnswer(thisUpdate: Date() + 5000).der(to: $0, by: $1) }),
        ("good, produced in the future", { try RevocationAnswer(producedAt: Date() + 5000).der(to: $0, by: $1) }),
        ("good, without an end", { try RevocationAnswer(nextUpdate: nil).der(to: $0, by: $1) }),
        ("good by another key", { try RevocationAnswer(signer: try stranger()).der(to: $0, by: $1) }),
        (
            "revoked by another key",
            {
                try RevocationAnswer(status: .revoked, signer: try stranger()).der(to: $0, by: $1)
            }
        ),
        (
            "revoked by a certificate of the issuer without the OCSP usage",
            { request, issuer in
                let responder = try issuer.responder(hasUsage: false)
                return try RevocationAnswer(status: .revoked, signer: responder, certificate: responder.certificate)
                    .der(to: request, by: issuer)
            }
        ),
        ("good for another certificate", { try RevocationAnswer(certID: try otherCertID(in: $0)).der(to: $0, by: $1) }),
        ("good, for another request", { try RevocationAnswer(nonce: try otherNonce(in: $0)).der(to: $0, by: $1) }),
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
        ("one byte too many", { _, _ in [UInt8](repeating: 0, count: 1 << 20 + 1) }),
        ("unreachable", { _, _ in throw RevocationResponder.Unreachable() }),
    ]

    @Test(
        "any other response from one responder gives unknown",
        arguments: silences.map(\.0), [leafResponder, intermediateResponder])
    func silence(name: String, address: String) async throws {
        let behaviour = try #require(Self.silences.first { $0.0 == name }).1
        let bundle = try RevocationBundle()
        bundle.responder.at(address, behaviour)

        #expect(await bundle.verdict() == .unknown)
    }

    @Test("the largest allowed response is read, and one byte more is not")
    func size() async throws {
        let certificates = try RevocationChain()
        let answer = Captured()
        let first = try RevocationBundle(certificates)
        first.responder.at(leafResponder) { request, issuer in
            // Without a nonce the same response is valid for the next request.
            let der = try RevocationAnswer(hasNonce: false).der(to: request, by: issuer)
            answer.bytes.withLock { $0 = der }
            return der
        }
        #expect(await first.verdict() == .good)
        let bytes = answer.bytes.withLock { $0 }

        for (bytesMax, expected) in [(bytes.count, RevocationVerdict.good), (bytes.count - 1, .unknown)] {
            let bundle = try RevocationBundle(certificates) { $0.answerBytesMax = bytesMax }
            // Shorter than the leaf response: it names the root, and names differ more in length than signatures.
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

    @Test("a responder appointed by the issuer is accepted, with or without a nonce", arguments: [true, false])
    func appointed(hasNonce: Bool) async throws {
        let bundle = try RevocationBundle()
        bundle.responder.everywhere { request, issuer in
            let responder = try issuer.responder(hasUsage: true)
            return try RevocationAnswer(hasNonce: hasNonce, signer: responder, certificate: responder.certificate)
                .der(to: request, by: issuer)
        }

        #expect(await bundle.verdict() == .good)
    }

    @Test("an unreachable leaf responder does not hide a revoked intermediate")
    func leafAway() async throws {
        let bundle = try RevocationBundle()
        bundle.responder.at(leafResponder) { _, _ in throw RevocationResponder.Unreachable() }
        bundle.responder.at(intermediateResponder, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
        #expect(bundle.responder.asked == [leafResponder, intermediateResponder])
    }

    @Test("a silent leaf responder does not hide a revoked intermediate")
    func leafSilent() async throws {
        let bundle = try RevocationBundle { $0.answerWaitMax = .seconds(10) }
        bundle.responder.at(leafResponder) { _, _ in
            try await Task.sleep(for: .seconds(3600))
            return []
        }
        bundle.responder.at(intermediateResponder, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
        // It is not asked twice: it has used its time.
        #expect(bundle.responder.asked == [leafResponder, intermediateResponder])
    }

    @Test("a responder times out at its limit, even if its transport cannot be cancelled")
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

    @Test("a check times out at its limit")
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

@Suite("Chains without a usable responder address")
struct RevocationAddressTests {
    @Test("a chain without a responder is unknown, and no request is sent")
    func none() async throws {
        let bundle = try RevocationBundle(RevocationChain(leafResponder: nil, intermediateResponder: nil))

        #expect(await bundle.verdict() == .unknown)
        #expect(bundle.responder.asked.isEmpty)
    }

    @Test("a chain with only one responder is unknown even if the response is good")
    func half() async throws {
        for certificates in [try RevocationChain(leafResponder: nil), try RevocationChain(intermediateResponder: nil)] {
            let bundle = try RevocationBundle(certificates)

            #expect(await bundle.verdict() == .unknown)
            #expect(bundle.responder.asked.count == 1)
        }
    }

    @Test("a chain with only one responder is revoked if the response is revoked")
    func halfRevoked() async throws {
        let bundle = try RevocationBundle(RevocationChain(leafResponder: nil))
        bundle.responder.at(intermediateResponder, RevocationAnswer(status: .revoked))

        #expect(await bundle.verdict() == .revoked)
    }

    @Test("a root that names a responder, which the library rejects, makes the chain unknown, not revoked")
    func root() async throws {
        let bundle = try RevocationBundle(RevocationChain(rootResponder: "http://root.test/"))

        #expect(await bundle.verdict() == .unknown)
        #expect(bundle.responder.asked.isEmpty)
    }

    @Test("validity is checked at the validation time: a leaf expired then is unknown, one expired since is good")
    func validity() async throws {
        let certificates = try RevocationChain(leafUntil: "2022-01-01")

        for (time, expected) in [("2021-12-31", RevocationVerdict.good), ("2022-01-02", .unknown)] {
            let bundle = try RevocationBundle(certificates)
            let chain = certificates.chain(validationTime: date(time))

            #expect(await bundle.checker.verdict(of: chain) == expected)
            #expect(bundle.responder.asked.isEmpty == (expected == .unknown))
        }
    }

    @Test("a leaf of another issuer makes the chain unknown, not revoked")
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

/// A different serial number: the last bytes of a CertID.
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
