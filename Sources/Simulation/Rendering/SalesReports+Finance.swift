extension SalesReports {
    private static let financeHeader = [
        "Transaction Date", "Settlement Date", "Apple Identifier", "SKU", "Title", "Developer Name",
        "Product Type Identifier", "Country of Sale", "Quantity", "Partner Share", "Extended Partner Share",
        "Partner Share Currency", "Customer Price", "Customer Currency", "Sale or Return", "Promo Code", "Order Type",
        "Region",
    ]

    /// Apple's Finance Detail reports: a file for each month in which something was settled, as name and content. Apple's own
    /// months have whole weeks, and each file states its first and last day.
    ///
    /// Purchases and refunds with units alone; how Apple reports a refund in part there is not documented.
    package func financeFiles(_ settling: ReportSettling) -> [(name: String, content: String)] {
        let settled = entries.enumerated().map { (entry: $1, day: Self.day(settling.settled($1.at, $0))) }
            .filter { $0.entry.units != 0 && $0.entry.price > 0 }
        let months = Dictionary(grouping: settled) { $0.day.prefix(6) }
        return months.sorted { $0.key < $1.key }.map { month, settled in
            var lines: [[String]] = [
                ["Vendor Name", "Example GmbH"], ["Start Date", Self.date("\(month)01")],
                ["End Date", Self.date(settled.map(\.day).max() ?? "\(month)28")], Self.financeHeader,
            ]
            for (entry, day) in settled { lines.append(Self.financeRow(entry, settledOn: day)) }
            lines.append(["Country Of Sale", "Partner Share Currency", "Quantity", "Extended Partner Share"])
            let countries = Dictionary(grouping: settled.map(\.entry), by: \.country)
            for (country, entries) in countries.sorted(by: { $0.key < $1.key }) {
                let share = entries.reduce(0) { $0 + $1.share }
                lines.append(
                    [
                        Self.alpha2(country), entries[0].currency, "\(entries.reduce(0) { $0 + $1.units })",
                        Self.signed(share),
                    ])
            }
            let content = lines.map { $0.joined(separator: "\t") }.joined(separator: "\n") + "\n"
            return ("FD_\(Self.vendor)_\(month)_Z1.txt", content)
        }
    }

    private static func financeRow(_ entry: Entry, settledOn day: String) -> [String] {
        [
            date(Self.day(entry.at)), date(day), appleId(of: entry.productId), entry.productId, entry.productId,
            "Example GmbH", "IAY", alpha2(entry.country), "\(entry.units)", amount(entry.price * 7 / 10),
            signed(entry.share), entry.currency, amount(entry.price), entry.currency, entry.units < 0 ? "R" : "S", "",
            "", "",
        ]
    }

    private static func signed(_ thousandths: Int64) -> String {
        (thousandths < 0 ? "-" : "") + amount(abs(thousandths))
    }
}

extension SalesReports.Entry {
    /// What the developer gets for all units, in thousandths of the currency's unit.
    fileprivate var share: Int64 { price * 7 / 10 * Int64(units) }
}
