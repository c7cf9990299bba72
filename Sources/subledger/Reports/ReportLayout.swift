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
    /// The first and the last day of the period that a file states before its header; nil if it states none.
    private(set) var period: ClosedRange<String>?
    /// Of a file whose rows have none.
    private let day: String?
    /// The lines before the header that state the period, by their names.
    private var stated: [String: CSVRecords.Record] = [:]
    private var columns: Columns?
    private var firstColumn: String?
    private var section = Section()
    private var countries: Countries?
    private var isOver = false
    /// Of the last row.
    private var lastLine = 1

    /// The table of countries that ends a file of Apple's Finance Detail report.
    private struct Countries {
        let line: Int
        let columns: Columns
        var units: Decimal = 0
    }

    /// - Parameters:
    ///   - header: The line with the names of the columns.
    ///   - day: That of a file whose rows have none.
    init(header: [UInt8], day: String?) throws(CSVRecords.Malformed) {
        self.day = day
        let text = String(decoding: header, as: UTF8.self)
        let separator: Character = text.contains("\t") ? "\t" : ","
        let names = text.split(separator: separator, omittingEmptySubsequences: false).map {
            $0.trimmingCharacters(in: CharacterSet(charactersIn: " \"\r\n")).lowercased()
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

    /// The row that the next record of the file is; nil if it is something else, such as a header or a total.
    mutating func row(_ record: CSVRecords.Record) throws(CSVRecords.Malformed) -> StoreReport.Row? {
        let first = record.fields.first
        guard let columns else {
            if kind == .appleFinanceDetail, first != "Transaction Date" {
                if let first, stated[first] == nil, first == "Start Date" || first == "End Date" {
                    stated[first] = record
                }
                return nil
            }
            if kind == .appleFinanceDetail { period = try statedPeriod() }
            self.columns = Columns(record)
            firstColumn = first
            return nil
        }
        if let countries {
            self.countries?.units += try countries.columns.fields(record).number("quantity")
            return nil
        }
        if isOver { return nil }
        if kind == .appleFinanceDetail, first == "Country Of Sale" {
            countries = Countries(line: record.line, columns: Columns(record))
            return nil
        }
        if kind == .appleFinancial {
            // Files of several regions repeat header and totals; some end with a table of another form.
            if first == firstColumn {
                self.columns = Columns(record)
                return nil
            }
            if try section.isTotal(record) { return nil }
            isOver = first == "Country Of Sale"
            if isOver { return nil }
        }
        let row = try row(columns.fields(record), record.line)
        section.add(row)
        lastLine = record.line
        return row
    }

    /// Compares the end of the file with the rows.
    func finish() throws(CSVRecords.Malformed) {
        if kind == .appleFinancial, section.rows > 0 {
            throw CSVRecords.Malformed(
                line: lastLine, problem: "no Total_Rows follows: the file may be cut off")
        }
        guard kind == .appleFinanceDetail else { return }
        guard let countries else {
            throw CSVRecords.Malformed(
                line: lastLine, problem: "no table of countries follows: the file may be cut off")
        }
        guard countries.units == section.units else {
            throw CSVRecords.Malformed(
                line: countries.line,
                problem: """
                    the countries have \(countries.units) units, and the rows before them \(section.units): is a part missing?
                    """)
        }
    }

    private func statedPeriod() throws(CSVRecords.Malformed) -> ClosedRange<String> {
        func day(_ name: String) throws(CSVRecords.Malformed) -> String {
            guard let record = stated[name] else {
                throw CSVRecords.Malformed(line: 1, problem: "no \(name) stands before the header")
            }
            let value = CSVRecords.Record(line: record.line, fields: [record.fields.dropFirst().first ?? ""])
            return try Columns(CSVRecords.Record(line: record.line, fields: [name])).fields(value).day(
                name.lowercased())
        }
        let (first, last) = (try day("Start Date"), try day("End Date"))
        guard first <= last else {
            throw CSVRecords.Malformed(
                line: 1, problem: "the period ends on \(last), before it starts on \(first)")
        }
        return first...last
    }

    private func row(_ field: Fields, _ line: Int) throws(CSVRecords.Malformed) -> StoreReport.Row {
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
        private(set) var units: Decimal = 0

        mutating func add(_ row: StoreReport.Row) {
            rows += 1
            units += row.units ?? 0
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
        private let count: Int
        /// Of two columns with one name, the first counts.
        fileprivate let places: [String: Int]
        /// Those whose values are kept.
        fileprivate let kept: [(place: Int, name: String)]

        /// What says where a buyer lives is not kept.
        private static let personal = [
            "city of buyer", "state of buyer", "postal code of buyer", "postcode of buyer",
            "buyer state", "buyer postal code", "buyer postcode", "state", "subscriber id",
        ]

        init(_ header: CSVRecords.Record) {
            let names = header.fields.map { CSVColumns.trimmed($0).lowercased() }
            count = names.count
            let places = Dictionary(
                zip(names, names.indices), uniquingKeysWith: { first, _ in first })
            self.places = places
            kept = names.enumerated().compactMap { place, name in
                places[name] == place && !Self.personal.contains(name) ? (place: place, name: name) : nil
            }
        }

        func fields(_ record: CSVRecords.Record) throws(CSVRecords.Malformed) -> Fields {
            // Some files end their lines with a separator.
            let isLonger = record.fields.count == count + 1 && record.fields.last == ""
            guard record.fields.count == count || isLonger else {
                throw CSVRecords.Malformed(
                    line: record.line,
                    problem: """
                        \(record.fields.count) fields: expected \(count), as in the header; the file may be cut off
                        """)
            }
            return Fields(line: record.line, columns: self, values: record.fields.map(CSVColumns.trimmed))
        }
    }

    /// The fields of a row.
    fileprivate struct Fields {
        let line: Int
        fileprivate let columns: Columns
        fileprivate let values: [String]

        /// Those that are kept, by the names of their columns: a JSON object.
        var kept: [UInt8] {
            var writer = JSONWriter(bytesExpected: 1024)
            writer.object { writer in
                for (place, name) in columns.kept where !values[place].isEmpty {
                    writer.key(name)
                    writer.value(values[place])
                }
            }
            return writer.bytes
        }

        /// Nil if the field is empty, or the column is not in the file.
        subscript(_ name: String) -> String? {
            guard let place = columns.places[name], !values[place].isEmpty else { return nil }
            return values[place]
        }

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
