import Encoding
import Foundation
import Readers

/// Which report a file is, by the names of its columns, and how its rows are read. Columns may have any order, and more may
/// come.
///
/// Source: Apple, App Store Connect Help, "Reports reference"; Google, Play Console Help, "Download and export monthly
/// reports". Names of columns that changed have all their spellings.
struct ReportLayout {
    enum Kind: String, CaseIterable {
        case appleSales = "apple_sales"
        case appleSubscription = "apple_subscription"
        case appleSubscriptionEvent = "apple_subscription_event"
        case appleSubscriber = "apple_subscriber"
        case appleFinancial = "apple_financial"
        case appleFinanceDetail = "apple_finance_detail"
        case googleSales = "google_sales"
        case googleEarnings = "google_earnings"

        /// Columns that no other report has together.
        var signature: [String] {
            switch self {
            case .appleSales: ["provider", "sku", "units", "begin date"]
            case .appleSubscription: ["subscription apple id", "active standard price subscriptions"]
            case .appleSubscriptionEvent: ["event date", "event", "quantity"]
            case .appleSubscriber: ["event date", "subscriber id"]
            case .appleFinancial: ["vendor identifier", "quantity", "partner share", "extended partner share"]
            case .appleFinanceDetail: ["transaction date", "settlement date", "extended partner share"]
            case .googleSales: ["order number", "financial status", "charged amount"]
            case .googleEarnings: ["transaction type", "merchant currency", "amount (merchant currency)"]
            }
        }
    }

    let kind: Kind

    init(header: [UInt8]) throws(CSVRecords.Malformed) {
        let text = String(decoding: header, as: UTF8.self)
        let separator: Character = text.contains("\t") ? "\t" : ","
        let names = text.split(separator: separator, omittingEmptySubsequences: false).map {
            $0.trimmingCharacters(in: CharacterSet(charactersIn: " \"\r")).lowercased()
        }
        guard let kind = Kind.allCases.first(where: { $0.signature.allSatisfy(names.contains) }) else {
            let first = names.first.map { String($0.prefix(40)) } ?? ""
            throw CSVRecords.Malformed(
                line: 1,
                problem: """
                    the first column is "\(first)": expected the English header of Apple's sales, subscription, subscription \
                    event, subscriber, financial or finance detail report, or of Google's estimated sales or earnings report
                    """)
        }
        self.kind = kind
    }

    /// - Parameter day: Of a file whose rows have none.
    func rows(
        _ records: [CSVRecords.Record], day: String?
    ) throws(CSVRecords.Malformed) -> [StoreReport.Row] {
        let records = Array(records.drop { kind == .appleFinanceDetail && $0.fields.first != "Transaction Date" })
        var columns = Columns(records.first)
        var rows: [StoreReport.Row] = []
        var section = Section()
        for (index, record) in records.enumerated().dropFirst() {
            if kind == .appleFinanceDetail, record.fields.first == "Country Of Sale" {
                try section.compare(Array(records[index...]))
                return rows
            }
            if kind == .appleFinancial {
                // Files of several regions repeat header and totals; some end with a table of another form.
                if record.fields.first == records.first?.fields.first {
                    columns = Columns(record)
                    continue
                }
                if try section.isTotal(record) { continue }
                if record.fields.first == "Country Of Sale" { break }
            }
            let fields = try columns.fields(record)
            let row = try row(fields, record.line, day: day)
            rows.append(row)
            section.add(row)
        }
        if kind == .appleFinancial, section.rows > 0 {
            throw CSVRecords.Malformed(
                line: rows.last?.line ?? 1, problem: "no Total_Rows follows: the file may be cut off")
        }
        if kind == .appleFinanceDetail {
            throw CSVRecords.Malformed(
                line: rows.last?.line ?? 1, problem: "no table of countries follows: the file may be cut off")
        }
        return rows
    }

