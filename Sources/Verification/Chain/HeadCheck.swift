import EventLog

/// Signed heads and checkpoints that the log must extend.
package struct HeadCheck: Sendable {
    package let heads: [SignedHead]
    package let checkpoints: [SignedCheckpoint]
    private let keys: [HeadPublicKey]

    /// No heads: only the chain itself is checked.
    package static let none = HeadCheck(heads: [], keys: [])

    /// - Parameter keys: The operator's keys, from a place that the database's superuser cannot change.
    package init(heads: [SignedHead], checkpoints: [SignedCheckpoint] = [], keys: [HeadPublicKey]) {
        self.heads = heads
        self.checkpoints = checkpoints
        self.keys = keys
    }

    /// Those that one of the keys signed.
    var signed: [SignedHead] { heads.filter { $0.isSigned(byOneOf: keys) } }

    /// The checkpoints that one of the keys signed.
    var signedCheckpoints: [SignedCheckpoint] { checkpoints.filter { $0.isSigned(byOneOf: keys) } }

    /// Heads and checkpoints that no key signed, or whose stream is not in the log.
    func problems(in streams: [AuditedStream]) -> [Finding] {
        headProblems(in: streams) + checkpointProblems(in: streams)
    }

    private func checkpointProblems(in streams: [AuditedStream]) -> [Finding] {
        checkpoints.compactMap { signed in
            let (origin, size) = (signed.checkpoint.origin, signed.checkpoint.size)
            guard signed.isSigned(byOneOf: keys) else {
                let problem = "the checkpoint is forged: its signature is not of an accepted key"
                return Finding(row: "\(origin.text), size \(size): \(problem)")
            }
            guard streams.contains(where: { $0.key == origin.stream }) else {
                return Finding(row: "\(origin.text), size \(size): the stream is missing")
            }
            return nil
        }
    }

    private func headProblems(in streams: [AuditedStream]) -> [Finding] {
        heads.compactMap { head in
            let stream = head.head.stream
            let name = "stream (\(stream.app), \(stream.environment.rawValue)) position \(head.head.position)"
            guard head.isSigned(byOneOf: keys) else {
                return Finding(row: "\(name): the head is forged: its signature is not of an accepted key")
            }
            guard streams.contains(where: { $0.key == stream }) else {
                return Finding(row: "\(name): the stream is missing: the head was signed at \(head.signedAt)")
            }
            return nil
        }
    }
}
