import Encoding
import Readers

/// Where the stores' reports and the ledger differ, the largest difference first.
package struct ReportsPage: ConsolePage {
    package let result: Result<ReportComparison, FigureFailure>
    /// As `2026-11`; nil for all.
    package let month: String?
    package let address: Address

    package init(result: Result<ReportComparison, FigureFailure>, month: String?, address: Address) {
        self.result = result
        self.month = month
        self.address = address
    }

    package var title: String { "Store reports" }
    package var section: ConsoleSection? { .figures }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }

    package var tables: [ConsoleTable] {
        guard case .success(let found) = result else { return [] }
        return [Self.reasons(found), differences(found), Self.imported(found)]
    }

    private static func reasons(_ found: ReportComparison) -> ConsoleTable {
        ConsoleTable(
            "reasons", caption: "Differences by reason",
            columns: [.init("Reason"), .init("What it means"), .init("Number", isNumber: true)],
            rows: found.reasons.map { reason, count in
                [.text(words(reason)), .optional(meaning(of: reason)), .number(count)]
            },
            empty: found.imported.isEmpty
                ? "No report is imported, so nothing is compared." : "None: the reports and the ledger agree.",
            rowsMax: max(found.reasons.count, 1))
    }

    private func differences(_ found: ReportComparison) -> ConsoleTable {
        let all = found.reasons.reduce(0) { $0 + $1.count }
        let shown = Int64(found.differences.count)
        return ConsoleTable(
            "differences",
            caption: all > shown ? "The \(shown.grouped) largest of \(all.grouped) differences" : "The largest first",
            columns: [
                .init("Day"), .init("Report"), .init("Product"), .init("Country"), .init("Event"),
                .init("Reported units", isNumber: true), .init("Ours", isNumber: true),
                .init("Reported amount", isNumber: true), .init("Ours", isNumber: true), .init("Currency"),
                .init("Reason"), .init("Order"), .init("Lines of the files"), .init("Our purchases"),
            ],
            rows: found.differences.map(row), empty: "None.", sql: found.sql)
    }

    private func row(_ difference: ReportComparison.Difference) -> [ConsoleTable.Cell] {
        [
            .text(difference.day), .text(Self.words(difference.report)), .optional(difference.productId),
            .optional(difference.country), .text(difference.event), .text(difference.reportedUnits),
            .text(difference.ourUnits), .text(FigurePage.amount(difference.reportedAmount, difference.currency)),
            .optional(difference.ourAmount.map { FigurePage.amount($0, difference.currency) }),
            .optional(difference.currency), .text(Self.words(difference.reason)), .optional(difference.orderId),
            .text(Self.list(difference.lines)), purchases(difference.purchases),
        ]
    }

    /// Each leads to its customer or order.
    private func purchases(_ ids: [String]) -> ConsoleTable.Cell {
        guard !ids.isEmpty else { return .empty }
        return .links(
            ids.map { .init(text: $0, address: Address("search").with("stream", stream).with("q", $0)) })
    }

    private static let linesMax = 3

    private static func list(_ lines: [String]) -> String {
        let rest = lines.count - linesMax
        return lines.prefix(linesMax).joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
    }

    private static func imported(_ found: ReportComparison) -> ConsoleTable {
        ConsoleTable(
            "imported", caption: "What is imported",
            columns: [.init("Report"), .init("Files", isNumber: true), .init("First day"), .init("Last day")],
            rows: found.imported.map {
                [.text(words($0.kind)), .number($0.files), .text($0.firstDay), .text($0.lastDay)]
            },
            empty: "Nothing yet: download reports at the stores, and run subledger report import FILE.")
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element(
            "p",
            text: "What the stores report as sold and refunded, beside what the ledger has for the same days, in "
                + "production. Apple’s days are those of Pacific Time.")
        html.element("form", [.action(address.withoutQuery), .class("filters")]) { html in
            if let stream { html.hidden("stream", stream) }
            html.element("label") { html in
                html.text("Month")
                html.void("input", [.text(.name, "month"), .text(.type, "month"), .text(.value, month ?? "")])
            }
            html.element("button", text: "Show")
            html.link("All months", address.withoutQuery.with("stream", stream))
        }
        if case .failure(let failure) = result {
            html.element(
                "p", [.class("problem")],
                text: failure.tookTooLong
                    ? "This takes longer than five seconds. Choose a month, or use subledger report differences."
                    : "The database does not answer now. The query is:")
            html.element("pre", [.text(.tabindex, "0"), .text(.role, "region"), .text(.label, "SQL")]) {
                $0.element("code", text: failure.sql)
            }
        }
        for table in tables { table.write(on: address, to: &html) }
    }

    private static func words(_ name: String) -> String {
        let text = name.replacing("_", with: " ")
        for store in ["apple", "google"] where text.hasPrefix("\(store) ") {
            return store.prefix(1).uppercased() + text.dropFirst()
        }
        return text
    }

    /// Nil for a reason that this version does not know.
    private static func meaning(of reason: String) -> String? {
        switch reason {
        case "unknown_product": "No event of the log has the product: its app is not connected, or it was sold before."
        case "unknown_order": "Google reports an order that no event shows."
        case "not_reported": "The order is missing in a report of its day."
        case "not_reported_yet":
            "The same in the last days of the report: three of Google’s, seven of Apple’s, or 45 until it is settled."
        case "reported_twice": "The report has the order more than once."
        case "other_product", "other_country", "other_currency", "other_amount":
            "Both have it, and differ in this."
        case "neighbouring_day":
            "The day before or after differs by as much in the other direction: processed around midnight, or another "
                + "time zone."
        case "settled_later":
            "Apple reports it within seven days after the purchase; the row of that day has the same reason."
        case "unknown_country":
            "A receipt or version 1 alone reported a purchase, without its country; the units of all countries agree."
        case "other_month": "A refund that is reported in another month."
        case "undated":
            "A refund of some of several seats, of which Apple states no date: reported after the purchase, and before the "
                + "ledger learned of it."
        case "time_of_day":
            "Within eight hours of the end of the day, as many subscriptions were in the state as the report has."
        case "other_state": "The report counts them in another state; the subscriptions of all states agree."
        case "restated": "An earlier file of the same name agreed."
        case "unexplained": "None of the others: look at the purchases of the row."
        default: nil
        }
    }
}
