import Readers

extension FigurePage {
    package enum Figure: String, Sendable, CaseIterable {
        case active, mrr
        case valueMovements = "mrr-movements"
        case mix, revenue, proceeds, refunds, movements, retention, trials, offers, recovery

        package var title: String {
            switch self {
            case .active: "Active subscriptions"
            case .mrr: "Monthly recurring revenue"
            case .valueMovements: "MRR movements"
            case .mix: "Plan mix"
            case .revenue: "Revenue"
            case .proceeds: "Proceeds"
            case .refunds: "Refunds"
            case .movements: "Movements"
            case .retention: "Retention"
            case .trials: "Trials"
            case .offers: "Offers"
            case .recovery: "Billing recovery"
            }
        }

        package var query: FigureQuery {
            switch self {
            case .active: .active
            case .mrr: .mrr
            case .valueMovements: .valueMovements
            case .mix: .mix
            case .revenue: .revenue
            case .proceeds: .proceeds
            case .refunds: .refunds
            case .movements: .movements
            case .retention: .retention
            case .trials: .trials
            case .offers: .offers
            case .recovery: .recovery
            }
        }

        package var detail: FigureQuery {
            switch self {
            case .active: .activeDetail
            case .mrr: .mrrDetail
            case .valueMovements: .valueMovementsDetail
            case .mix: .mixDetail
            case .revenue: .revenueDetail
            case .proceeds: .proceedsDetail
            case .refunds: .refundsDetail
            case .movements: .movementsDetail
            case .retention: .retentionDetail
            case .trials: .trialsDetail
            case .offers: .offersDetail
            case .recovery: .recoveryDetail
            }
        }

        /// What its rows can be split by.
        package var parts: [FigureChoice.Part] {
            switch self {
            case .mix, .revenue, .proceeds, .refunds, .offers: FigureChoice.Part.allCases
            case .trials, .recovery: [.product]
            case .active, .mrr, .valueMovements, .movements, .retention: []
            }
        }

        /// Whether its amounts can be given in one currency.
        package var isConvertible: Bool {
            switch self {
            case .mrr, .valueMovements, .mix, .revenue, .proceeds, .refunds: true
            case .active, .movements, .retention, .trials, .offers, .recovery: false
            }
        }

        /// Whether it has a row for each day, not for each month.
        package var isByDay: Bool { self == .active || self == .mrr }

        /// Whether each number of a row leads to the rows that it counts.
        var hasChoice: Bool { isConvertible || !parts.isEmpty }

        var definition: String {
            switch self {
            case .active:
                "Subscriptions with access at 00:00 UTC of each day. A fully refunded period counts until its refund."
            case .mrr:
                "Monthly value of all paid periods at 00:00 UTC of each day, before the store's share. Trials, grace and family members do not count; what has no price, as in version 1, neither. In one currency at the rates of each day."
            case .valueMovements:
                "What made the monthly value of each customer's subscriptions grow and shrink in each month, grace included: opening and movements are closing. In one currency at the rates of today."
            case .mix:
                "Paying subscriptions and their monthly value at 00:00 UTC of the first of each month, and of today. In one currency at the rates of each day."
            case .revenue:
                "What customers paid in each month, taxes and the store's share included. New is the first payment of a customer; refunded is what was given back of these payments, whenever that was. In one currency at the rates of each day."
            case .proceeds:
                "What is left of the payments of each month after tax and the store's share: as Google's orders state it, otherwise estimated from the imported tables. In one currency at the rates of each day."
            case .refunds:
                "What was given back in each month, whenever it was paid. In one currency at the rates of each day."
            case .movements:
                "Subscriptions that began, returned or ended in each month (UTC). Net is new, converted, recovered and resubscribed less churned."
            case .retention:
                "Of the subscriptions that started in a month, the percentage with access that many months after their own start."
            case .trials:
                "Free trials by the month in which they began, and whether a paid period followed."
            case .offers:
                "Offers by the month in which they were used first: how many customers came to pay the standard price, and what was paid with the offer and after it."
            case .recovery:
                "Renewals that failed, by the month in which they were due, of both stores, and whether they were charged later."
            }
        }

        /// The columns that its chart shows, each with whether it stands for a loss.
        var bars: [(column: String, isLoss: Bool)] {
            switch self {
            case .valueMovements:
                [
                    ("new", false), ("reactivation", false), ("expansion", false), ("contraction", true),
                    ("churn", true),
                ]
            case .mix: [("mrr", false)]
            case .revenue: [("new", false), ("renewal", false), ("refunded", true)]
            case .proceeds: [("proceeds", false), ("commission", true), ("tax", true)]
            case .refunds: [("amount", false)]
            case .trials: [("converted", false), ("undecided", false), ("lost", true)]
            case .offers: [("converted", false), ("others", false), ("lost", true)]
            case .recovery: [("in_grace", false), ("later", false), ("retried", false), ("lost", true)]
            case .active, .mrr, .movements, .retention: []
            }
        }

        fileprivate var amounts: Set<String> {
            switch self {
            case .active, .movements, .retention, .trials, .recovery: []
            case .mrr, .mix: ["mrr", "price"]
            case .valueMovements:
                [
                    "opening", "new", "reactivation", "expansion", "contraction", "churn", "closing", "mrr", "before",
                    "after",
                ]
            case .revenue: ["gross", "new", "renewal", "refunded", "kept", "price"]
            case .proceeds: ["paid", "tax", "commission", "proceeds", "stated", "without_rate"]
            case .refunds: ["amount", "price", "refunded"]
            case .offers: ["offer_revenue", "revenue"]
            }
        }
    }

