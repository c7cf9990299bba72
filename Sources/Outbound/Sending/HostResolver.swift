import Foundation
import NIOCore
import NIOPosix

/// Looks up the addresses of hosts.
package struct HostResolver: Sendable {
    let addresses: @Sendable (String) async throws -> [NetworkAddress]

    package init(addresses: @escaping @Sendable (String) async throws -> [NetworkAddress]) {
        self.addresses = addresses
    }

    /// The resolver of the operating system, in its order.
    package static let system = HostResolver { host in
        if let address = NetworkAddress(host) { return [address] }
        return try await threads.runIfActive { try lookUp(host) }
    }

    /// Of their own, and more than the processors have: a look-up without an answer takes many seconds.
    private static let threads: NIOThreadPool = {
        let threads = NIOThreadPool(numberOfThreads: Limits.lookUpsMax)
        threads.start()
        return threads
    }()

    private struct Unknown: Error {}

    private static func lookUp(_ host: String) throws -> [NetworkAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0, let list else { throw Unknown() }
        defer { freeaddrinfo(list) }
        var found: [NetworkAddress] = []
        for entry in sequence(first: list, next: { $0.pointee.ai_next }) {
            guard let address = entry.pointee.ai_addr else { continue }
            let bytes: [UInt8]? =
                switch Int32(address.pointee.sa_family) {
                case AF_INET:
                    address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { pointer in
                        withUnsafeBytes(of: pointer.pointee.sin_addr) { Array($0) }
                    }
                case AF_INET6:
                    address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { pointer in
                        withUnsafeBytes(of: pointer.pointee.sin6_addr) { Array($0) }
                    }
                default: nil
                }
            if let bytes, let address = NetworkAddress(bytes: bytes), !found.contains(address) { found.append(address) }
        }
        return found
    }
}
