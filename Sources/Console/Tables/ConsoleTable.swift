import Encoding
import Readers

/// A table of a page, which is also available as CSV and as the SQL that reads its rows.
package struct ConsoleTable: Sendable {
    package struct Column: Sendable {
        let title: String
        let isNumber: Bool

        package init(_ title: String, isNumber: Bool = false) {
            self.title = title
            self.isNumber = isNumber
        }
    }

    package enum Cell: Sendable {
        case text(String)
        /// An id or other exact text.
        case code(String)
        /// A product's id with its name; the id alone if it has none. The CSV has the id.
        case product(String, name: String?)
        case number(Int64)
        case time(Instant)
        case link(String, Address)
        case links([Link])
        /// A link that ends a phrase.
        case phrase(String, Link)
        case empty

        package struct Link: Sendable {
            let text: String
            let address: Address
        }

        static func product(_ id: String?, _ names: ProductNames) -> Cell {
            id.map { .product($0, name: names[$0]) } ?? .empty
        }

        package static func optional(_ text: String?) -> Cell { text.map { .text($0) } ?? .empty }
        package static func optional(_ time: Instant?) -> Cell { time.map { .time($0) } ?? .empty }
        package static func optional(_ number: Int64?) -> Cell { number.map { .number($0) } ?? .empty }
    }

    /// The name in the address of its CSV, and of that file.
    package let name: String
    let caption: String
    let columns: [Column]
    package private(set) var rows: [[Cell]]
    /// What to say if there are no rows.
    let empty: String
    /// The query that reads the rows; nil if no single one does.
    let sql: String?
    /// Most rows on one page; the CSV has all.
    let rowsMax: Int
    /// Whether its CSV has an address. The answer to a form has none.
    let hasFile: Bool

    /// A page with five tables of these, their links and a picture has less than 100 KB.
    package static let rowsMax = 25
    /// Most links in one cell on a page.
    private static let linksMax = 4

    package init(
        _ name: String, caption: String, columns: [Column], rows: [[Cell]], empty: String, sql: String? = nil,
        rowsMax: Int = Self.rowsMax, hasFile: Bool = true
    ) {
        self.name = name
        self.caption = caption
        self.columns = columns
        self.rows = rows
        self.empty = empty
        self.sql = sql
        self.rowsMax = rowsMax
        self.hasFile = hasFile
    }
}

extension ConsoleTable {
    /// - Parameter page: The address of the table's page, with its filters.
    func write(on page: Address, to html: inout HTMLWriter) {
        html.element("div", [.class("table")]) { html in
            html.element("div", [.class("caption")]) { html in
                html.element("h2", [.text(.id, "\(name)-caption")], text: caption)
                if !rows.isEmpty, hasFile {
                    html.link(
                        "CSV", page.with("skip", nil).with("csv", name), [.text(.label, "\(caption) as CSV")])
                }
                if let sql { Self.write(sql: sql, of: caption, to: &html) }
            }
            guard !rows.isEmpty else {
                html.element("p", [.class("empty")], text: empty)
                return
            }
            let scroll: [Attribute] = [
                .class("scroll"), .text(.tabindex, "0"), .text(.role, "region"),
                .text(.labelledby, "\(name)-caption"),
            ]
            html.element("div", scroll) { html in
                html.element("table") { html in
                    html.element("thead") { html in
                        html.element("tr") { html in
                            for column in columns {
                                html.element(
                                    "th", [.text(.scope, "col")] + (column.isNumber ? [.class("number")] : []),
                                    text: column.title)
                            }
                        }
                    }
                    html.element("tbody") { html in
                        for row in rows[shown(on: page)] { write(row, to: &html) }
                    }
                }
            }
            writePages(page, to: &html)
        }
    }

    /// The rows that the page shows: its parameter `skip` is the name of a table and the number of rows before them.
    private func shown(on page: Address) -> Range<Int> {
        let skip = page.query.first { $0.name == "skip" }?.value ?? ""
        let asked = skip.hasPrefix("\(name).") ? Int(skip.dropFirst(name.utf8.count + 1)) ?? 0 : 0
        let first = min(max(asked, 0), max(rows.count - 1, 0)) / rowsMax * rowsMax
        return first..<min(first + rowsMax, rows.count)
    }

