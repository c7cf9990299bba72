import Crypto
import Encoding
import Foundation
import Postgres
import Readers
import Server

/// A report that a store offers for download, as it is downloaded: compressed or not, in UTF-8 or UTF-16.
///
/// It is read by pieces, so that memory use does not depend on its size: once to check it as a whole, and again to add its
/// rows. So a file with an error leaves nothing behind, not even in tables to be vacuumed.
struct ReportFile {
    let report: StoreReport
    private let path: String
    private let file: FileHandle
    private let pieceBytes: Int

    /// - Parameters:
    ///   - path: Of the file; its name says which other file it replaces.
    ///   - pieceBytes: How much is read at once.
    init(_ path: String, pieceBytes: Int = 1 << 20) throws {
        guard let file = FileHandle.rereadable(path), let digest = try? Self.digest(file) else {
            throw CSVFile.Malformed(description: "\(path): \(InputFile.unreadable)")
        }
        let name = Self.name(of: path)
        let day = Self.day(in: name)
        var rows = try ReportRows(file, path: path, day: day, pieceBytes: pieceBytes)
        var count = 0
        var days: ClosedRange<String>?
        while let row = try rows.next() {
            count += 1
            days = min(days?.lowerBound ?? row.day, row.day)...max(days?.upperBound ?? row.day, row.day)
        }
        guard let period = rows.period ?? days ?? day.map({ $0...$0 }) else {
            throw CSVFile.Malformed(
                description: "\(path):1: the file has no rows, and its name no day such as 20261125")
        }
        report = StoreReport(
            digest: digest, kind: rows.kind.rawValue, name: name, firstDay: period.lowerBound,
            lastDay: period.upperBound, rows: count)
        self.path = path
        self.file = file
        self.pieceBytes = pieceBytes
    }

    /// Adds the report, see ``StoreReports/add(_:batchRows:on:next:)``.
    func add(batchRows: Int? = nil, on connection: PostgresConnection) async throws -> StoreReports.Outcome {
        var rows: ReportRows?
        return try await StoreReports.add(report, batchRows: batchRows, on: connection) {
            if rows == nil {
                rows = try ReportRows(file, path: path, day: Self.day(in: report.name), pieceBytes: pieceBytes)
            }
            if let row = try rows?.next() { return row }
            guard try Self.digest(file) == report.digest else {
                throw CommandProblem("\(path): changed while it was read: import it again")
            }
            return nil
        }
    }

    private static func digest(_ file: FileHandle) throws -> [UInt8] {
        try file.seek(toOffset: 0)
        var hash = SHA256()
        while let piece = try file.read(upToCount: 1 << 20), !piece.isEmpty { hash.update(data: piece) }
        return Array(hash.finalize())
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
