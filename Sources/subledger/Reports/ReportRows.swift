import Encoding
import Foundation
import Readers

/// The rows of a report, read by pieces.
struct ReportRows {
    private let path: String
    private let content: PackedFile
    private var records: TextRecords
    private let separator: UInt8
    /// The lines up to the header, which are read first.
    private var head: ArraySlice<TextRecords.Record>
    private var layout: ReportLayout
    private var isAtEnd = false

    private static let tab = UInt8(ascii: "\t")
    /// Most lines up to the header.
    private static let headLinesMax = 8

    /// - Parameters:
    ///   - file: Is read from its start, and must not be read otherwise meanwhile.
    ///   - path: For errors.
    ///   - day: Of rows that have none.
    ///   - pieceBytes: How much is read at once.
    init(_ file: FileHandle, path: String, day: String?, pieceBytes: Int) throws {
        let content = try PackedFile(file, name: path, pieceBytes: pieceBytes)
        do {
            var records = try TextRecords(bytesCount: nil, read: try ReportText.pieces(of: content))
            records.hasQuotes = false
            // In one of Apple's reports, its vendor and period stand before the names of the columns.
            var head: [TextRecords.Record] = []
            var header: TextRecords.Record?
            while header == nil, head.count < Self.headLinesMax, let record = try records.next() {
                head.append(record)
                if !head[0].bytes.starts(with: "Vendor Name\t".utf8)
                    || record.bytes.starts(with: "Transaction Date\t".utf8)
                {
                    header = record
                }
            }
            guard let names = header ?? head.first else {
                throw CSVRecords.Malformed(line: 1, problem: "the file is empty")
            }
            // Tabs in Apple's files, in which nothing is quoted, and commas in Google's.
            separator = names.bytes.contains(Self.tab) ? Self.tab : UInt8(ascii: ",")
            layout = try ReportLayout(header: names.bytes, day: day)
            records.hasQuotes = separator != Self.tab
            self.records = records
            self.head = head[...]
        } catch let error as CSVRecords.Malformed {
            try Self.fail(error, path, content)
        }
        self.path = path
        self.content = content
    }

    var kind: ReportLayout.Kind { layout.kind }

    /// The first and the last day that the file states before its header; nil if it states none.
    var period: ClosedRange<String>? { layout.period }

    /// The next row; nil after the last one.
    ///
    /// - Throws: `CSVFile.Malformed` and `CommandProblem`, after the last row also for what only all rows show.
    mutating func next() throws -> StoreReport.Row? {
        do {
            while let record = try nextRecord() {
                if let row = try layout.row(record) { return row }
            }
            if !isAtEnd { try layout.finish() }
            isAtEnd = true
            return nil
        } catch let error as CSVRecords.Malformed {
            try Self.fail(error, path, content)
        }
    }

    private mutating func nextRecord() throws -> CSVRecords.Record? {
        guard let record = try head.popFirst() ?? records.next() else { return nil }
        return try CSVRecords.read(
            record.bytes, separatedBy: separator, hasQuotes: separator != Self.tab, from: record.line
        ).first
    }

    private static func fail(_ error: CSVRecords.Malformed, _ path: String, _ content: PackedFile) throws -> Never {
        // A damaged file may have a bad row before gzip finds the damage.
        try content.checkRest()
        throw CSVFile.Malformed(description: "\(path):\(error.line): \(error.problem)")
    }
}