    private func writePages(_ page: Address, to html: inout HTMLWriter) {
        guard rows.count > rowsMax else { return }
        let shown = shown(on: page)
        func address(_ first: Int) -> Address {
            page.with("skip", first > 0 ? "\(name).\(first)" : nil).at("\(name)-caption")
        }
        html.element("nav", [.class("pages"), .text(.label, "Pages of \(caption)")]) { html in
            if shown.lowerBound > 0 {
                html.link("Previous", address(shown.lowerBound - rowsMax), [.text(.rel, "prev")])
            }
            if shown.upperBound < rows.count { html.link("Next", address(shown.upperBound), [.text(.rel, "next")]) }
            html.element(
                "span", [.class("muted")],
                text: "Rows \(Int64(shown.lowerBound + 1).grouped) to \(Int64(shown.upperBound).grouped) "
                    + "of \(Int64(rows.count).grouped)")
        }
    }

    private func write(_ row: [Cell], to html: inout HTMLWriter) {
        html.element("tr") { html in
            for (cell, column) in zip(row, columns) {
                html.element("td", column.isNumber ? [.class("number")] : []) { html in
                    switch cell {
                    case .text(let text): html.text(text)
                    case .code(let text): html.id(text)
                    case .product(let id, let name): html.product(id, name: name)
                    case .number(let number): html.text(number.grouped)
                    case .time(let instant): html.cell(instant)
                    case .link(let text, let address): html.idLink(text, address)
                    case .links(let links):
                        for (index, link) in links.prefix(Self.linksMax).enumerated() {
                            if index > 0 { html.text(" ") }
                            html.idLink(link.text, link.address)
                        }
                        let more = Int64(links.count - Self.linksMax)
                        if more > 0 { html.element("span", [.class("muted")], text: " and \(more.grouped) more") }
                    case .phrase(let text, let link):
                        html.text("\(text) ")
                        html.idLink(link.text, link.address)
                    case .empty: html.element("span", [.class("muted"), .text(.label, "none")], text: "–")
                    }
                }
            }
        }
    }

    static func write(sql: String, of caption: String, to html: inout HTMLWriter) {
        html.element("details", [.class("sql")]) { html in
            html.element("summary", [.text(.label, "\(caption) as SQL")], text: "SQL")
            html.element("pre", [.text(.tabindex, "0"), .text(.label, "SQL of \(caption)"), .text(.role, "region")]) {
                $0.element("code", text: sql)
            }
        }
    }
}

extension ConsoleTable {
    /// The rows as CSV. Texts that a spreadsheet would run as a formula begin with an apostrophe.
    ///
    /// - Source: RFC 4180; OWASP, "CSV Injection".
    package var csv: String {
        var lines = [columns.map { Self.field($0.title) }.joined(separator: ",")]
        for row in rows {
            lines.append(
                row.map { cell in
                    switch cell {
                    case .text(let text), .code(let text), .link(let text, _), .product(let text, _):
                        Self.field(Self.inert(text))
                    case .number(let number): "\(number)"
                    case .time(let instant): instant < .latest ? instant.description : ""
                    case .links(let links): Self.field(Self.inert(links.map(\.text).joined(separator: " ")))
                    case .phrase(let text, let link): Self.field(Self.inert("\(text) \(link.text)"))
                    case .empty: ""
                    }
                }.joined(separator: ","))
        }
        return lines.map { $0 + "\r\n" }.joined()
    }

    private static func inert(_ text: String) -> String {
        // The full-width forms are converted by some spreadsheets.
        guard let first = text.unicodeScalars.first, "=+-@\t\r\n＝＋－＠".unicodeScalars.contains(first) else {
            return text
        }
        return "'" + text
    }

    private static func field(_ text: String) -> String {
        guard text.utf8.contains(where: { ",\"\r\n".utf8.contains($0) }) else { return text }
        return "\"\(text.replacing("\"", with: "\"\""))\""
    }
}

extension Int64 {
    /// `1 234 567`, with narrow spaces.
    package var grouped: String {
        let digits = String(magnitude)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text.append("\u{202F}") }
            text.append(digit)
        }
        return self < 0 ? "−\(text)" : text
    }
}
