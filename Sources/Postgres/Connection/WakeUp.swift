import CLibpq
import Foundation

/// A descriptor that any thread can make readable, for `poll(2)` to wait on beside the connection's socket.
final class WakeUp: Sendable {
    /// Readable from ``signal()`` until ``drain()``; -1, which `poll` ignores, if the process is out of descriptors.
    let descriptor: Int32

    init() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Makes the descriptor readable. Safe to call on any thread, any number of times.
    func signal() {
        _ = eventfd_write(descriptor, 1)
    }

    /// Clears all signals so far.
    func drain() {
        var count: eventfd_t = 0
        _ = eventfd_read(descriptor, &count)
    }
}
