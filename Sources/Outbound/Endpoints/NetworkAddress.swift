import Foundation

/// An IPv4 or IPv6 address.
package struct NetworkAddress: Sendable, Hashable, CustomStringConvertible {
    /// 4 or 16.
    package let bytes: [UInt8]

    /// Reads an address in the usual form, without brackets and zone; nil for anything else.
    package init?(_ text: String) {
        var four = in_addr()
        var six = in6_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = withUnsafeBytes(of: four) { Array($0) }
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            bytes = withUnsafeBytes(of: six) { Array($0) }
        } else {
            return nil
        }
    }

    package init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    package var description: String {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        _ = bytes.withUnsafeBytes { inet_ntop(family, $0.baseAddress, &buffer, socklen_t(buffer.count)) }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Whether the address can belong to a host of the public internet. False for addresses that are private, loopback,
    /// link-local, shared, reserved, multicast or for documentation (RFC 6890), and for IPv6 addresses that contain such an
    /// IPv4 address.
    package var isPublic: Bool {
        if bytes.count == 4 { return !Self.reservedIPv4.contains { Self.contains($0, bytes) } }
        // Mapped, compatible, translated and 6to4 addresses lead to the IPv4 address in them.
        if let embedded = embeddedIPv4 { return NetworkAddress(bytes: embedded)?.isPublic ?? false }
        // Only 2000::/3 is assigned to the public internet.
        guard bytes[0] & 0xE0 == 0x20 else { return false }
        return !Self.reservedIPv6.contains { Self.contains($0, bytes) }
    }

    private var embeddedIPv4: [UInt8]? {
        if bytes[0..<12].elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]) { return Array(bytes[12...]) }
        if bytes[0..<12].allSatisfy({ $0 == 0 }), !bytes[12..<15].allSatisfy({ $0 == 0 }) { return Array(bytes[12...]) }
        if bytes[0..<12].elementsEqual([0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0]) { return Array(bytes[12...]) }
        if bytes[0] == 0x20, bytes[1] == 0x02 { return Array(bytes[2..<6]) }
        return nil
    }

    private static func contains(_ network: (bytes: [UInt8], bits: Int), _ address: [UInt8]) -> Bool {
        for bit in 0..<network.bits {
            let mask = UInt8(0x80) >> UInt8(bit % 8)
            let own = bit / 8 < network.bytes.count ? network.bytes[bit / 8] : 0
            if own & mask != address[bit / 8] & mask { return false }
        }
        return true
    }

    private static let reservedIPv4: [(bytes: [UInt8], bits: Int)] = [
        ([0], 8), ([10], 8), ([100, 64], 10), ([127], 8), ([169, 254], 16), ([172, 16], 12), ([192, 0, 0], 24),
        ([192, 0, 2], 24), ([192, 88, 99], 24), ([192, 168], 16), ([198, 18], 15), ([198, 51, 100], 24),
        ([203, 0, 113], 24), ([224], 4), ([240], 4),
    ]
    /// Within 2000::/3: Teredo and other protocol assignments, documentation.
    private static let reservedIPv6: [(bytes: [UInt8], bits: Int)] = [
        ([0x20, 0x01, 0x00], 23), ([0x20, 0x01, 0x0D, 0xB8], 32), ([0x3F, 0xFF, 0x00], 20),
    ]
}
