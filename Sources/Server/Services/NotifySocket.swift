import Glibc

/// The socket on which a service manager, such as systemd, receives the states of this process.
///
/// - Source: sd_notify(3).
struct NotifySocket: Sendable {
    /// The name as the kernel expects it: a path, or an abstract name, which starts with a zero byte.
    private let name: [UInt8]

    /// The longest name that fits into a socket address, with the zero byte that ends a path.
    private static let nameBytesMax = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    /// - Parameter text: An absolute path, or `@` with an abstract name, as `NOTIFY_SOCKET` contains it.
    /// - Returns: Nil for any other text.
    init?(_ text: String) {
        var name = Array(text.utf8)
        guard name.count > 1, name.count <= Self.nameBytesMax else { return nil }
        switch name[0] {
        case UInt8(ascii: "/"): break
        case UInt8(ascii: "@"): name[0] = 0
        default: return nil
        }
        self.name = name
    }

    /// Sends states, one a line, without waiting.
    ///
    /// - Returns: False if the service manager does not receive at the moment; a repeat is safe.
    @discardableResult
    func send(_ states: String...) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        // The length ends an abstract name, so no zero byte may be counted after it.
        let length = MemoryLayout<sockaddr_un>.size - MemoryLayout.size(ofValue: address.sun_path) + name.count
        let text = Array(states.joined(separator: "\n").utf8)
        let sent = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(
                    descriptor, text, text.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL), $0,
                    socklen_t(length))
            }
        }
        return sent == text.count
    }
}
