/// Shares of cohorts by months since their start: one row a cohort, one cell a month, each a link.
struct HeatMap {
    struct Cell {
        let column: Int
        let active: Int64
        let reached: Int64
    }

    let name: String
    let rows: [(label: String, cells: [Cell])]
    let address: (_ row: Int) -> Address

    private static let left = 84.0
    private static let height = 30.0

    func write(to html: inout HTMLWriter) {
        let columns = (rows.flatMap { $0.cells.map(\.column) }.max() ?? 0) + 1
        let width = min(max((1000 - Self.left) / Double(columns), 34), 90)
        let whole = (Self.left + width * Double(columns), Self.height * Double(rows.count) + 24)
        let attributes: [Attribute] = [
            .text(.viewBox, "0 0 \(Int(max(whole.0, 640).rounded(.up))) \(Int(whole.1))"), .text(.role, "group"),
            .text(.label, name), .text(.xmlns, "http://www.w3.org/2000/svg"),
        ]
        html.element("div", [.class("draw")]) { html in
            html.element("svg", attributes) { html in
                for column in 0..<columns {
                    html.element(
                        "text",
                        [
                            .number(.x, Self.left + (Double(column) + 0.5) * width), .number(.y, 16),
                            .text(.anchor, "middle"), .class("small"),
                        ], text: "\(column)")
                }
                for (index, row) in rows.enumerated() {
                    let y = 24 + Double(index) * Self.height
                    html.element(
                        "text", [.number(.x, 4), .number(.y, y + 20), .class("small")], text: row.label)
                    for cell in row.cells where cell.reached > 0 {
                        let share = Double(cell.active) / Double(cell.reached)
                        let words = "\(row.label), month \(cell.column): \(cell.active) of \(cell.reached)"
                        let x = Self.left + Double(cell.column) * width
                        html.element("a", [.href(address(index)), .text(.label, words)]) { html in
                            html.element("title", text: words)
                            html.element(
                                "rect",
                                [
                                    .number(.x, x), .number(.y, y), .number(.width, width - 2),
                                    .number(.height, Self.height - 2), .class("heat"),
                                    // Weak enough for dark and light text on it.
                                    .text(.opacity, "0.\(Int(share * 45) < 10 ? "0" : "")\(Int(share * 45))"),
                                ]
                            ) { _ in }
                            html.element(
                                "text",
                                [
                                    .number(.x, x + width / 2 - 1), .number(.y, y + 19), .text(.anchor, "middle"),
                                    .class("heat-text"),
                                ], text: "\(Int((share * 100).rounded()))")
                        }
                    }
                }
            }
        }
    }
}