    /// What a row of a figure counts.
    struct Point {
        let day: String
        /// Nil without one. `none` if no price is known.
        let currency: String?
        /// Nil if the figure is not split.
        let part: String?
        let customerKind: String?

        init(_ columns: [String], _ row: [String?], isSplit: Bool) {
            func value(_ name: String) -> String? { columns.firstIndex(of: name).flatMap { row[$0] } }
            day = value("month") ?? value("day") ?? ""
            currency = value("currency") ?? (columns.contains("currency") ? "none" : nil)
            part = isSplit ? value("part") : nil
            customerKind = value("customer_kind")
        }
    }

    private static let numbers: Set = [
        "paying", "in_trial", "in_grace", "family", "mrr", "subscriptions", "unpriced", "new", "conversions",
        "recovered", "resubscribed", "trial_starts", "trials_lost", "churned", "months_since", "reached", "active",
        "price", "first_month", "last_month", "payments", "refunds", "in_full", "in_part", "redeemed", "converted",
        "lost", "others", "converted_percent", "renewals", "trials", "undecided", "failed", "later", "retried",
        "recovered_percent", "retained_percent", "tax_percent", "commission_percent",
    ]

    func isAmount(_ column: String) -> Bool { figure.amounts.contains(column) }
    func isNumber(_ column: String) -> Bool { isAmount(column) || Self.numbers.contains(column) }

    /// Whether the table shows the column: the parts only if the figure is split. Offers are if nothing else splits them.
    func isShown(_ column: String) -> Bool { column != "part" || choice.by != nil || figure == .offers }

    func title(ofColumn name: String) -> String {
        switch name {
        case "part": (choice.by?.rawValue ?? "offer").capitalizedFirst
        default: name.replacing("_", with: " ").capitalizedFirst
        }
    }

    // MARK: - Form

    /// Writes what the figure can be split by, and in which currency it can be.
    func writeChoice(to html: inout HTMLWriter) {
        if !figure.parts.isEmpty {
            let all = (value: "", text: figure == .offers ? "offer" : "nothing")
            html.choice(
                "by", "By", [all] + figure.parts.map { (value: $0.rawValue, text: $0.rawValue) },
                chosen: choice.by?.rawValue)
        }
        if figure.isConvertible {
            html.element("label") { html in
                html.text("In one currency")
                html.void(
                    "input",
                    [
                        .text(.name, "currency"), .text(.type, "text"), .text(.value, choice.currency ?? ""),
                        .text(.placeholder, "EUR"), .text(.maxlength, "3"), .text(.autocomplete, "off"),
                    ])
            }
        }
    }

    /// Keeps what the rows are narrowed to.
    func hideChoice(in html: inout HTMLWriter) {
        let kept = [
            ("currency", choice.currency), ("into", choice.into), ("by", choice.by?.rawValue), ("part", choice.part),
        ]
        for (name, value) in kept {
            if let value { html.hidden(name, value) }
        }
    }

