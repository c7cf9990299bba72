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
                    event, subscriber or financial report, or of Google's estimated sales or earnings report
                    """)
        }
        self.kind = kind
    }

    /// - Parameter day: Of a file whose rows have none.
    func rows(
        _ records: [CSVRecords.Record], day: String?
    ) throws(CSVRecords.Malformed) -> [StoreReport.Row] {
        var columns = Columns(records.first)
        var rows: [StoreReport.Row] = []
        var section = Section()
        for record in records.dropFirst() {
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
        return rows
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
            let isPurchase = field["product type identifier"].map { $0.hasPrefix("IA") || $0 == "1AY" } ?? false
            row.event = !isPurchase ? "other" : units > 0 ? "sale" : units < 0 ? "refund" : "partial_refund"
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
        case .appleFinancial:
            row.day = try field.day("end date")
            row.productId = field["vendor identifier"]
            row.appleId = field["apple identifier"]
            row.country = field["country of sale"]
            row.currency = field["customer currency"]
            let units = try field.number("quantity")
            row.units = units
            row.amount = units * abs(try field.number("customer price"))
            row.proceeds = try field.number("extended partner share")
            row.proceedsCurrency = field["partner share currency"]
            row.event = (field["sales or return"] ?? field["sale or return"])?.uppercased() == "R" ? "refund" : "sale"
        case .googleSales:
            row.day = try field.day("order charged date")
            row.orderId = field["order number"]
            row.app = field["product id"] ?? field["package id"]
            row.productId = field["sku id"] ?? row.app
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
            row.productId = field["sku id"]
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

        /// A number as Apple and Google write them: `.99`, `-3`, `17,500.00`.
        static func decimal(_ text: String) -> Decimal? {
            guard text.wholeMatch(of: /-?([0-9]{1,3}(,[0-9]{3})+|[0-9]*)(\.[0-9]+)?/) != nil,
                text.contains(where: \.isNumber)
            else { return nil }
            return Decimal(string: text.replacing(",", with: ""), locale: Locale(identifier: "en_US_POSIX"))
        }

        /// A day such as `2026-11-25`, `11/25/2026` or `Nov 25, 2026`, in the first of these forms.
        func day(_ name: String) throws(CSVRecords.Malformed) -> String {
            guard let text = self[name] else { throw malformed("\(name) is empty: expected a day") }
            var parts: (year: Substring, month: String, day: Substring)?
            if let iso = text.wholeMatch(of: /([0-9]{4})-([0-9]{2})-([0-9]{2})/)?.output {
                parts = (iso.1, String(iso.2), iso.3)
            } else if let american = text.wholeMatch(of: /([0-9]{1,2})\/([0-9]{1,2})\/([0-9]{4})/)?.output {
                parts = (american.3, String(american.1), american.2)
            } else if let written = text.wholeMatch(of: /([A-Za-z]{3}) ([0-9]{1,2}), ([0-9]{4})/)?.output,
                let month = Self.months.firstIndex(of: written.1.lowercased())
            {
                parts = (written.3, String(month + 1), written.2)
            }
            guard let parts, let year = Int(parts.year), let month = Int(parts.month), let day = Int(parts.day),
                let instant = Instant(year: year, month: month, day: day, hour: 0, minute: 0, second: 0)
            else {
                throw malformed(
                    "\(name) \"\(text)\" is no day: expected one such as 2026-11-25, 11/25/2026 or Nov 25, 2026")
            }
            return String(instant.description.prefix(10))
        }

        private static let months = [
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ]
    }
}
