import Encoding
import Testing

@testable import Console

@Suite("Tables are the same in HTML and CSV")
struct ConsoleTableTests {
    private static func table(_ cells: [ConsoleTable.Cell]) -> ConsoleTable {
        ConsoleTable(
            "t", caption: "T", columns: cells.map { _ in .init("A") }, rows: [cells], empty: "None.", sql: "select 1;")
    }

    @Test(
        "a text that a spreadsheet would run begins with an apostrophe; numbers do not",
        arguments: ["=1+1", "+1", "-1", "@sum", "\tx", "＝1+1", "＋1", "－1", "＠sum"])
    func formulas(_ text: String) {
        #expect(Self.table([.text(text), .number(-1)]).csv == "A,A\r\n'\(text),-1\r\n")
    }

    @Test("a text that begins with a line end is quoted and begins with an apostrophe")
    func lineEnd() {
        #expect(Self.table([.text("\n=1+1")]).csv == "A\r\n\"'\n=1+1\"\r\n")
    }

    @Test("quotes, commas and line ends are quoted")
    func quotes() {
        #expect(Self.table([.text("a,\"b\"\nc"), .empty]).csv == "A,A\r\n\"a,\"\"b\"\"\nc\",\r\n")
    }

    @Test("no end is empty in CSV, and said in HTML")
    func ends() throws {
        let table = Self.table([.time(.latest)])
        var html = HTMLWriter()
        table.write(on: Address(), to: &html)

        #expect(table.csv == "A\r\n\r\n")
        #expect(String(decoding: html.bytes, as: UTF8.self).contains("<td>no end</td>"))
    }

    @Test("an id longer than a UUID is narrow in a table, with all of it in its text and its title")
    func longIDs() {
        func html(_ id: String) -> String {
            var html = HTMLWriter()
            Self.table([.link(id, Address()), .code(id)]).write(on: Address(), to: &html)
            return String(decoding: html.bytes, as: UTF8.self)
        }
        let uuid = "8fae12ab-0000-4000-8000-000000000001"
        let token = String(repeating: "a", count: 144)

        #expect(html("grant:\(uuid)").contains(" class=\"long\" title=\"grant:\(uuid)\">grant:\(uuid)</a>"))
        #expect(html("grant:\(uuid)").contains("<code class=\"long\" title=\"grant:\(uuid)\">grant:\(uuid)</code>"))
        #expect(html(uuid).contains("<code>\(uuid)</code>") && !html(uuid).contains("class=\"long\""))
        #expect(html(token).contains("<code title=\"\(token)\">\(String(repeating: "a", count: 24))…</code>"))
    }

    @Test("a time in a sentence names its zone; a table has it short, and its CSV in full")
    func times() throws {
        let instant = try #require(Instant(iso8601: "2026-10-03T03:44:10Z"))
        let table = Self.table([.time(instant)])
        var html = HTMLWriter()
        html.time(instant)
        table.write(on: Address(), to: &html)
        let written = String(decoding: html.bytes, as: UTF8.self)

        #expect(written.contains(">3 Oct 2026 03:44:10 UTC</time>"), "\(written)")
        #expect(written.contains(">2026-10-03 03:44:10</time></td>"), "\(written)")
        #expect(table.csv.contains("2026-10-03T03:44:10"))
    }

    @Test(
        "numbers are grouped",
        arguments: [(0, "0"), (999, "999"), (1000, "1\u{202F}000"), (-1_234_567, "−1\u{202F}234\u{202F}567")])
    func groups(_ number: Int64, _ expected: String) {
        #expect(number.grouped == expected)
    }

    @Test(
        "the distance of a time is in words",
        arguments: [
            (0, "now"), (1000, "in 1 second"), (-59_000, "59 seconds ago"), (7_200_000, "in 2 hours"),
            (-86_400_000 * 45, "1 month ago"), (86_400_000 * 800, "in 2 years"),
        ])
    func words(_ difference: Int64, _ expected: String) throws {
        let now = try #require(Instant(iso8601: "2026-10-03T03:44:10Z"))

        #expect(now.advanced(byMilliseconds: difference).words(from: now) == expected)
        #expect(now.shortText == "2026-10-03 03:44:10")
        #expect(now.longText == "3 Oct 2026 03:44")
    }
}
