import Crypto
import Encoding
import Foundation
import Readers
import Server

/// A report that a store offers for download, as it is downloaded: compressed or not, in UTF-8 or UTF-16.
struct ReportFile {
    let report: StoreReport
    let rows: [StoreReport.Row]

    /// - Parameter path: Of the file; its name says which other file it replaces.
    init(_ path: String) throws {
        guard let packed = InputFile.read(path) else {
            throw CSVFile.Malformed(description: "\(path): \(InputFile.unreadable)")
        }
        let content = try PackedFile.content(packed, name: path)
        do throws(CSVRecords.Malformed) {
            let text = try Self.text(content)
            guard let header = Self.header(text) else {
                throw CSVRecords.Malformed(line: 1, problem: "the file is empty")
            }
            let layout = try ReportLayout(header: header)
            let name = Self.name(of: path)
            let records = try Self.records(text, header)
            rows = try layout.rows(records, day: Self.day(in: name))
            let days = rows.map(\.day)
            let period = try layout.period(records)
            guard let first = period?.first ?? days.min() ?? Self.day(in: name),
                let last = period?.last ?? days.max() ?? Self.day(in: name)
            else {
                throw CSVRecords.Malformed(
                    line: 1, problem: "the file has no rows, and its name no day such as 20261125")
            }
            report = StoreReport(
                digest: Array(SHA256.hash(data: packed)), kind: layout.kind.rawValue, name: name, firstDay: first,
                lastDay: last)
        } catch {
            throw CSVFile.Malformed(description: "\(path):\(error.line): \(error.problem)")
        }
    }

    /// UTF-8 without a byte order mark.
    private static func text(_ bytes: [UInt8]) throws(CSVRecords.Malformed) -> [UInt8] {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { return Array(bytes.dropFirst(3)) }
        let encoding: String.Encoding? =
            bytes.starts(with: [0xFF, 0xFE])
            ? .utf16LittleEndian : bytes.starts(with: [0xFE, 0xFF]) ? .utf16BigEndian : nil
        guard let encoding else { return bytes }
        guard let text = String(data: Data(bytes.dropFirst(2)), encoding: encoding) else {
            throw CSVRecords.Malformed(line: 1, problem: "the text is not valid UTF-16")
        }
        return Array(text.utf8)
    }

    /// The line with the names of the columns. In one of Apple's reports, its vendor and period stand before it.
    private static func header(_ text: [UInt8]) -> [UInt8]? {
        let first = text.split(
            maxSplits: 8, whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
        ).prefix(8)
        guard let line = first.first, line.starts(with: "Vendor Name\t".utf8) else {
            return first.first.map(Array.init)
        }
        return Array(first.first { $0.starts(with: "Transaction Date\t".utf8) } ?? line)
    }

    /// All lines, the header included, which shows what separates the columns: tabs in Apple's files, commas in Google's.
    /// Nothing is quoted in files with tabs.
    private static func records(_ text: [UInt8], _ header: [UInt8]) throws(CSVRecords.Malformed) -> [CSVRecords.Record]
    {
        guard header.contains(UInt8(ascii: "\t")) else { return try CSVRecords.read(text) }
        var records: [CSVRecords.Record] = []
        var number = 0
        for line in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            number += 1
            let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            guard line.contains(where: { $0 != UInt8(ascii: "\t") && $0 != UInt8(ascii: " ") }) else { continue }
            var fields: [String] = []
            for field in line.split(separator: UInt8(ascii: "\t"), omittingEmptySubsequences: false) {
                guard let text = String(validating: field, as: UTF8.self) else {
                    throw CSVRecords.Malformed(line: number, problem: "field is not valid UTF-8")
                }
                fields.append(text)
            }
            records.append(CSVRecords.Record(line: number, fields: fields))
        }
        return records
    }

    /// The name without folder, without what compression and browsers add: `salesreport_202611 (1).zip` is
    /// `salesreport_202611`.
    static func name(of path: String) -> String {
        var name = Substring(path.split(separator: "/").last ?? "")
        while let ending = [".gz", ".zip", ".csv", ".txt", ".tsv"].first(where: { name.lowercased().hasSuffix($0) }) {
            name = name.dropLast(ending.count)
        }
        return String(name.replacing(#/ \([0-9]+\)$/#, with: ""))
    }

    /// The day that the name of one of Apple's files ends with, as in `S_D_12345678_20261125`.
    static func day(in name: String) -> String? {
        guard let digits = name.firstMatch(of: /(?:^|[^0-9])(20[0-9]{2})([0-9]{2})([0-9]{2})(?:$|[^0-9])/)?.output
        else {
            return nil
        }
        let day = "\(digits.1)-\(digits.2)-\(digits.3)"
        return Instant(iso8601: day) == nil ? nil : day
    }
}
