import NIOCore

/// The address that identifies a sender: an IPv4 address or an IPv6 /64 network, the smallest that a provider assigns.
struct PeerAddress: Hashable, Sendable {
    private let network: UInt64
    private let isIPv6: Bool

    /// - Parameter address: Nil and UNIX socket addresses all count as the same sender.
    init(_ address: SocketAddress?) {
        switch address {
        case .v4(let address):
            self.init(v4: UInt32(bigEndian: address.address.sin_addr.s_addr))
        case .v6(let address):
            let bytes = withUnsafeBytes(of: address.address.sin6_addr) { Array($0) }
            func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
            // A listener on :: sees IPv4 addresses as ::ffff:a.b.c.d.
            if number(bytes[0..<8]) == 0, number(bytes[8..<12]) == 0xffff {
                self.init(v4: UInt32(number(bytes[12..<16])))
            } else {
                self.init(network: number(bytes[0..<8]), isIPv6: true)
            }
        case .unixDomainSocket, nil: self.init(v4: 0)
        }
    }

    private init(v4: UInt32) {
        self.init(network: UInt64(v4), isIPv6: false)
    }

    private init(network: UInt64, isIPv6: Bool) {
        self.network = network
        self.isIPv6 = isIPv6
    }
}
