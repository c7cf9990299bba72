import HTTPTypes
import PlayStore
import Subscriptions
import Synchronization

/// Limits what is stored of pushes of Google Play that prove nothing: anyone can send them, and they share the disk with
/// everything else. What they contain besides known members, such as a long text, is limited with them.
final class OpenPushes: Sendable {
    enum Excess: String, Error, CaseIterable {
        case bodyTooLarge = "open_push_too_large"
        case tooMany = "open_pushes_too_many"
    }

    /// One token for each byte.
    private let buckets = Mutex<[StreamKey: TokenBucket]>([:])

    /// Accepts an authenticated push, or one within the limits.
    func admit(_ push: VerifiedPush, bodyBytes: Int, at now: ContinuousClock.Instant = .now) throws(Excess) {
        guard !push.isAuthenticated else { return }
        guard bodyBytes <= Limits.openPushBytesMax else { throw .bodyTooLarge }
        let isAdmitted = buckets.withLock { buckets in
            var bucket =
                buckets[push.stream]
                ?? TokenBucket(
                    perSecond: Limits.openPushBytesPerSecond, capacity: Limits.openPushBurstBytesMax, at: now)
            defer { buckets[push.stream] = bucket }
            return bucket.take(bodyBytes, at: now)
        }
        guard isAdmitted else { throw .tooMany }
    }
}

extension OpenPushes.Excess {
    var status: HTTPResponse.Status {
        switch self {
        case .bodyTooLarge: .contentTooLarge
        case .tooMany: .tooManyRequests
        }
    }

    var problem: String {
        switch self {
        case .bodyTooLarge: "a push without authentication is larger than \(Limits.openPushBytesMax) bytes"
        case .tooMany:
            "the pushes without authentication exceed \(Limits.openPushBytesPerSecond) bytes per second on average"
        }
    }
}
