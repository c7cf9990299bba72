import Foundation

/// How much of a processor a thread gets on this machine.
package enum ProcessorShare {
    /// How many times longer than its processor time a piece of work takes now, at least 1. A limit in seconds that holds
    /// on a machine with an idle processor is multiplied by it.
    ///
    /// Uses 30 ms of processor time.
    package static func slowdown() -> Double {
        let start = ContinuousClock.now
        let first = threadTime()
        var used = Duration.zero
        while used < .milliseconds(30) { used = threadTime() - first }
        return max(1, (ContinuousClock.now - start) / used)
    }

    private static func threadTime() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
