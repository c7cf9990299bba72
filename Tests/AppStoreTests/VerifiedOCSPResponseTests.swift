import AppStore
import Encoding
import Foundation
import Subscriptions
import Synchronization
import TestSupport
import Testing

@Suite("A stored OCSP response is verified again without a network")
struct VerifiedOCSPResponseTests {
    private struct Bundle {
        let certificates: RevocationChain
        /// A request about the leaf.
        let request: [UInt8]

        static func setup() async throws -> Bundle {
            let bundle = try RevocationBundle()
            let received = Mutex<[UInt8]>([])
            bundle.responder.at(RevocationChain.leafResponder) { request, issuer in
                received.withLock { $0 = request }
                return try RevocationAnswer().der(to: request, by: issuer)
            }
            #expect(await bundle.verdict() == .good)
            return Bundle(certificates: bundle.certificates, request: received.withLock { $0 })
        }

        func leafResponse(_ answer: RevocationAnswer) throws -> [UInt8] {
            try answer.der(to: request, by: certificates.intermediate)
        }

        func verify(
            _ response: [UInt8], about part: CertificateChain.Part = .leaf
        ) async throws(OCSPProblem) -> VerifiedOCSPResponse {
            try await VerifiedOCSPResponse(verifying: response, about: part, of: certificates.chain())
        }
    }

    @Test("the status and the times are those of the response, whatever its nonce", arguments: [true, false])
    func verified(hasNonce: Bool) async throws {
        let bundle = try await Bundle.setup()
        let answer = RevocationAnswer(
            thisUpdate: date("2026-01-01T10:00:00Z"), nextUpdate: date("2026-01-01T22:00:00Z"), hasNonce: hasNonce)

        let response = try await bundle.verify(try bundle.leafResponse(answer))

        #expect(response.status == .good)
        #expect(response.thisUpdate == day("2026-01-01T10:00:00Z"))
        #expect(response.nextUpdate == day("2026-01-01T22:00:00Z"))
        #expect(!response.isValid(at: day("2026-01-01T08:44:59Z")))
        #expect(response.isValid(at: day("2026-01-01T08:45:00Z")))
        #expect(response.isValid(at: day("2026-01-01T23:15:00Z")))
        #expect(!response.isValid(at: day("2026-01-01T23:15:01Z")))
    }

    @Test("a revoked and an unknown status are read as such")
    func statuses() async throws {
        let bundle = try await Bundle.setup()

        #expect(try await bundle.verify(try bundle.leafResponse(RevocationAnswer(status: .revoked))).status == .revoked)
        #expect(try await bundle.verify(try bundle.leafResponse(RevocationAnswer(status: .unknown))).status == .unknown)
    }

    @Test("a responder that the issuer appointed may sign, and another certificate of the issuer may not")
    func appointed() async throws {
        let bundle = try await Bundle.setup()
        for hasUsage in [true, false] {
            let responder = try bundle.certificates.intermediate.responder(hasUsage: hasUsage)
            let response = try bundle.leafResponse(
                RevocationAnswer(signer: responder, certificate: responder.certificate))

            if hasUsage {
                #expect(try await bundle.verify(response).status == .good)
            } else {
                await #expect(throws: OCSPProblem.signature) { try await bundle.verify(response) }
            }
        }
    }

    @Test("the responder's certificate must have been valid when the response was produced")
    func responderValidity() async throws {
        let bundle = try await Bundle.setup()
        let responder = try bundle.certificates.intermediate.responder(hasUsage: true)
        for (producedAt, isValid) in [("2039-12-31", true), ("2040-01-02", false)] {
            let response = try bundle.leafResponse(
                RevocationAnswer(
                    producedAt: date(producedAt), signer: responder, certificate: responder.certificate))

            if isValid {
                #expect(try await bundle.verify(response).status == .good)
            } else {
                await #expect(throws: OCSPProblem.signature) { try await bundle.verify(response) }
            }
        }
    }

    @Test("a response that was changed, exchanged, forged or has no end is refused with its reason")
    func refused() async throws {
        let bundle = try await Bundle.setup()
        let good = try bundle.leafResponse(RevocationAnswer())
        let stranger = try RevocationChain().intermediate
        var certID = try RevocationAnswer.Request(bundle.request).certID
        certID[certID.count - 1] ^= 1

        await #expect(throws: OCSPProblem.otherCertificate) { try await bundle.verify(good, about: .intermediate) }
        for (response, problem) in [
            (try bundle.leafResponse(RevocationAnswer(certID: certID)), OCSPProblem.otherCertificate),
            (try bundle.leafResponse(RevocationAnswer(signer: stranger)), .signature),
            (try bundle.leafResponse(RevocationAnswer(nextUpdate: nil)), .endless),
            (Array(good.dropLast()), .undecodable), (try RevocationAnswer.response(status: 3), .undecodable),
            ([], .undecodable),
        ] {
            await #expect(throws: problem) { try await bundle.verify(response) }
        }
    }

    @Test("no byte of a response can be changed so that it says something else")
    func flipped() async throws {
        let bundle = try await Bundle.setup()
        let bytes = try bundle.leafResponse(RevocationAnswer())
        let response = try await bundle.verify(bytes)

        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 1
            guard let other = try? await bundle.verify(changed) else { continue }
            #expect(
                other.status == response.status && other.thisUpdate == response.thisUpdate
                    && other.nextUpdate == response.nextUpdate, "byte \(index)")
        }
    }

    @Test("a check passes on the signed responses behind its verdict, each time")
    func passedOn() async throws {
        let certificates = try RevocationChain()
        let clock = TestClock()
        let seen = Mutex<[[RevocationVerdict]]>([])
        let responder = RevocationResponder(certificates)
        let checker = RevocationChecker(
            mode: .required, transport: responder, limits: .patient, now: { clock.now }, onVerdict: { _, _, _ in },
            onResponses: { responses, _ in seen.withLock { $0.append(responses.map(\.status)) } })

        #expect(await checker.verdict(of: certificates.chain()) == .good)
        _ = try await eventually("the check ends") { checker.isIdle ? true : nil }
        clock.advance(seconds: 3600)
        responder.at(RevocationChain.intermediateResponder, RevocationAnswer(status: .revoked))
        #expect(await checker.verdict(of: certificates.chain()) == .revoked)
        _ = try await eventually("the check ends") { checker.isIdle ? true : nil }
        clock.advance(seconds: 3600)
        responder.everywhere { _, _ in throw RevocationResponder.Unreachable() }
        #expect(await checker.verdict(of: certificates.chain()) == .revoked)
        _ = try await eventually("the check ends") { checker.isIdle ? true : nil }

        #expect(seen.withLock { $0 } == [[.good, .good], [.good, .revoked]])
    }
}
