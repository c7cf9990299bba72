import AppStore
import Encoding
import EventLog
import Subscriptions

/// Verifies evidence without a database and without a network.
package struct EvidenceVerifier: Sendable {
    let signatures: SignatureVerifier
    let keys: [HeadPublicKey]

    /// - Parameter keys: The operator's keys, from elsewhere than the evidence.
    package init(signatures: SignatureVerifier, keys: [HeadPublicKey]) {
        self.signatures = signatures
        self.keys = keys
    }

    /// Verifies everything in the evidence.
    ///
    /// - Returns: The signed OCSP responses: each says that its certificate was good when the event was received. Empty
    ///   if the evidence contains none.
    package func verify(
        _ evidence: EvidenceFile
    ) async throws(EvidenceProblem) -> [CertificateChain.Part: VerifiedOCSPResponse] {
        guard evidence.head.isSigned(byOneOf: keys) else {
            throw EvidenceProblem("head: its signature is not of an accepted key")
        }
        guard evidence.leadsToHead else {
            throw EvidenceProblem("path: the hash chain does not lead from the event to the head")
        }
        let event = AuditedEvent(evidence)
        let verifier = EventVerifier(stream: evidence.head.head.stream, signatures: signatures)
        if let problem = await verifier.check(event).problem { throw EvidenceProblem("event: \(problem)") }
        let source = EventSource(rawValue: evidence.event.source)
        let certificates = source.map { SigningCertificates.certificates(in: evidence.body, source: $0) } ?? []
        guard certificates == evidence.certificates else {
            throw EvidenceProblem("certificates: are not those in the body")
        }
        return try await responses(in: evidence)
    }

    private func responses(
        in evidence: EvidenceFile
    ) async throws(EvidenceProblem) -> [CertificateChain.Part: VerifiedOCSPResponse] {
        guard !evidence.responses.isEmpty else { return [:] }
        // The chain of the event's signature, which was verified just now.
        guard let id = evidence.event.chainId, let chain = signatures.knownChain(ChainID(sha256: id)) else {
            throw EvidenceProblem("ocsp: the event is not signed with certificates")
        }
        var verified: [CertificateChain.Part: VerifiedOCSPResponse] = [:]
        for part in CertificateChain.Part.allCases {
            guard let bytes = evidence.responses[part] else { continue }
            let response: VerifiedOCSPResponse
            do throws(OCSPProblem) {
                response = try await VerifiedOCSPResponse(verifying: bytes, about: part, of: chain)
            } catch {
                throw EvidenceProblem("ocsp: the response about the \(part) certificate \(error)")
            }
            guard response.isValid(at: evidence.receivedAt) else {
                throw EvidenceProblem(
                    "ocsp: the response about the \(part) certificate is valid from \(response.thisUpdate) to "
                        + "\(response.nextUpdate), and the event was received at \(evidence.receivedAt)")
            }
            guard response.status == .good else {
                throw EvidenceProblem(
                    "ocsp: the \(part) certificate was \(response.status) when the event was received")
            }
            verified[part] = response
        }
        return verified
    }
}

/// The first thing in evidence that is not proven.
package struct EvidenceProblem: Error, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

extension AuditedEvent {
    fileprivate init(_ evidence: EvidenceFile) {
        self.init(
            position: evidence.position, receivedAt: evidence.receivedAt, chained: evidence.event, body: evidence.body)
    }
}