    // MARK: - Charts

    /// Most parts that a chart shows, besides all others.
    private static let partsMax = 4

    /// A chart of bars for each currency, the largest first: by parts if the figure is split, otherwise by its columns.
    func writeBars(_ found: FigureRows, to html: inout HTMLWriter) {
        let rows = found.rows.map { (point: Point(found.columns, $0, isSplit: isShown("part")), values: $0) }
        let names = figure.bars.map(\.column)
        let columns = names.compactMap { found.columns.firstIndex(of: $0) }
        func value(_ row: [String?], _ column: Int) -> Double { row[column].flatMap(Double.init) ?? 0 }
        var sums: [String: Double] = [:]
        for row in rows {
            sums[row.point.currency ?? "", default: 0] += columns.map { value(row.values, $0) }.reduce(0, +)
        }
        let ordered =
            figure.isConvertible
            ? sums.sorted { $0.value == $1.value ? $0.key < $1.key : $0.value > $1.value }.map(\.key) : [""]
        let others = ordered.dropFirst(Self.currencyChartsMax).sorted()
        if !others.isEmpty {
            html.element(
                "p", [.class("muted")],
                text: "The \(Self.currencyChartsMax) currencies with the largest numbers have charts. "
                    + "The table also has \(others.joined(separator: ", ")).")
        }
        Self.writePatterns(to: &html)
        for currency in ordered.prefix(Self.currencyChartsMax) {
            let own = rows.filter { !figure.isConvertible || $0.point.currency == currency }
            if !currency.isEmpty { html.element("h2", text: Self.currencyName(currency)) }
            let places = Set(own.map(\.point.day)).sorted()
            let series = choice.by == nil ? barsByColumn(own, names, columns, places) : barsByPart(own, columns, places)
            let point = own.first?.point
            BarChart(
                name: "\(figure.title)\(currency.isEmpty ? "" : " in \(currency)")",
                places: places.map { figure == .mix ? $0 : String($0.prefix(7)) }, series: series,
                isRunning: places.last?.prefix(7) == now.dayText.prefix(7),
                address: { place in
                    self.detail(places[place], point.map { Point(["currency"], [$0.currency], isSplit: false) })
                }
            ).write(to: &html)
        }
    }

    private typealias Row = (point: Point, values: [String?])

    private func barsByColumn(
        _ rows: [Row], _ names: [String], _ columns: [Int], _ places: [String]
    ) -> [BarChart.Series] {
        zip(names, columns).enumerated().map { index, named in
            BarChart.Series(
                name: named.0.replacing("_", with: " "),
                values: places.map { Self.sum(rows, at: $0, [named.1]) },
                isLoss: figure.bars[index].isLoss)
        }
    }

    /// The parts with the largest sums of the columns that are no loss, and all others together.
    private func barsByPart(_ rows: [Row], _ columns: [Int], _ places: [String]) -> [BarChart.Series] {
        let gains = zip(columns, figure.bars).filter { !$0.1.isLoss }.map(\.0)
        var sums: [String: Double] = [:]
        for row in rows {
            sums[row.point.part ?? "", default: 0] += gains.reduce(0) {
                $0 + (row.values[$1].flatMap(Double.init) ?? 0)
            }
        }
        let ordered = sums.sorted { $0.value == $1.value ? $0.key < $1.key : $0.value > $1.value }.map(\.key)
        let largest = ordered.prefix(Self.partsMax)
        let named = largest.map { part in
            let own = rows.filter { $0.point.part == part }
            return BarChart.Series(name: part, values: places.map { Self.sum(own, at: $0, gains) }, isLoss: false)
        }
        guard ordered.count > largest.count else { return named }
        let rest = rows.filter { !largest.contains($0.point.part ?? "") }
        return named + [
            BarChart.Series(name: "others", values: places.map { Self.sum(rest, at: $0, gains) }, isLoss: false)
        ]
    }

    private static func sum(_ rows: [Row], at place: String, _ columns: [Int]) -> Double {
        rows.filter { $0.point.day == place }.reduce(0) { sum, row in
            columns.reduce(sum) { $0 + (row.values[$1].flatMap(Double.init) ?? 0) }
        }
    }
}
