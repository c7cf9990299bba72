import Foundation

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// The clocks of the device.
public protocol TrustedClock: Sendable {
    /// The time of day, which the user can set.
    var now: Date { get }
    /// Seconds since the device was started, those asleep included. Nobody can set it.
    var uptime: TimeInterval { get }
    /// What differs after each start of the device, and may differ in each process; nil if unknown.
    var bootId: String? { get }

    /// Waits, and ends early if the task is cancelled.
    func sleep(seconds: TimeInterval) async
}

/// The clocks of this device.
public struct SystemClock: TrustedClock {
    /// While the process runs, the device does.
    private static let processId = UUID().uuidString

    public init() {}

    public var now: Date { Date() }

    public var uptime: TimeInterval {
        var time = timespec()
        #if canImport(Darwin)
            // On Apple's systems, this one goes on while the device sleeps.
            clock_gettime(CLOCK_MONOTONIC, &time)
        #else
            clock_gettime(CLOCK_BOOTTIME, &time)
        #endif
        return TimeInterval(time.tv_sec) + TimeInterval(time.tv_nsec) / 1_000_000_000
    }

    public var bootId: String? {
        #if canImport(Darwin)
            var size = 0
            guard sysctlbyname("kern.bootsessionuuid", nil, &size, nil, 0) == 0, size > 1 else {
                return Self.processId
            }
            var bytes = [UInt8](repeating: 0, count: size)
            guard sysctlbyname("kern.bootsessionuuid", &bytes, &size, nil, 0) == 0 else { return Self.processId }
            return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #else
            return (try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8))?
                .trimmingCharacters(in: .whitespacesAndNewlines) ?? Self.processId
        #endif
    }

    public func sleep(seconds: TimeInterval) async {
        try? await Task.sleep(nanoseconds: UInt64(max(0, seconds) * 1_000_000_000))
    }
}
