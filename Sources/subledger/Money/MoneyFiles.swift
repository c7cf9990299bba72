import Encoding
import Foundation
import Readers

/// A CSV file of exchange rates as the European Central Bank publishes its reference rates: a header line with Date and
/// the currencies, and one line for each day with the units of each currency for one euro; N/A or nothing for none.
///
/// Source: the files `eurofxref.csv` and `eurofxref-hist.csv`. The first writes days as `25 November 2026`, the second as
/// `2026-11-25`; lines end with a comma.
enum RateFile {
    static func rates(_ records: [CSVRecords.Record]) throws(CSVRecords.Malformed) -> [ExchangeRate] {
        guard let header = records.first?.fields.map(CSVColumns.trimmed), header.first?.lowercased() == "date" else {
            throw CSVRecords.Malformed(
                line: 1, problem: "missing header line: expected Date and currencies, as in Date,USD,JPY")
        }
        var currencies = Array(header.dropFirst())
        if currencies.last == "" { currencies.removeLast() }
        for currency in currencies where currency.wholeMatch(of: /[A-Z]{3}/) == nil || currency == "EUR" {
            throw CSVRecords.Malformed(
                line: 1, problem: "\"\(currency)\" is no currency: expected three capital letters other than EUR")
        }
        guard !currencies.isEmpty, Set(currencies).count == currencies.count else {
            throw CSVRecords.Malformed(line: 1, problem: "expected each currency once")
        }
        var rates: [ExchangeRate] = []
        var lines: [String: Int] = [:]
        for record in records.dropFirst() {
            var fields = record.fields.map(CSVColumns.trimmed)
            if fields.count == currencies.count + 2, fields.last == "" { fields.removeLast() }
            guard fields.count == currencies.count + 1 else {
                throw CSVRecords.Malformed(
                    line: record.line,
                    problem: "\(fields.count) fields: expected \(currencies.count + 1), as in the header")
            }
            guard let day = day(fields[0]) else {
                throw CSVRecords.Malformed(
                    line: record.line, problem: "\"\(fields[0])\" is no day: expected 2026-11-25 or 25 November 2026")
            }
            if let first = lines.updateValue(record.line, forKey: day) {
                throw CSVRecords.Malformed(line: record.line, problem: "duplicate day \(day), first on line \(first)")
            }
            for (currency, rate) in zip(currencies, fields.dropFirst()) where rate != "" && rate != "N/A" {
                guard Decimals.isNumber(rate), rate.contains(where: { ("1"..."9").contains($0) }) else {
                    throw CSVRecords.Malformed(
                        line: record.line,
                        problem: "\"\(rate)\" is no rate of \(currency): expected a number above 0, or N/A")
                }
                rates.append(ExchangeRate(currency: currency, day: day, perEuro: rate))
            }
        }
        return rates
    }

    private static let months = [
        "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
        "december",
    ]

    private static func day(_ text: String) -> String? {
        if Decimals.isDay(text) { return text }
        let parts = text.lowercased().split(separator: " ").map(String.init)
        guard parts.count == 3, let day = Int(parts[0]), let month = months.firstIndex(of: parts[1]),
            let year = Int(parts[2]),
            let instant = Instant(year: year, month: month + 1, day: day, hour: 0, minute: 0, second: 0)
        else { return nil }
        return String(instant.description.prefix(10))
    }
}

/// A CSV file of the stores' shares: columns store, kind, from and percent, and optionally country and later_percent.
enum CommissionFile {
    static func commissions(_ records: [CSVRecords.Record]) throws(CSVRecords.Malformed) -> [Commission] {
        let columns = try CSVColumns(
            records.first, required: ["store", "kind", "from", "percent"], optional: ["country", "later_percent"])
        var commissions: [Commission] = []
        var keys = Decimals.Keys()
        for record in records.dropFirst() {
            let field = try columns.fields(record)
            let commission = Commission(
                store: try record.one(of: ["apple", "google"], field("store"), "store"),
                kind: try record.one(of: ["subscription", "one_time"], field("kind"), "kind"),
                country: try record.country(field("country")), from: try record.day(field("from"), "from"),
                percent: try record.percent(field("percent"), "percent", below: 100),
                laterPercent: try record.percent(
                    field("later_percent").isEmpty ? field("percent") : field("later_percent"), "later_percent",
                    below: 100))
            try keys.add([commission.store, commission.kind, commission.country, commission.from], record)
            commissions.append(commission)
        }
        return commissions
    }
}

/// A CSV file of taxes: columns from and percent, and optionally country.
enum TaxFile {
    static func rates(_ records: [CSVRecords.Record]) throws(CSVRecords.Malformed) -> [TaxRate] {
        let columns = try CSVColumns(records.first, required: ["from", "percent"], optional: ["country"])
        var rates: [TaxRate] = []
        var keys = Decimals.Keys()
        for record in records.dropFirst() {
            let field = try columns.fields(record)
            let rate = TaxRate(
                country: try record.country(field("country")), from: try record.day(field("from"), "from"),
                percent: try record.percent(field("percent"), "percent", below: 1000))
            try keys.add([rate.country, rate.from], record)
            rates.append(rate)
        }
        return rates
    }
}

/// The values that files of rates consist of.
private enum Decimals {
    static func isNumber(_ text: String) -> Bool { text.wholeMatch(of: /[0-9]{1,12}(\.[0-9]{1,12})?/) != nil }

    /// A day such as `2026-11-25`.
    static func isDay(_ text: String) -> Bool {
        text.wholeMatch(of: /[0-9]{4}-[0-9]{2}-[0-9]{2}/) != nil && Instant(iso8601: text) != nil
    }

    /// What each line of a file is about, which must be something else for each.
    struct Keys {
        private var lines: [[String]: Int] = [:]

        mutating func add(_ key: [String], _ record: CSVRecords.Record) throws(CSVRecords.Malformed) {
            guard let first = lines.updateValue(record.line, forKey: key) else { return }
            throw CSVRecords.Malformed(
                line: record.line,
                problem: "the same as line \(first): \(key.filter { !$0.isEmpty }.joined(separator: ", "))")
        }
    }
}

extension CSVRecords.Record {
    fileprivate func one(
        of known: [String], _ text: String, _ column: String
    ) throws(CSVRecords.Malformed) -> String {
        if known.contains(text) { return text }
        throw CSVRecords.Malformed(
            line: line, problem: "\(column) \"\(text)\": expected \(known.joined(separator: " or "))")
    }

    fileprivate func country(_ text: String) throws(CSVRecords.Malformed) -> String {
        if text.isEmpty || text.wholeMatch(of: /[A-Z]{2,3}/) != nil { return text }
        throw CSVRecords.Malformed(
            line: line, problem: "country \"\(text)\": expected two or three capital letters, or nothing for all others"
        )
    }

    fileprivate func day(_ text: String, _ column: String) throws(CSVRecords.Malformed) -> String {
        if Decimals.isDay(text) { return text }
        throw CSVRecords.Malformed(line: line, problem: "\(column) \"\(text)\": expected a day such as 2026-11-25")
    }

    fileprivate func percent(
        _ text: String, _ column: String, below limit: Int
    ) throws(CSVRecords.Malformed) -> String {
        if Decimals.isNumber(text), let number = Double(text), number < Double(limit) { return text }
        throw CSVRecords.Malformed(
            line: line, problem: "\(column) \"\(text)\": expected a number from 0 to below \(limit), such as 15 or 17.5"
        )
    }
}
