import AppStore
import EventLog
import HTTPTypes
import Subscriptions
import Synchronization

/// Limits what streams of Xcode and local tests store: their notifications are unsigned, so anyone can forge them, and
/// they share the disk with production.
final class LocalStreams: Sendable {
    enum Excess: String, Error, CaseIterable {
        case bodyTooLarge = "local_body_too_large"
        case tooFast = "local_too_fast"
        case full = "local_stream_full"
    }

    private struct Stream {
        var bucket: TokenBucket
        /// The last position that this process has seen.
        var position: Int64 = 0
    }

    private let streams = Mutex<[StreamKey: Stream]>([:])

    /// Accepts a notification of any other environment, or one within the limits.
    func admit(_ stream: StreamKey, bodyBytes: Int, at now: ContinuousClock.Instant = .now) throws(Excess) {
        guard stream.environment.isLocal else { return }
        guard bodyBytes <= Limits.localBodyBytesMax else { throw .bodyTooLarge }
        let excess: Excess? = streams.withLock { streams in
            var entry =
                streams[stream]
                ?? Stream(
                    bucket: TokenBucket(
                        perSecond: Limits.localEventsPerSecond, capacity: Limits.localBurstEventsMax, at: now))
            defer { streams[stream] = entry }
            if entry.position >= Limits.localEventsMax { return .full }
            return entry.bucket.take(at: now) ? nil : .tooFast
        }
        if let excess { throw excess }
    }

    /// Records the length of the stream. After a restart, it is unknown until the first notification is stored.
    func note(_ stream: StreamKey, _ position: Int64) {
        guard stream.environment.isLocal else { return }
        streams.withLock { $0[stream]?.position = position }
    }
}

extension LocalStreams.Excess {
    var status: HTTPResponse.Status {
        switch self {
        case .bodyTooLarge: .contentTooLarge
        case .tooFast: .tooManyRequests
        case .full: .serviceUnavailable
        }
    }

    var problem: String {
        switch self {
        case .bodyTooLarge:
            "a notification of a local environment is larger than \(Limits.localBodyBytesMax) bytes"
        case .tooFast:
            "more than \(Limits.localEventsPerSecond) notifications per second of a local environment"
        case .full:
            "the stream of this local environment has reached its limit of \(Limits.localEventsMax) notifications"
        }
    }
}
