import Outbound
import Testing

@Suite("URLs and addresses of endpoints")
struct EndpointURLTests {
    private func problem(_ text: String, allowsPrivate: Bool = false) -> EndpointURL.Malformed? {
        do throws(EndpointURL.Malformed) {
            _ = try EndpointURL(text, allowsPrivate: allowsPrivate)
            return nil
        } catch {
            return error
        }
    }

    @Test("https URLs of public hosts are accepted, with their host in lower case")
    func accepted() throws {
        for text in [
            "https://example.com", "https://example.com/hooks?key=1", "https://EXAMPLE.com:8443/a", "https://1.1.1.1/x",
            "https://[2606:4700::1111]/x", "https://a_b.example.com/",
        ] {
            #expect(problem(text) == nil, "\(text)")
        }
        #expect(try EndpointURL("https://EXAMPLE.com/A", allowsPrivate: false).text == "https://example.com/A")
        #expect(try EndpointURL("https://[2606:4700::1111]/x", allowsPrivate: false).host == "2606:4700::1111")
    }

    @Test("everything else is refused, and says why")
    func refused() {
        let refused: [(String, EndpointURL.Malformed)] = [
            ("http://example.com/", .scheme), ("ftp://example.com/", .scheme), ("example.com", .noURL), ("", .noURL),
            ("https://", .noURL), ("https:///x", .noURL), ("https://user@example.com/", .credentials),
            ("https://user:secret@example.com/", .credentials), ("https://example.com/#part", .fragment),
            ("https://example.com:0/", .port), ("https://exa mple.com/", .noURL), ("https://example.com/ä", .noURL),
            ("https://localhost/", .notPublic), ("https://a.LOCALHOST/", .notPublic),
            ("https://127.0.0.1/", .notPublic),
            ("https://10.0.0.1/", .notPublic), ("https://[::1]/", .notPublic),
            ("https://[::ffff:10.0.0.1]/", .notPublic),
            ("https://[fe80::1]/", .notPublic), ("https://127.1/", .noURL), ("https://2130706433/", .noURL),
            ("https://0x7f000001/", .noURL), ("https://0177.0.0.1/", .noURL),
            ("https://example.com/" + String(repeating: "a", count: 2048), .tooLong),
        ]
        for (text, expected) in refused { #expect(problem(text) == expected, "\(text)") }
    }

    @Test("with private endpoints allowed, http and local addresses are accepted")
    func allowed() {
        for text in ["http://127.0.0.1:8080/x", "http://localhost/", "https://[::1]/", "http://receiver.internal/"] {
            #expect(problem(text, allowsPrivate: true) == nil, "\(text)")
        }
        #expect(problem("ftp://example.com/", allowsPrivate: true) == .scheme)
        #expect(problem("http://user@example.com/", allowsPrivate: true) == .credentials)
    }

    @Test(
        "addresses that are not public",
        arguments: [
            "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
            "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1",
            "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1",
            "::ffff:127.0.0.1", "::ffff:192.168.0.1", "::10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2002:7f00:1::1",
            "fe80::1", "febf::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "2001::1", "100::1", "4000::1",
        ])
    func notPublic(_ text: String) throws {
        #expect(try #require(NetworkAddress(text)).isPublic == false)
    }

    @Test(
        "addresses that are public",
        arguments: [
            "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.167.1.1",
            "198.17.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e",
            "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
        ])
    func isPublic(_ text: String) throws {
        #expect(try #require(NetworkAddress(text)).isPublic)
    }

    @Test("other texts are no addresses, and addresses are written as they are read")
    func texts() {
        for text in ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "fe80::1%eth0", "[::1]", "example.com", "0x7f.0.0.1"] {
            #expect(NetworkAddress(text) == nil)
        }
        for text in ["1.2.3.4", "::1", "2606:4700::1111"] { #expect(NetworkAddress(text)?.description == text) }
    }
}
