import Foundation

/// Shows when the client has nothing under way but pauses.
// Unchecked: the lock guards all variables.
final class Activity: @unchecked Sendable {
    private let lock = NSLock()
    private var count = 0
    private var requests = 0

    /// How often the client must be found idle, and the nanoseconds between.
    private static let looks = 6
    private static let interval: UInt64 = 4_000_000

    func note() { lock.withLock { count += 1 } }

    func begin() { lock.withLock { (count, requests) = (count + 1, requests + 1) } }

    func end() { lock.withLock { (count, requests) = (count + 1, requests - 1) } }

    /// Waits until nothing has happened for a while, and no request is under way.
    func settle() async {
        var (quiet, seen) = (0, -1)
        while quiet < Self.looks {
            try? await Task.sleep(nanoseconds: Self.interval)
            let (now, isIdle) = lock.withLock { (count, requests == 0) }
            quiet = isIdle && now == seen ? quiet + 1 : 0
            seen = now
        }
    }
}
