import Foundation
import SubledgerClient

/// The clocks of a device, which go on only when a command says so.
// Unchecked: the lock guards all variables.
final class GivenDevice: TrustedClock, @unchecked Sendable {
    private let lock = NSLock()
    private let activity: Activity
    private var trueTime: Date
    private var seconds: TimeInterval
    private var wrongBy: TimeInterval = 0
    private var boots = 1
    private var sleepers: [UUID: (until: Date, continuation: CheckedContinuation<Void, Never>)] = [:]

    init(now: Double, uptime: Double, _ activity: Activity) {
        trueTime = Date(timeIntervalSince1970: now)
        seconds = uptime
        self.activity = activity
    }

    var time: Date { lock.withLock { trueTime } }
    var now: Date { lock.withLock { trueTime.addingTimeInterval(wrongBy) } }
    var uptime: TimeInterval { lock.withLock { seconds } }
    var bootId: String? { lock.withLock { "boot \(boots)" } }

    /// Time passes. The pauses that are over then end.
    func pass(_ more: TimeInterval) {
        let woken = lock.withLock {
            trueTime += more
            seconds += more
            let woken = sleepers.filter { $0.value.until <= trueTime }
            for id in woken.keys { sleepers[id] = nil }
            return woken.sorted { $0.value.until < $1.value.until }.map(\.value.continuation)
        }
        activity.note()
        for continuation in woken { continuation.resume() }
    }

    /// The user sets the time of day.
    func setClock(wrongBy seconds: TimeInterval) { lock.withLock { wrongBy = seconds } }

    func restart() {
        lock.withLock {
            boots += 1
            seconds = 0
        }
    }

    func sleep(seconds: TimeInterval) async {
        activity.note()
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
}
