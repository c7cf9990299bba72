import Foundation
import SubledgerClient

/// A device whose clocks, network and power a test controls.
///
/// Unchecked: the lock guards all variables.
final class Device: TrustedClock, @unchecked Sendable {
    /// 2026-01-01T00:00:00Z.
    static let start = Date(timeIntervalSince1970: 1_767_225_600)

    private let lock = NSLock()
    private var trueTime = Device.start
    /// By how much the time of day differs from the true time.
    private var difference: TimeInterval = 0
    private var startedAt = Device.start.addingTimeInterval(-1000)
    private var boots = 1
    private var sleepers: [UUID: (until: Date, continuation: CheckedContinuation<Void, Never>)] = [:]

    var time: Date { lock.withLock { trueTime } }
    var now: Date { lock.withLock { trueTime.addingTimeInterval(difference) } }
    var uptime: TimeInterval { lock.withLock { trueTime.timeIntervalSince(startedAt) } }
    var bootId: String? { lock.withLock { "boot \(boots)" } }

    /// Time passes. Those who sleep until then wake up.
    func pass(_ seconds: TimeInterval) {
        let woken = lock.withLock {
            trueTime += seconds
            let woken = sleepers.filter { $0.value.until <= trueTime }
            for id in woken.keys { sleepers[id] = nil }
            return woken.sorted { $0.value.until < $1.value.until }.map(\.value.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    /// Waits until somebody sleeps until a time. Returns false if nobody does within two minutes.
    func isAwaited(_ date: Date) async -> Bool {
        let deadline = ContinuousClock.now + .seconds(120)
        while !lock.withLock({ sleepers.values.contains { abs($0.until.timeIntervalSince(date)) < 0.001 } }) {
            guard ContinuousClock.now < deadline else { return false }
            await Task.yield()
        }
        return true
    }

    /// The user sets the time of day to one that is wrong by this much.
    func setClock(wrongBy seconds: TimeInterval) { lock.withLock { difference = seconds } }

    func restart() {
        lock.withLock {
            boots += 1
            startedAt = trueTime
        }
    }

    func sleep(seconds: TimeInterval) async {
        let id = UUID()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = lock.withLock {
                    guard !Task.isCancelled else { return true }
                    sleepers[id] = (trueTime.addingTimeInterval(seconds), continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            lock.withLock { sleepers.removeValue(forKey: id) }?.continuation.resume()
        }
    }

    /// The true time as a clock, such as Apple's.
    var apple: TrueClock { TrueClock(device: self) }

    struct TrueClock: TrustedClock {
        let device: Device

        var now: Date { device.time }
        var uptime: TimeInterval { device.uptime }
        var bootId: String? { device.bootId }

        func sleep(seconds: TimeInterval) async { await device.sleep(seconds: seconds) }
    }
}

/// Answers in memory, which a test can damage.
final class MemoryCache: EntitlementCache, @unchecked Sendable {
    // Unchecked: the lock guards the variable.
    private let lock = NSLock()
    private var kept: [UUID: Data] = [:]

    func read(_ user: UUID) -> Data? { lock.withLock { kept[user] } }
    func write(_ data: Data, _ user: UUID) { lock.withLock { kept[user] = data } }
    func remove(_ user: UUID) { _ = lock.withLock { kept.removeValue(forKey: user) } }
}

/// The store, transport and cache as one run of the app sees them. After the kill, nothing that it does has an effect.
final class Run: Store, Transport, EntitlementCache, @unchecked Sendable {
    // Unchecked: the lock guards the variables.
    private let lock = NSLock()
    private let store: FakeStore
    private let server: FakeServer
    private let cache: MemoryCache
    private var stepsLeft: Int?
    private var seen = 0

    struct Killed: Error {}

    init(_ store: FakeStore, _ server: FakeServer, _ cache: MemoryCache) {
        self.store = store
        self.server = server
        self.cache = cache
    }

    /// Kills the app after this many more calls.
    func kill(after steps: Int = 0) { lock.withLock { stepsLeft = steps } }

    /// The updates that reached this run since it began to listen.
    var delivered: Int { lock.withLock { seen } }

    private func step() throws {
        try lock.withLock {
            guard let left = stepsLeft else { return }
            guard left > 0 else { throw Killed() }
            stepsLeft = left - 1
        }
    }

    func products(_ ids: Set<String>) async throws -> [StoreProduct] { try await store.products(ids) }

    func purchase(_ id: String, by user: UUID, options: PurchaseOptions) async throws -> PurchaseOutcome {
        try step()
        return try await store.purchase(id, by: user, options: options)
    }

    var updates: AsyncStream<SignedTransaction> {
        let source = store.updates
        lock.withLock { seen = 0 }
        return AsyncStream { continuation in
            Task { [weak self] in
                for await transaction in source {
                    guard let self, (try? self.step()) != nil else { return continuation.finish() }
                    self.lock.withLock { self.seen += 1 }
                    continuation.yield(transaction)
                }
                continuation.finish()
            }
        }
    }

    func unfinished() async -> [SignedTransaction] { (try? step()) == nil ? [] : await store.unfinished() }
    func current() async -> [SignedTransaction] { (try? step()) == nil ? [] : await store.current() }
    func appTransaction() async throws -> String { try await store.appTransaction() }
    func sync() async throws { try step() }

    func finish(_ transaction: SignedTransaction) async {
        guard (try? step()) != nil else { return }
        server.noteFinished(transaction)
        await store.finish(transaction)
    }

    func send(_ request: ClientRequest) async throws -> ClientResponse {
        try step()
        let response = try await server.send(request)
        // The response of a request that the server answered may never arrive.
        try step()
        return response
    }

    func read(_ user: UUID) -> Data? { cache.read(user) }

    func write(_ data: Data, _ user: UUID) throws {
        try step()
        cache.write(data, user)
    }

    func remove(_ user: UUID) throws { cache.remove(user) }
}
