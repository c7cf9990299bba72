import Synchronization

/// A ``TokenBucket`` for each key that was used lately.
final class KeyedBuckets<Key: Hashable & Sendable>: Sendable {
    private let buckets = Mutex<[Key: TokenBucket]>([:])
    private let perSecond: Int
    private let capacity: Int
    private let keysMax: Int

    /// - Parameter keysMax: With more keys at once, all are counted anew: this limit is not the last one.
    init(perSecond: Int, capacity: Int, keysMax: Int) {
        self.perSecond = perSecond
        self.capacity = capacity
        self.keysMax = keysMax
    }

    /// Counts a request, as several if `count` says so. Returns false, and does not count it, if it is beyond the limit of its
    /// key.
    func admit(_ key: Key, as count: Int = 1, at now: ContinuousClock.Instant) -> Bool {
        buckets.withLock { buckets in
            if buckets.count >= keysMax { buckets = buckets.filter { !$0.value.isFull(at: now) } }
            if buckets.count >= keysMax { buckets = [:] }
            var bucket = buckets[key] ?? TokenBucket(perSecond: perSecond, capacity: capacity, at: now)
            defer { buckets[key] = bucket }
            return bucket.take(count, at: now)
        }
    }
}
