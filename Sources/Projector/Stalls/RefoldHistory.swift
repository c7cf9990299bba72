import Encoding
import Synchronization

/// Why the rows of each stream were last written all over again by this process.
///
/// A stream whose rows come out as out of date as they were would be written without end, and fill the disk: two
/// releases with different projection versions side by side do that to each other.
final class RefoldHistory: Sendable {
    private struct Refold {
        let from: Reason
        let at: ContinuousClock.Instant
    }

    /// What was stored with the rows, and what should have been.
    private struct Reason: Equatable {
        let products: ByteString
        let projectionVersion: Int32
        let configured: ByteString

        init(_ checkpoint: Checkpoint) {
            products = checkpoint.products
            projectionVersion = checkpoint.projectionVersion
            configured = checkpoint.configured
        }
    }

    private let last = Mutex<[Int32: Refold]>([:])
    private let pause: Duration

    /// - Parameter pause: After so long the same reason counts as a new one: products may have been configured back and
    ///   forth, and another process have done the way back.
    init(pause: Duration = Limits.refoldRepeatPause) {
        self.pause = pause
    }

    /// Whether the rows may be written for what the checkpoint lacks.
    func allow(_ streamId: Int32, _ checkpoint: Checkpoint) -> Bool {
        last.withLock { last in
            guard let refold = last[streamId], refold.from == Reason(checkpoint) else { return true }
            return ContinuousClock.now - refold.at >= pause
        }
    }

    func note(_ streamId: Int32, _ checkpoint: Checkpoint) {
        last.withLock { $0[streamId] = Refold(from: Reason(checkpoint), at: .now) }
    }
}
