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

    /// Returns what is wrong with the evidence; nil if everything in it is proven.
    package func firstProblem(in evidence: EvidenceFile) async -> String? {
        guard evidence.head.isSigned(byOneOf: keys) else {
            return "head: its signature is not of an accepted key"
        }
        guard evidence.leadsToHead else { return "path: the hash chain does not lead from the event to the head" }
        let event = AuditedEvent(evidence)
        let verifier = EventVerifier(stream: evidence.head.head.stream, signatures: signatures)
        if let problem = await verifier.check(event).problem { return "event: \(problem)" }
        let source = EventSource(rawValue: evidence.event.source)
        let certificates = source.map { SigningCertificates.certificates(in: evidence.body, source: $0) } ?? []
        guard certificates == evidence.certificates else { return "certificates: are not those in the body" }
        return nil
    }
}

extension AuditedEvent {
    fileprivate init(_ evidence: EvidenceFile) {
        self.init(
            position: evidence.position, receivedAt: evidence.receivedAt, chained: evidence.event, body: evidence.body)
    }
}
