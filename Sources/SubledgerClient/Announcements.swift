import Foundation

/// Passes entitlements on to any number of streams, each of which has the latest ones.
// Unchecked: the lock guards all members. iOS 15 has no `Mutex`.
final class Announcements: @unchecked Sendable {
    private let lock = NSLock()
    private var latest: Entitlements?
    private var listeners: [UUID: AsyncStream<Entitlements>.Continuation] = [:]

    func stream() -> AsyncStream<Entitlements> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let id = UUID()
            continuation.onTermination = { [weak self] _ in self?.remove(id) }
            lock.withLock {
                listeners[id] = continuation
                if let latest { continuation.yield(latest) }
            }
        }
    }

    /// Announces entitlements that differ from the last ones in more than the time.
    func announce(_ entitlements: Entitlements) {
        lock.withLock {
            let isNews =
                latest.map {
                    $0.active != entitlements.active || $0.trust != entitlements.trust
                        || $0.position != entitlements.position
                } ?? true
            latest = entitlements
            guard isNews else { return }
            for continuation in listeners.values { continuation.yield(entitlements) }
        }
    }

    private func remove(_ id: UUID) {
        _ = lock.withLock { listeners.removeValue(forKey: id) }
    }

    deinit {
        for continuation in listeners.values { continuation.finish() }
    }
}

/// The stores that have a listener.
enum Listeners {
    // Unchecked: the lock guards the members.
    private final class Known: @unchecked Sendable {
        let lock = NSLock()
        var stores: Set<ObjectIdentifier> = []
    }

    private static let known = Known()

    /// Returns false if the store has a listener already.
    static func add(_ store: any Store) -> Bool {
        known.lock.withLock { known.stores.insert(ObjectIdentifier(store)).inserted }
    }

    static func remove(_ store: any Store) {
        _ = known.lock.withLock { known.stores.remove(ObjectIdentifier(store)) }
    }
}
