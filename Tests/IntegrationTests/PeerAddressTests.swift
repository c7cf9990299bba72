import NIOCore
import Testing

@testable import HTTPServer

@Suite("Addresses that count as one sender")
struct PeerAddressTests {
    private func peer(_ text: String) throws -> PeerAddress {
        PeerAddress(try SocketAddress(ipAddress: text, port: 1))
    }

    @Test("an IPv4 address equals its IPv4-mapped IPv6 address")
    func version4() throws {
        #expect(try peer("192.0.2.1") == peer("::ffff:192.0.2.1"))
        #expect(try peer("192.0.2.1") != peer("192.0.2.2"))
        #expect(try peer("0.0.0.0") != peer("::"))
    }

    @Test("IPv6 addresses in the same /64 network are equal")
    func version6() throws {
        #expect(try peer("2001:db8:0:1::1") == peer("2001:db8:0:1:ffff::2"))
        #expect(try peer("2001:db8:0:1::1") != peer("2001:db8:0:2::1"))
    }
}