    /// The first and the last day of the period that a file states before its header; nil if it states none.
    func period(_ records: [CSVRecords.Record]) throws(CSVRecords.Malformed) -> (first: String, last: String)? {
        guard kind == .appleFinanceDetail else { return nil }
        func day(_ name: String) throws(CSVRecords.Malformed) -> String {
            guard let record = records.first(where: { $0.fields.first == name }) else {
                throw CSVRecords.Malformed(line: 1, problem: "no \(name) stands before the header")
            }
            let name = name.lowercased()
            return try Fields(line: record.line, values: [name: record.fields.dropFirst().first ?? ""]).day(name)
        }
        let period = (first: try day("Start Date"), last: try day("End Date"))
        guard period.first <= period.last else {
            throw CSVRecords.Malformed(
                line: 1, problem: "the period ends on \(period.last), before it starts on \(period.first)")
        }
        return period
    }

    private func row(_ field: Fields, _ line: Int, day: String?) throws(CSVRecords.Malformed) -> StoreReport.Row {
        var row = StoreReport.Row(line: line, fields: field.kept)
        switch kind {
        case .appleSales:
            row.day = try field.day("begin date")
            let end = try field.day("end date")
            guard row.day == end else {
                throw field.malformed("the row is about \(row.day) to \(end): expected a daily report")
            }
            row.productId = field["sku"]
            row.appleId = field["apple identifier"]
            row.country = field["country code"]
            row.currency = field["customer currency"]
            let units = try field.number("units")
            // Negative for refunds in Apple's own files, and positive in those of some tools.
            let price = abs(try field.number("customer price"))
            row.units = units
            row.amount = units == 0 ? -price : units * price
            row.proceeds = units * (try field.number("developer proceeds"))
            row.proceedsCurrency = field["currency of proceeds"]
            row.event = !field.isInAppPurchase ? "other" : units > 0 ? "sale" : units < 0 ? "refund" : "partial_refund"
        case .appleSubscription:
            guard let day else {
                throw CSVRecords.Malformed(
                    line: line, problem: "the report has no days, and the name of the file has none such as 20261125")
            }
            row.day = day
            row.event = "active"
            row.appleId = field["subscription apple id"]
            row.country = field["country"]
            row.currency = field["customer currency"]
            row.units = try field.number("active standard price subscriptions")
            row.proceedsCurrency = field["proceeds currency"]
        case .appleSubscriptionEvent:
            row.day = try field.day("event date")
            row.event = field["event"] ?? "other"
            row.appleId = field["subscription apple id"]
            row.country = field["country"]
            row.units = try field.number("quantity")
        case .appleSubscriber:
            row.day = try field.day("event date")
            row.event = field["refund"]?.lowercased() == "yes" ? "refund" : "sale"
            row.appleId = field["subscription apple id"]
            row.country = field["country"]
            row.currency = field["customer currency"]
            let units = try field.optionalNumber("units") ?? 1
            let sign: Decimal = row.event == "refund" ? -1 : 1
            row.units = sign * abs(units)
            row.amount = sign * abs(units * (try field.number("customer price")))
            row.proceeds = sign * abs(units * (try field.number("developer proceeds")))
            row.proceedsCurrency = field["proceeds currency"]
        case .appleFinancial, .appleFinanceDetail:
            let isDetail = kind == .appleFinanceDetail
            row.day = try field.day(isDetail ? "transaction date" : "end date")
            row.productId = field[isDetail ? "sku" : "vendor identifier"]
            row.appleId = field["apple identifier"]
            row.country = field["country of sale"]
            row.currency = field["customer currency"]
            let units = try field.number("quantity")
            row.units = units
            row.amount = units * abs(try field.number("customer price"))
            row.proceeds = try field.number("extended partner share")
            row.proceedsCurrency = field["partner share currency"]
            let isRefund = (field["sales or return"] ?? field["sale or return"])?.uppercased() == "R"
            row.event = isDetail && !field.isInAppPurchase ? "other" : isRefund ? "refund" : "sale"
        case .googleSales:
            row.day = try field.day("order charged date")
            row.orderId = field["order number"]
            row.app = field["product id"] ?? field["package id"]
            row.productId = field.googleProduct ?? row.app
            row.country = field["country of buyer"]
            row.currency = field["currency of sale"]
            row.amount = try field.number("charged amount")
            switch field["financial status"]?.lowercased() {
            case "charged": (row.event, row.units) = ("sale", 1)
            case "refund": (row.event, row.units) = ("refund", -1)
            case "partial refund": (row.event, row.units) = ("refund", 0)
            default: row.event = "other"
            }
        case .googleEarnings:
            row.day = try field.day("transaction date")
            row.event = field["transaction type"] ?? "other"
            row.orderId = field["description"]
            row.app = field["product id"] ?? field["package id"]
            row.productId = field.googleProduct
            row.country = field["buyer country"]
            row.currency = field["buyer currency"]
            row.amount = try field.number("amount (buyer currency)")
            row.proceeds = try field.number("amount (merchant currency)")
            row.proceedsCurrency = field["merchant currency"]
        }
        return row
    }

