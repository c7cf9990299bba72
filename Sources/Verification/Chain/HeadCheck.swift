import EventLog

/// Signed heads that the log must extend.
package struct HeadCheck: Sendable {
    package let heads: [SignedHead]
    private let keys: [HeadPublicKey]

    /// No heads: only the chain itself is checked.
    package static let none = HeadCheck(heads: [], keys: [])

    /// - Parameter keys: The operator's keys, from a place that the database's superuser cannot change.
    package init(heads: [SignedHead], keys: [HeadPublicKey]) {
        self.heads = heads
        self.keys = keys
    }

    /// Those that one of the keys signed.
    var signed: [SignedHead] { heads.filter { $0.isSigned(byOneOf: keys) } }

    /// Heads that no key signed, or whose stream is not in the log.
    func problems(in streams: [AuditedStream]) -> [Finding] {
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
