import Testing

@testable import Console

@Suite("HTML is escaped by construction")
struct HTMLWriterTests {
    private static func written(_ content: (inout HTMLWriter) -> Void) -> String {
        var html = HTMLWriter()
        content(&html)
        return String(decoding: html.bytes, as: UTF8.self)
    }

    @Test(
        "text and attribute values cannot end their place",
        arguments: [
            "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'><svg/onload=alert(1)>",
            "</title><script>", "&lt;b&gt;", "{{constructor}}",
        ])
    func canaries(_ canary: String) {
        let text = Self.written { $0.element("p", text: canary) }
        let attribute = Self.written { $0.element("a", [.href(Address("x")), .text(.label, canary)]) { _ in } }

        for written in [text, attribute] {
            #expect(written.count { $0 == "<" } == 2, "\(written)")
            #expect(written.count { $0 == ">" } == 2, "\(written)")
        }
        #expect(attribute.count { $0 == "\"" } == 4, "\(attribute)")
        #expect(!attribute.contains("'"))
    }

    @Test("an ampersand is escaped once, and control characters are replaced")
    func ampersands() {
        #expect(Self.written { $0.text("&amp;\u{0}\u{1B}\n") } == "&amp;amp;\u{FFFD}\u{FFFD}\n")
    }

    @Test(
        "no id leads out of the console",
        arguments: [
            ("javascript:alert(1)", "/console/customers/javascript%3Aalert%281%29"),
            ("..", "/console/customers/%2E%2E"),
            (".", "/console/customers/%2E"), ("//evil.example", "/console/customers/%2F%2Fevil.example"),
            ("a b&c=d#e?f", "/console/customers/a%20b%26c%3Dd%23e%3Ff"), ("ü", "/console/customers/%C3%BC"),
        ])
    func addresses(_ id: String, _ expected: String) {
        #expect(Address("customers", id).text == expected)
    }

    @Test("a parameter is replaced, or removed")
    func parameters() {
        let address = Address("events").with("after", "1").with("stream", "a&b").with("after", "2")

        #expect(address.text == "/console/events?stream=a%26b&after=2")
        #expect(address.with("after", nil).text == "/console/events?stream=a%26b")
        #expect(address.withoutQuery.at("x y").text == "/console/events#x%20y")
    }

    @Test(
        "coordinates have at most one decimal, also below zero",
        arguments: [(1.0, "1"), (0.25, "0.3"), (-0.26, "-0.3")])
    func numbers(_ value: Double, _ expected: String) {
        #expect(Self.written { $0.void("rect", [.number(.x, value)]) } == "<rect x=\"\(expected)\">")
    }
}
