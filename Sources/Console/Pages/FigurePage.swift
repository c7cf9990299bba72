import Encoding
import Readers

/// A figure as a chart and the same numbers as a table, or the rows that are counted at one of its points.
package struct FigurePage: ConsolePage {
    package let figure: Figure
    package let from: String
    package let to: String
    package let choice: FigureChoice
    /// The rows of one point, not the figure.
    package let isDetail: Bool
    /// Whether the span is an earlier one than the last days, which have no rows.
    package let isShifted: Bool
    package let result: Result<FigureRows, FigureFailure>
    package let now: Instant
    package let address: Address

    package init(
        figure: Figure, from: String, to: String, choice: FigureChoice, isDetail: Bool, isShifted: Bool,
        result: Result<FigureRows, FigureFailure>, now: Instant, address: Address
    ) {
        self.figure = figure
        self.from = from
        self.to = to
        self.choice = choice
        self.isDetail = isDetail
        self.isShifted = isShifted
        self.result = result
        self.now = now
        self.address = address
    }

    package var title: String {
        guard isDetail else { return figure.title }
        let only = [choice.part, choice.currency, choice.into.map { "in \($0)" }].compactMap(\.self).map { ", \($0)" }
            .joined()
        return "\(figure.title): the rows of \(from == to ? from : "\(from) to \(to)")\(only)"
    }
    package var section: ConsoleSection? { .figures }
    var stream: String? { address.query.first { $0.name == "stream" }?.value }

    package var tables: [ConsoleTable] {
        guard case .success(let found) = result else { return [] }
        return [
            ConsoleTable(
                isDetail ? "rows" : figure.rawValue,
                caption: isDetail && found.rows.count == Self.rowsMax ? cutCaption : "Numbers",
                columns: found.columns.filter(isShown).map { name in
                    .init(title(ofColumn: name), isNumber: isNumber(name))
                },
                rows: ordered(found.rows).map { row -> [ConsoleTable.Cell] in
                    let point = Point(found.columns, row, isSplit: isShown("part"))
                    return zip(found.columns, row).filter { isShown($0.0) }.map { cell($0, $1, point) }
                },
                empty: "None in this span: choose an earlier start or a later end.", sql: found.sql)
        ]
    }

    private var cutCaption: String {
        "The first \(Self.rowsMax) rows\([.mrr, .revenue, .proceeds].contains(figure) ? ", of each currency in turn" : "")"
    }

    private static let rowsMax = 500
    /// Of days and months, the last are those of interest; a cohort is read from its start. The rows of a day or month keep
    /// their order.
    private func ordered(_ rows: [[String?]]) -> [[String?]] {
        guard !isDetail, figure != .retention else { return rows }
        return rows.enumerated().sorted { left, right in
            let (day, other) = (left.element.first.flatMap(\.self) ?? "", right.element.first.flatMap(\.self) ?? "")
            return day == other ? left.offset < right.offset : day > other
        }.map(\.element)
    }

    private func cell(_ name: String, _ value: String?, _ point: Point) -> ConsoleTable.Cell {
        guard let value else { return .empty }
        switch name {
        case "original_transaction_id":
            return .link(value, Address("subscriptions", value).with("stream", stream))
        case "customer_id":
            return .link(value, Address("customers", value).with("stream", stream).with("as", point.customerKind))
        case "positions":
            let positions = value.split { "{},".contains($0) }.prefix(5)
            return .links(
                positions.map { .init(text: "\($0)", address: Address("events", "\($0)").with("stream", stream)) })
        case "day", "month", "cohort":
            return isDetail ? .text(value) : .link(value, detail(value, point))
        default:
            guard isNumber(name) else { return .text(value) }
            let text = isAmount(name) ? Self.rounded(value, point.currency) : value
            // A number of a figure of money leads to its rows, as its day does.
            guard !isDetail, figure.hasChoice, !figure.isByDay else { return .text(text) }
            return .link(text, detail(point.day, point))
        }
    }

    /// A currency as people read it. The rows have `none` where no price is known.
    static func currencyName(_ currency: String?) -> String {
        currency.flatMap { $0 == "none" ? nil : $0 } ?? "no price"
    }

    /// An amount in words of its currency, rounded to whole units if the currency has no smaller ones.
    static func amount(_ text: String, _ currency: String?) -> String {
        guard let exact = thousandths(text) else { return text }
        return words(exact, currency)
    }

    /// An amount with the digits that its currency has: one by the month is a part of a price.
    static func rounded(_ text: String, _ currency: String?) -> String {
        guard let exact = thousandths(text) else { return text }
        let unit: Int64 = Int64.hasThreeDigits(currency) ? 1 : 10
        return words(Int64((Double(exact) / Double(unit)).rounded()) * unit, currency)
    }

    /// The same, with its thousands apart as those of counts are. Not for files.
    static func grouped(_ text: String, _ currency: String?) -> String {
        let amount = rounded(text, currency)
        let parts = amount.split(separator: ".", maxSplits: 1)
        guard let whole = parts.first.flatMap({ Int64($0) }) else { return amount }
        return whole.grouped + (parts.count > 1 ? ".\(parts[1])" : "")
    }

    private static func words(_ exact: Int64, _ currency: String?) -> String {
        let currency = currency == "none" ? nil : currency
        let rounded = (Double(exact) / 1000).rounded() * 1000
        return (exact.amount(in: currency).contains(".") && Int64.hasNoMinorUnit(currency) ? Int64(rounded) : exact)
            .amount(in: currency)
    }

    private static func thousandths(_ text: String) -> Int64? {
        guard let value = Double(text), abs(value) < 1e12 else { return nil }
        return Int64((value * 1000).rounded())
    }

    /// The rows that are counted on a day, or in a month.
    func detail(_ day: String, _ point: Point? = nil) -> Address {
        let rows = Address("figures", figure.rawValue).with("stream", stream).with("rows", "yes")
        // A converted number has no row without a rate behind it.
        let isConverted = choice.currency != nil && point?.currency == choice.currency
        return rows.with("from", day).with("currency", isConverted ? nil : point?.currency)
            .with("into", isConverted ? choice.currency : nil)
            .with("by", point?.part == nil ? nil : choice.by?.rawValue).with("part", point?.part)
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("ul", [.class("tabs")]) { html in
            for each in Figure.allCases {
                html.element("li") { html in
                    html.link(
                        each.title, frame.here(Address("figures", each.rawValue)),
                        each == figure ? [.text(.current, "page")] : [])
                }
            }
            html.element("li") { $0.link("Store reports", frame.here(Address("reports"))) }
        }
        html.element("p", text: figure.definition)
        writeSpan(to: &html)
        if isShifted {
            html.element(
                "p", [.class("note")],
                text: "Nothing in the last days: this span ends with the day of the latest event, \(to).")
        }
        switch result {
        case .failure(let failure):
            html.element(
                "p", [.class("problem")],
                text: failure.tookTooLong
                    ? "This takes longer than five seconds. Run the query as an analyst instead:"
                    : "The database does not answer now. The query is:")
            html.element("pre", [.text(.tabindex, "0"), .text(.role, "region"), .text(.label, "SQL")]) {
                $0.element("code", text: failure.sql)
            }
        case .success(let found):
            if !isDetail, !found.rows.isEmpty { writeChart(found, to: &html) }
            html.element("p", [.class("muted")]) { html in
                html.text("Read at ")
                html.time(found.madeAt)
                html.text("; if that takes long, a minute passes before it is read again.")
                if isDetail {
                    html.link(" The whole figure", Address("figures", figure.rawValue).with("stream", stream))
                }
            }
            for table in tables { table.write(on: address, to: &html) }
        }
    }

    private func writeSpan(to html: inout HTMLWriter) {
        html.element("form", [.action(address.withoutQuery), .class("filters")]) { html in
            if let stream { html.hidden("stream", stream) }
            if isDetail { html.hidden("rows", "yes") }
            for (name, label, value) in [("from", "From", from), ("to", "To", to)] {
                html.element("label") { html in
                    html.text(label)
                    html.void("input", [.text(.name, name), .text(.type, "date"), .text(.value, value)])
                }
            }
            if isDetail { hideChoice(in: &html) } else { writeChoice(to: &html) }
            html.element("button", text: "Show")
        }
    }

    // MARK: - Charts

    private func writeChart(_ found: FigureRows, to html: inout HTMLWriter) {
        switch figure {
        case .active:
            let names = ["paying", "in trial", "in grace", "family"]
            let series = names.enumerated().map { index, name in
                LineChart.Series(name: name, values: found.rows.map { $0[index + 1].flatMap(Double.init) })
            }.filter { $0.values.contains { $0 ?? 0 > 0 } }
            let days = found.rows.map { $0[0] ?? "" }
            LineChart(name: figure.title, places: days, series: series, address: { self.detail(days[$0]) })
                .write(to: &html)
        case .mrr: writeMRR(found, to: &html)
        case .movements:
            let months = found.rows.map { $0[0] ?? "" }
            let names: [(String, Int, Bool)] = [
                ("new", 1, false), ("converted", 2, false), ("recovered", 3, false), ("resubscribed", 4, false),
                ("churned", 7, true),
            ]
            Self.writePatterns(to: &html)
            BarChart(
                name: figure.title, places: months.map { String($0.prefix(7)) },
                series: names.map { name, column, isLoss in
                    BarChart.Series(
                        name: name, values: found.rows.map { $0[column].flatMap(Double.init) ?? 0 }, isLoss: isLoss)
                }, isRunning: months.last?.prefix(7) == now.dayText.prefix(7), address: { self.detail(months[$0]) }
            ).write(to: &html)
        case .retention: writeRetention(found, to: &html)
        case .valueMovements, .mix, .revenue, .proceeds, .refunds, .offers, .trials, .recovery:
            writeBars(found, to: &html)
        }
    }

    /// Patterns for the month that is not over.
    static func writePatterns(to html: inout HTMLWriter) {
        html.element("svg", [.text(.width, "0"), .text(.height, "0"), .text(.role, "presentation")]) {
            Timeline.writePatterns(to: &$0)
        }
    }

    /// Most charts of a page.
    static let currencyChartsMax = 6

    /// Each currency has a chart: their scales have nothing in common. Those with the most subscriptions come first, and
    /// a sentence names the ones without a chart.
    private func writeMRR(_ found: FigureRows, to html: inout HTMLWriter) {
        var currencies: [String: [(day: String, value: Double, subscriptions: Int64)]] = [:]
        for row in found.rows {
            currencies[row[1] ?? "no price", default: []].append(
                (row[0] ?? "", row[2].flatMap(Double.init) ?? 0, row[3].flatMap { Int64($0) } ?? 0))
        }
        let ordered = currencies.sorted {
            let (first, second) = ($0.value.last?.subscriptions ?? 0, $1.value.last?.subscriptions ?? 0)
            return first == second ? $0.key < $1.key : first > second
        }
        let others = ordered.dropFirst(Self.currencyChartsMax).map(\.key).sorted()
        if !others.isEmpty {
            html.element(
                "p", [.class("muted")],
                text: "The \(Self.currencyChartsMax) currencies with the most subscriptions have charts. "
                    + "The table also has \(others.joined(separator: ", ")).")
        }
        for (currency, rows) in ordered.prefix(Self.currencyChartsMax) {
            html.element("h2", text: currency)
            LineChart(
                name: "\(figure.title) in \(currency)", places: rows.map(\.day),
                series: [.init(name: currency, values: rows.map(\.value))], address: { self.detail(rows[$0].day) }
            ).write(to: &html)
        }
    }

    private func writeRetention(_ found: FigureRows, to html: inout HTMLWriter) {
        var cohorts: [(label: String, cells: [HeatMap.Cell])] = []
        for row in found.rows {
            let label = row[0] ?? ""
            guard let column = row[1].flatMap({ Int($0) }), column < 36 else { continue }
            if cohorts.last?.label != label { cohorts.append((label, [])) }
            cohorts[cohorts.count - 1].cells.append(
                HeatMap.Cell(
                    column: column, active: row[4].flatMap { Int64($0) } ?? 0,
                    reached: row[3].flatMap { Int64($0) } ?? 0))
        }
        HeatMap(
            name: figure.title, rows: cohorts.map { (String($0.label.prefix(7)), $0.cells) },
            address: { self.detail(cohorts[$0].label) }
        ).write(to: &html)
    }
}
