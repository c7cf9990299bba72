import Encoding
import Readers

/// Who would gain access and who would lose it if reads were switched from another service to this log.
package struct ComparePage: ConsolePage {
    /// What a comparison found; nil before the first.
    package let result: Result?
    /// Why a file was not compared; nil if there is nothing to say.
    package let problem: String?
    /// What the form has.
    package let tolerance: Int
    package let address: Address

    package struct Result: Sendable {
        package let summary: AccessComparison.Summary
        /// The first ones.
        package let differences: [AccessDifference]
        package let at: Instant

        package init(summary: AccessComparison.Summary, differences: [AccessDifference], at: Instant) {
            self.summary = summary
            self.differences = differences
            self.at = at
        }
    }

    package init(result: Result?, problem: String?, tolerance: Int, address: Address) {
        self.result = result
        self.problem = problem
        self.tolerance = tolerance
        self.address = address
    }

    package var title: String { "Compare access" }
    package var section: ConsoleSection? { .system }

    package var tables: [ConsoleTable] { result.map { [Self.reasons($0), differences($0)] } ?? [] }

    private static func reasons(_ result: Result) -> ConsoleTable {
        let kinds = AccessDifference.Kind.allCases
        let counts = kinds.flatMap { kind in
            result.summary.reasons.filter { $0.key.kind == kind }.sorted {
                ($1.value, $0.key.rule) < ($0.value, $1.key.rule)
            }
        }
        return ConsoleTable(
            "reasons", caption: "Differences by reason",
            columns: [.init("Difference"), .init("Reason"), .init("Number", isNumber: true)],
            rows: counts.map { reason, count in
                [.text(reason.kind.words), .text(reason.rule.replacing("_", with: " ")), .number(Int64(count))]
            }, empty: "No difference: both answer the same about every customer of the file.",
            rowsMax: max(counts.count, 1), hasFile: false)
    }

    private func differences(_ result: Result) -> ConsoleTable {
        let stream = address.query.first { $0.name == "stream" }?.value
        return ConsoleTable(
            "differences", caption: "Customers",
            columns: [
                .init("Customer"), .init("Entitlement"), .init("Difference"), .init("There"), .init("Here"),
                .init("Why it is so here"),
            ],
            rows: result.differences.map { difference in
                [
                    difference.isUnknown
                        ? .code(difference.customerId)
                        : .link(
                            difference.customerId,
                            Address("customers", difference.customerId).with("stream", stream).with(
                                "at", result.at.description)),
                    .text(difference.entitlement), .text(difference.kind.words),
                    .text(difference.thereWords), .text(Self.words(difference.here != nil, difference.here)),
                    .optional(difference.explanation),
                ]
            }, empty: "None.", rowsMax: max(result.differences.count, 1), hasFile: false)
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        if let problem { html.element("p", [.class("problem")], text: problem) }
        if let result { write(result, to: &html) }
        html.element("section", [.text(.labelledby, "compare")]) { html in
            html.element("h2", [.text(.id, "compare")], text: "What the other service answers")
            html.element(
                "p",
                text: "A file with the columns customerId, entitlement, active and until, or JSON lines with these "
                    + "members, the rows of a customer together. Nothing of it is stored. Larger files are for the "
                    + "command subledger compare-access.")
            frame.form(Address("compare"), hasFile: true, to: &html) { html in
                html.element("label") { html in
                    html.text("File")
                    html.void("input", [.text(.name, "file"), .text(.type, "file")])
                }
                html.field("at", "At (UTC); now if empty", isRequired: false)
                html.element("label") { html in
                    html.text("Ends may differ by seconds")
                    html.void(
                        "input",
                        [
                            .text(.name, "tolerance"), .text(.type, "text"), .text(.value, "\(tolerance)"),
                            .text(.autocomplete, "off"),
                        ])
                }
                html.element("label", [.class("wide")]) { html in
                    html.text("Or its text")
                    html.element("textarea", [.text(.name, "text"), .text(.rows, "8")], text: "")
                }
                html.element("button", [.class("primary")], text: "Compare")
            }
        }
    }

    private func write(_ result: Result, to html: inout HTMLWriter) {
        let summary = result.summary
        html.element("dl", [.class("tiles")]) { html in
            let same = summary.compared - summary.different
            var tiles: [(String, Int)] = [("Customers", summary.customers), ("The same", same)]
            tiles += AccessDifference.Kind.allCases.map { ($0.title, summary.differences[$0] ?? 0) }
            for (title, number) in tiles { html.item(title) { $0.text(Int64(number).grouped) } }
        }
        html.element("p", [.class("muted")]) { html in
            html.text("Compared at ")
            html.time(result.at)
            html.text(". Customers whom the file does not have are not compared.")
        }
        for table in tables { table.write(on: address, to: &html) }
        guard summary.different > result.differences.count else { return }
        html.element(
            "p", [.class("note")],
            text: "\(Int64(summary.different - result.differences.count).grouped) more differences are counted and "
                + "not listed: the command subledger compare-access lists all.")
    }

    fileprivate static func words(_ active: Bool, _ until: Instant?) -> String {
        guard active else { return "no access" }
        guard let until else { return "access" }
        return until == .latest ? "access without an end" : "access until \(until.shortText)"
    }
}

extension AccessDifference {
    fileprivate var isUnknown: Bool { reason == Self.unknownCustomer }

    fileprivate var thereWords: String {
        there.map { ComparePage.words($0.active, $0.until) } ?? "not in the file"
    }
}

extension AccessDifference.Kind {
    fileprivate var title: String {
        switch self {
        case .gains: "Would gain access"
        case .loses: "Would lose access"
        case .later: "Would end later"
        case .earlier: "Would end earlier"
        }
    }

    fileprivate var words: String {
        switch self {
        case .gains: "would gain access"
        case .loses: "would lose access"
        case .later: "access would end later"
        case .earlier: "access would end earlier"
        }
    }
}
