import CLibpq
import Foundation

/// A descriptor that `poll(2)` can wait for beside the connection's socket, and that any thread can make readable.
final class WakeUp: Sendable {
    /// Readable from a signal until it is drained; -1 if the process is out of descriptors, which `poll` ignores.
    let descriptor: Int32

    init() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Safe on any thread, any number of times.
    func signal() {
        _ = eventfd_write(descriptor, 1)
    }

    /// Takes back all signals so far.
    func drain() {
        var count: eventfd_t = 0
        _ = eventfd_read(descriptor, &count)
    }
}