    /// The rows of a financial report since its last totals.
    private struct Section {
        private(set) var rows = 0
        private var units: Decimal = 0

        mutating func add(_ row: StoreReport.Row) {
            rows += 1
            units += row.units ?? 0
        }

        /// Compares the table of countries that ends a file with the rows.
        func compare(_ countries: [CSVRecords.Record]) throws(CSVRecords.Malformed) {
            let columns = Columns(countries.first)
            var sum: Decimal = 0
            for record in countries.dropFirst() { sum += try columns.fields(record).number("quantity") }
            guard sum == units else {
                throw CSVRecords.Malformed(
                    line: countries.first?.line ?? 1,
                    problem: "the countries have \(sum) units, and the rows before them \(units): is a part missing?")
            }
        }

        /// Whether a line has a total. Compares it with the rows before it.
        mutating func isTotal(_ record: CSVRecords.Record) throws(CSVRecords.Malformed) -> Bool {
            guard let name = record.fields.first, name.hasPrefix("Total_") else { return false }
            let text = record.fields.dropFirst().first ?? ""
            let own: Decimal? =
                switch name {
                case "Total_Rows": Decimal(rows)
                case "Total_Units": units
                // Amounts of several currencies may be added.
                default: nil
                }
            if let own, Fields.decimal(text) != own {
                throw CSVRecords.Malformed(
                    line: record.line,
                    problem: "\(name) is \(text), and the rows before it give \(own): is a part missing?")
            }
            if name == "Total_Rows" { rows = 0 }
            if name == "Total_Units" { units = 0 }
            return true
        }
    }
}

extension ReportLayout {
    /// The names of the columns, in lower case.
    fileprivate struct Columns {
        private let names: [String]

        init(_ header: CSVRecords.Record?) {
            names = header?.fields.map { CSVColumns.trimmed($0).lowercased() } ?? []
        }

        func fields(_ record: CSVRecords.Record) throws(CSVRecords.Malformed) -> Fields {
            // Some files end their lines with a separator.
            let isLonger = record.fields.count == names.count + 1 && record.fields.last == ""
            guard record.fields.count == names.count || isLonger else {
                throw CSVRecords.Malformed(
                    line: record.line,
                    problem: """
                        \(record.fields.count) fields: expected \(names.count), as in the header; the file may be cut off
                        """)
            }
            return Fields(
                line: record.line,
                values: Dictionary(
                    zip(names, record.fields.map(CSVColumns.trimmed)), uniquingKeysWith: { first, _ in first }))
        }
    }

