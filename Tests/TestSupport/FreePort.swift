import Foundation

/// A port for a listener that starts later, or again.
package enum FreePort {
    /// Returns a port that nobody listens on. It lies below those that the system gives to connections and to listeners on
    /// any port, so that none of the processes beside this one gets it in between.
    package static func find() throws -> Int {
        let range = try String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        let first = range.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) } ?? 32_768
        for _ in 0..<100 {
            let port = Int.random(in: 10_000..<max(first, 10_001))
            if try isFree(port) { return port }
        }
        throw NeverHappened(what: "a port is free")
    }

    private static func isFree(_ port: Int) throws -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
