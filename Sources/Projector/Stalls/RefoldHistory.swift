import Encoding
import Subscriptions
import Synchronization

/// The reason for which this process last rewrote all rows of each stream.
///
/// Rows that are out of date again after a rewrite would be rewritten endlessly and fill the disk. Two releases with
/// different projection versions that run at the same time do that to each other.
///
/// Meanwhile events wait, so after a rewrite they have the stream for as long as it took: whoever changes products again and
/// again makes them half as fast, and does not stop them.
final class RefoldHistory: Sendable {
    private struct Refold {
        let from: Reason
        let at: ContinuousClock.Instant
        let took: Duration
    }

    /// What the checkpoint recorded, and the configuration that it should have recorded.
    private struct Reason: Equatable {
        let products: ByteString
        let projectionVersion: Int32
        let configured: ByteString
        let ownership: String
        let rules: OwnershipRules
        let checkLead: String
        let checks: CheckPolicy

        init(_ checkpoint: Checkpoint) {
            products = checkpoint.products
            projectionVersion = checkpoint.projectionVersion
            configured = checkpoint.configured
            ownership = checkpoint.ownership
            rules = checkpoint.rules
            checkLead = checkpoint.checkLead
            checks = checkpoint.checks
        }
    }

    private let last = Mutex<[Int32: Refold]>([:])
    private let pause: Duration

    /// - Parameter pause: How long the same reason is refused. After that it counts as a new one: products may have
    ///   been switched back and forth, with another process handling the switch back.
    init(pause: Duration = Limits.refoldRepeatPause) {
        self.pause = pause
    }

    /// Whether the rows of a stream may be rewritten, given its checkpoint.
    func allow(_ streamId: Int32, _ checkpoint: Checkpoint) -> Bool {
        last.withLock { last in
            guard let refold = last[streamId], refold.from == Reason(checkpoint) else { return true }
            return ContinuousClock.now - refold.at >= pause
        }
    }

    /// How long events have the stream before it may be rewritten again; zero if it may be now.
    func rest(_ streamId: Int32) -> Duration {
        last.withLock { last in
            guard let refold = last[streamId] else { return .zero }
            return max(.zero, refold.took - (ContinuousClock.now - refold.at))
        }
    }

    func note(_ streamId: Int32, _ checkpoint: Checkpoint, took: Duration) {
        last.withLock { $0[streamId] = Refold(from: Reason(checkpoint), at: .now, took: took) }
    }
}
