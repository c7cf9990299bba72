import AppStore
import Encoding
import EventLog
import Subscriptions

/// Reads evidence from the log.
package struct EvidenceReader {
    let log: LogAudit

    package init(log: LogAudit) {
        self.log = log
    }

    /// Why there is no evidence.
    package enum Refusal: Error, Hashable, CustomStringConvertible {
        case noStream
        case noEvent(position: Int64)
        case headTooEarly(position: Int64, head: Int64)
        case checkpointTooEarly(position: Int64, size: Int64)
        /// The log has fewer events than the checkpoint.
        case checkpointTooLate(size: Int64, events: Int64)
        case damaged(String)

        /// Whether the log is damaged, rather than the question wrong.
        package var isDamage: Bool {
            if case .damaged = self { true } else { false }
        }

        package var description: String {
            switch self {
            case .noStream: "the log has no such stream"
            case .noEvent(let position): "the log has no event at position \(position)"
            case .headTooEarly(let position, let head):
                "the head has position \(head): expected \(position) or a later one"
            case .checkpointTooEarly(let position, let size):
                "the checkpoint has \(size) events: expected at least \(position)"
            case .checkpointTooLate(let size, let events):
                "the checkpoint has \(size) events, and the log has \(events)"
            case .damaged(let problem): "\(problem): run `subledger verify`"
            }
        }
    }

    /// The evidence of the event at a position.
    ///
    /// - Parameter head: A head of the stream, at the position or later.
    /// - Throws: ``Refusal``; a database error.
    package func evidence(at position: Int64, head: SignedHead) async throws -> EvidenceFile {
        let stream = try await stream(head.head.stream, with: position)
        guard position <= head.head.position else {
            throw Refusal.headTooEarly(position: position, head: head.head.position)
        }
        let path = ChainPath(
            start: try await start(of: stream, at: position),
            digests: try await digests(of: stream, after: position, until: head.head.position), head: head)
        let evidence = try await evidence(at: position, in: stream, path: .chain(path))
        guard evidence.isLed else {
            throw Refusal.damaged("the hash chain does not lead from the event to the head")
        }
        return evidence
    }

    /// The evidence of the event at a position.
    ///
    /// - Parameter checkpoint: A checkpoint of the stream's tree, with the position.
    /// - Throws: ``Refusal``; a database error.
    package func evidence(at position: Int64, checkpoint: SignedCheckpoint) async throws -> EvidenceFile {
        let size = checkpoint.checkpoint.size
        let stream = try await stream(checkpoint.checkpoint.origin.stream, with: position)
        guard position <= size else { throw Refusal.checkpointTooEarly(position: position, size: size) }
        guard size <= stream.last else { throw Refusal.checkpointTooLate(size: size, events: stream.last) }
        let hashes: [[UInt8]]
        do throws(TreeError) {
            hashes = try await log.inclusion(of: position, in: stream, size: size)
        } catch {
            guard case .problem(let problem) = error else { throw error }
            throw Refusal.damaged(problem.description)
        }
        let proof = TreeProof(position: position, hashes: hashes, checkpoint: checkpoint)
        let evidence = try await evidence(at: position, in: stream, path: .tree(proof))
        guard evidence.isLed else {
            throw Refusal.damaged("the tree does not lead from the event to the checkpoint")
        }
        return evidence
    }

    private func stream(_ key: StreamKey, with position: Int64) async throws -> AuditedStream {
        guard let stream = try await log.streams().first(where: { $0.key == key }) else { throw Refusal.noStream }
        guard position >= 1, position <= stream.last else { throw Refusal.noEvent(position: position) }
        return stream
    }

    private func evidence(
        at position: Int64, in stream: AuditedStream, path: EvidenceFile.Path
    ) async throws -> EvidenceFile {
        let found = try await log.page(of: stream, after: position - 1, through: position)
        guard let stored = found.first else {
            throw Refusal.noEvent(position: position)
        }
        let body: [UInt8]
        do throws(DamagedBody) {
            body = try stored.body()
        } catch {
            throw Refusal.damaged(error.description)
        }
        let certificates =
            EventSource(rawValue: stored.source).map { SigningCertificates.certificates(in: body, source: $0) } ?? []
        return EvidenceFile(
            position: position, receivedAt: stored.receivedAt, event: stored.chained, body: body,
            certificates: certificates, verdicts: try await verdicts(about: stored.chainId),
            responses: try await responses(about: certificates, at: stored.receivedAt), path: path)
    }

    private func verdicts(about chain: [UInt8]?) async throws -> [CertificateVerdict] {
        guard let chain else { return [] }
        return try await log.verdicts(about: chain)
    }

    /// - Parameter certificates: Leaf first.
    private func responses(
        about certificates: [[UInt8]], at instant: Instant
    ) async throws -> [CertificateChain.Part: [UInt8]] {
        var responses: [CertificateChain.Part: [UInt8]] = [:]
        for (part, certificate) in zip([CertificateChain.Part.leaf, .intermediate], certificates) {
            responses[part] = try await log.response(
                about: certificate, at: instant, tolerance: VerifiedOCSPResponse.clockTolerance)
        }
        return responses
    }

    /// Value of the hash chain before a position.
    private func start(of stream: AuditedStream, at position: Int64) async throws -> [UInt8] {
        if position == 1, let key = stream.key, let createdAt = stream.createdAt {
            return LogChain(startOf: key, createdAt: createdAt).value
        }
        guard let before = try await log.links(of: stream, after: position - 2, limit: 1).first,
            before.position == position - 1
        else { throw Refusal.damaged("the event before it is missing") }
        return before.chain
    }

    private func digests(
        of stream: AuditedStream, after position: Int64, until last: Int64
    ) async throws -> [[UInt8]] {
        var digests: [[UInt8]] = []
        var position = position
        while position < last {
            let links = try await log.links(of: stream, after: position).prefix { $0.position <= last }
            guard let end = links.last else { break }
            digests += links.map(\.digest)
            position = end.position
        }
        return digests
    }
}
