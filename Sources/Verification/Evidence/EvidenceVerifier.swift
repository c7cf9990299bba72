import AppStore
import Encoding
import EventLog
import Subscriptions

/// Verifies evidence without a database and without a network.
package struct EvidenceVerifier: Sendable {
    let signatures: SignatureVerifier
    let keys: [HeadPublicKey]
    let witnesses: [NoteKey]

    /// - Parameters:
    ///   - keys: The operator's keys, from elsewhere than the evidence.
    ///   - witnesses: Each must have cosigned the checkpoint.
    package init(signatures: SignatureVerifier, keys: [HeadPublicKey], witnesses: [NoteKey] = []) {
        self.signatures = signatures
        self.keys = keys
        self.witnesses = witnesses
    }

    /// Verifies everything in the evidence.
    ///
    /// - Returns: The signed OCSP responses: each says that its certificate was good when the event was received. Empty
    ///   if the evidence contains none.
    package func verify(
        _ evidence: EvidenceFile
    ) async throws(EvidenceProblem) -> [CertificateChain.Part: VerifiedOCSPResponse] {
        try check(evidence.path)
        guard evidence.isLed else {
            switch evidence.path {
            case .chain: throw EvidenceProblem("path: the hash chain does not lead from the event to the head")
            case .tree: throw EvidenceProblem("proof: its hashes do not lead from the event to the checkpoint")
            }
        }
        let event = AuditedEvent(evidence)
        let verifier = EventVerifier(stream: evidence.stream, signatures: signatures)
        if let problem = await verifier.check(event).problem { throw EvidenceProblem("event: \(problem)") }
        let source = EventSource(rawValue: evidence.event.source)
        let certificates = source.map { SigningCertificates.certificates(in: evidence.body, source: $0) } ?? []
        guard certificates == evidence.certificates else {
            throw EvidenceProblem("certificates: are not those in the body")
        }
        return try await responses(in: evidence)
    }

    /// Checks the signatures of the head or checkpoint.
    private func check(_ path: EvidenceFile.Path) throws(EvidenceProblem) {
        switch path {
        case .chain(let path):
            guard path.head.isSigned(byOneOf: keys) else {
                throw EvidenceProblem("head: its signature is not of an accepted key")
            }
            guard witnesses.isEmpty else { throw EvidenceProblem("head: witnesses cosign only checkpoints") }
        case .tree(let proof):
            guard proof.checkpoint.isSigned(byOneOf: keys) else {
                throw EvidenceProblem("checkpoint: its signature is not of an accepted key")
            }
            for witness in witnesses where proof.checkpoint.note.cosignatureTime(of: witness) == nil {
                throw EvidenceProblem("checkpoint: it has no valid cosignature of \(witness.name)")
            }
        }
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
