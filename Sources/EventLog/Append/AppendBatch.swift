import Encoding
import Postgres
import Subscriptions

/// Events that are appended together, as the parameters of the statements that append them.
struct AppendBatch {
    private let events: [PreparedEvent]
    private let streamIds: [Int32]
    private var claims: [Claim] = []
    /// For each event the place of its claim, from 1.
    private var claimNumbers: [Int64] = []
    /// For each event: 0 where its key is unique; else the ordinal of the first of the events that it repeats.
    private var runs: [Int64] = []
    /// For each event: nil where its key is unique; else since when a stored event with the key is the same. It never
    /// decreases within a run, so that after an event that is new, all that repeat it are compared with that one.
    private var sameSince: [Instant?] = []
    /// The subscriptions of all events, event by event, and for each event the places of its first and last, from 1.
    private var subscriptions: [[UInt8]] = []
    private var subscriptionOrdinals: [Int64] = []
    private var firstSubscriptions: [Int32] = []
    private var lastSubscriptions: [Int32] = []

    /// That a stream has an id.
    private struct Claim: Hashable {
        let stream: StreamKey
        let id: Int32
    }

    init(_ events: [PreparedEvent], streamIds: [Int32]) {
        self.events = events
        self.streamIds = streamIds
        var numbers: [Claim: Int64] = [:]
        for (prepared, id) in zip(events, streamIds) {
            let claim = Claim(stream: prepared.stream, id: id)
            if numbers[claim] == nil {
                claims.append(claim)
                numbers[claim] = Int64(claims.count)
            }
            claimNumbers.append(numbers[claim] ?? 0)
            firstSubscriptions.append(Int32(subscriptions.count + 1))
            subscriptions += prepared.subscriptions
            lastSubscriptions.append(Int32(subscriptions.count))
            subscriptionOrdinals += Array(repeating: Int64(claimNumbers.count), count: prepared.subscriptions.count)
        }
        findRepeats()
    }

    /// A V1 body is the one before it in the batch again if it has its key and no other event about its subscriptions
    /// stands between them; ``Admission`` makes sure that it came soon enough. A V1 body that stands there may turn out
    /// to be a repeat itself. Then the event that it repeats is about the subscription too, and later than any that
    /// these two could repeat.
    private mutating func findRepeats() {
        struct Key: Hashable {
            let stream: StreamKey
            let bytes: [UInt8]
        }
        var lastOfKey: [Key: Int] = [:]
        var lastOfSubscription: [Key: Int] = [:]
        for (index, prepared) in events.enumerated() {
            let subscriptions = prepared.subscriptions.map { Key(stream: prepared.stream, bytes: $0) }
            if prepared.event.hasUniqueKey {
                runs.append(0)
                sameSince.append(nil)
            } else {
                let key = Key(stream: prepared.stream, bytes: prepared.event.dedupeKey.bytes)
                let known = lastOfKey[key]
                let other = subscriptions.compactMap { lastOfSubscription[$0] }.max()
                let since = prepared.receivedAt.advanced(by: .zero - Event.repeatAgeMax)
                if let known, (other ?? known) <= known {
                    runs.append(runs[known])
                    sameSince.append(max(sameSince[known] ?? since, since))
                } else {
                    runs.append(Int64(index + 1))
                    sameSince.append(known == nil && other == nil ? since : .latest)
                }
                lastOfKey[key] = index
            }
            for subscription in subscriptions { lastOfSubscription[subscription] = index }
        }
    }

    /// Decides which events may be in one batch.
    ///
    /// Whether an event with a unique key is new shows only when it is appended, so a V1 body about one of its
    /// subscriptions waits for the next batch. An event that came too late to repeat the first one waits, too.
    struct Admission {
        private struct Subscription: Hashable {
            let stream: StreamKey
            let digest: [UInt8]
        }
        /// Of the events with unique keys.
        private var subscriptions: Set<Subscription> = []
        private var firstReceivedAt: Instant?

        /// Whether the event may be in the batch.
        mutating func admit(_ prepared: PreparedEvent) -> Bool {
            let first = firstReceivedAt ?? prepared.receivedAt
            firstReceivedAt = first
            guard prepared.receivedAt <= first.advanced(by: Event.repeatAgeMax) else { return false }
            let named = prepared.subscriptions.lazy.map { Subscription(stream: prepared.stream, digest: $0) }
            guard prepared.event.hasUniqueKey else {
                return subscriptions.isEmpty || subscriptions.isDisjoint(with: named)
            }
            subscriptions.formUnion(named)
            return true
        }
    }

    /// The ids of the streams, each once and in order.
    var distinctStreams: Parameter { .array(Set(streamIds).sorted()) }

    private var claimParameters: [Parameter] {
        [
            .array(claims.map(\.id)), .array(claims.map(\.stream.app)),
            .array(claims.map(\.stream.environment.rawValue)),
        ]
    }

    var appendParameters: [Parameter] {
        [
            .array(streamIds),
            .array(events.map(\.event.dedupeKey.bytes)),
            .array(events.map(\.receivedAt)),
            .array(events.map(\.event.occurredAt)),
            .array(events.map(\.event.source.rawValue)),
            .array(events.map(\.event.type)),
            .array(events.map(\.event.subtype)),
            .array(events.map(\.event.kind.rawValue)),
            .array(events.map(\.facts)),
            .array(events.map(\.defects)),
            .array(events.map(\.body.stored)),
            .array(events.map(\.bodyDigest)),
            .array(events.map { $0.chain?.id }),
            .array(events.map { $0.chain?.revocation.rawValue }),
            .array(events.map(\.event.fingerprint)),
            .array(runs), .array(sameSince), .array(firstSubscriptions), .array(lastSubscriptions),
            .array(subscriptions), .array(subscriptionOrdinals), .array(claimNumbers),
        ] + claimParameters + [.array(events.map(\.digest))]
    }

    /// Streams, digests and texts of the headers, each once.
    var headerParameters: [Parameter] {
        struct Key: Hashable {
            let stream: Int32
            let digest: [UInt8]
        }
        var headers: [Key: [UInt8]] = [:]
        for (prepared, stream) in zip(events, streamIds) {
            for header in prepared.body.headers { headers[Key(stream: stream, digest: header.digest)] = header.text }
        }
        return [
            .array(headers.keys.map(\.stream)), .array(headers.keys.map(\.digest)), .array(Array(headers.values)),
        ] + claimParameters
    }
}
