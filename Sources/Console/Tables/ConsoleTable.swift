import Encoding

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
        case number(Int64)
        case time(Instant)
        case link(String, Address)
        case links([Link])
        case empty

        package struct Link: Sendable {
            let text: String
            let address: Address
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

    package init(
        _ name: String, caption: String, columns: [Column], rows: [[Cell]], empty: String, sql: String? = nil
    ) {
        self.name = name
        self.caption = caption
        self.columns = columns
        self.rows = rows
        self.empty = empty
        self.sql = sql
    }
}

extension ConsoleTable {
    /// - Parameter page: The address of the table's page, with its filters.
    func write(on page: Address, to html: inout HTMLWriter) {
        html.element("div", [.class("table")]) { html in
            html.element("div", [.class("caption")]) { html in
                html.element("h2", [.text(.id, "\(name)-caption")], text: caption)
                if !rows.isEmpty { html.link("CSV", page.with("csv", name), [.text(.label, "\(caption) as CSV")]) }
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
                        for row in rows { write(row, to: &html) }
                    }
                }
            }
        }
    }

    private func write(_ row: [Cell], to html: inout HTMLWriter) {
        html.element("tr") { html in
            for (cell, column) in zip(row, columns) {
                html.element("td", column.isNumber ? [.class("number")] : []) { html in
                    switch cell {
                    case .text(let text): html.text(text)
                    case .code(let text): html.element("code", text: text)
                    case .number(let number): html.text(number.grouped)
                    case .time(let instant): html.time(instant)
                    case .link(let text, let address): html.link(text, address)
                    case .links(let links):
                        for (index, link) in links.enumerated() {
                            if index > 0 { html.text(" ") }
                            html.link(link.text, link.address)
                        }
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
                    case .text(let text), .code(let text), .link(let text, _): Self.field(Self.inert(text))
                    case .number(let number): "\(number)"
                    case .time(let instant): instant < .latest ? instant.description : ""
                    case .links(let links): Self.field(Self.inert(links.map(\.text).joined(separator: " ")))
                    case .empty: ""
                    }
                }.joined(separator: ","))
        }
        return lines.map { $0 + "\r\n" }.joined()
    }

    private static func inert(_ text: String) -> String {
        guard let first = text.utf8.first, "=+-@\t\r".utf8.contains(first) else { return text }
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