    /// The fields of a row.
    fileprivate struct Fields {
        let line: Int
        let values: [String: String]

        /// What says where a buyer lives is not kept.
        private static let personal = [
            "city of buyer", "state of buyer", "postal code of buyer", "postcode of buyer",
            "buyer state", "buyer postal code", "buyer postcode", "state", "subscriber id",
        ]

        var kept: [String: String] { values.filter { !$0.value.isEmpty && !Self.personal.contains($0.key) } }

        /// Nil if the field is empty, or the column is not in the file.
        subscript(_ name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }

        /// By Apple's type of the product.
        var isInAppPurchase: Bool {
            self["product type identifier"].map { $0.hasPrefix("IA") || $0 == "1AY" } ?? false
        }

        /// What the ledger calls the product: a subscription has the name of its base plan in its own. Newer files name that of
        /// a one-time product in the same column.
        var googleProduct: String? {
            guard let sku = self["sku id"] else { return nil }
            let newer = self["product type"]?.lowercased() == "subscription" ? "base plan and purchase option id" : nil
            guard let plan = self["base plan id"] ?? newer.flatMap({ self[$0] }) else { return sku }
            return "\(sku):\(plan)"
        }

        func malformed(_ problem: String) -> CSVRecords.Malformed { CSVRecords.Malformed(line: line, problem: problem) }

        func number(_ name: String) throws(CSVRecords.Malformed) -> Decimal {
            guard let number = try optionalNumber(name) else { throw malformed("\(name) is empty: expected a number") }
            return number
        }

        func optionalNumber(_ name: String) throws(CSVRecords.Malformed) -> Decimal? {
            guard let text = self[name] else { return nil }
            guard let number = Self.decimal(text) else { throw malformed("\(name) \"\(text)\" is not a number") }
            return number
        }

        /// A number as Apple and Google write them: `.99`, `-3`, `17,500.00`. By hand, since a report has millions.
        static func decimal(_ text: String) -> Decimal? {
            var significand: UInt64 = 0
            var (fraction, digits, group) = (0, 0, 0)
            var (isNegative, hasPoint, hasComma) = (false, false, false)
            for (place, byte) in text.utf8.enumerated() {
                switch byte {
                case UInt8(ascii: "-") where place == 0: isNegative = true
                case UInt8(ascii: "0")...UInt8(ascii: "9"):
                    guard digits < 18 else { return nil }
                    significand = significand * 10 + UInt64(byte - UInt8(ascii: "0"))
                    digits += 1
                    if hasPoint { fraction += 1 } else { group += 1 }
                case UInt8(ascii: ",") where !hasPoint && (hasComma ? group == 3 : (1...3).contains(group)):
                    (hasComma, group) = (true, 0)
                case UInt8(ascii: ".") where !hasPoint && (!hasComma || group == 3): hasPoint = true
                default: return nil
                }
            }
            guard digits > 0, hasPoint ? fraction > 0 : !hasComma || group == 3 else { return nil }
            return Decimal(sign: isNegative ? .minus : .plus, exponent: -fraction, significand: Decimal(significand))
        }

        /// A day such as `2026-11-25`, `11/25/2026` or `Nov 25, 2026`, in the first of these forms.
        func day(_ name: String) throws(CSVRecords.Malformed) -> String {
            guard let text = self[name] else { throw malformed("\(name) is empty: expected a day") }
            guard let parts = Self.dayParts(text),
                let instant = Instant(
                    year: parts.year, month: parts.month, day: parts.day, hour: 0, minute: 0, second: 0)
            else {
                throw malformed(
                    "\(name) \"\(text)\" is no day: expected one such as 2026-11-25, 11/25/2026 or Nov 25, 2026")
            }
            return String(instant.description.prefix(10))
        }

        private static func dayParts(_ text: String) -> (year: Int, month: Int, day: Int)? {
            func number(_ part: Substring, _ digits: ClosedRange<Int>) -> Int? {
                digits.contains(part.utf8.count) && part.utf8.allSatisfy { (48...57).contains($0) } ? Int(part) : nil
            }
            let dashed = text.split(separator: "-", omittingEmptySubsequences: false)
            if dashed.count == 3, let year = number(dashed[0], 4...4), let month = number(dashed[1], 2...2),
                let day = number(dashed[2], 2...2)
            {
                return (year, month, day)
            }
            let slashed = text.split(separator: "/", omittingEmptySubsequences: false)
            if slashed.count == 3, let month = number(slashed[0], 1...2), let day = number(slashed[1], 1...2),
                let year = number(slashed[2], 4...4)
            {
                return (year, month, day)
            }
            let written = text.split(separator: " ", omittingEmptySubsequences: false)
            if written.count == 3, let month = months.firstIndex(of: written[0].lowercased()),
                written[1].hasSuffix(","),
                let day = number(written[1].dropLast(), 1...2), let year = number(written[2], 4...4)
            {
                return (year, month + 1, day)
            }
            return nil
        }

        private static let months = [
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ]
    }
}
