import Encoding
import EventLog
import Server
import Subscriptions

/// A file with purchases of customers, row by row.
struct ImportFile {
    struct Row {
        /// The number of its first line.
        let line: Int
        let row: Result<ImportRow, ImportRow.Malformed>
        /// As far as it is known.
        let customerId: String
        /// That of the file, for progress.
        let bytes: Int
    }

    private let name: String
    private var records: TextRecords
    private let columns: Columns?
    private let apps: ImportRow.Apps
    private let environment: Environment

    /// The columns of a CSV file.
    private struct Columns {
        let layout: ImportLayout
        let separator: UInt8
        let places: [String: Int]
        let count: Int
    }

    var bytesCount: Int64? { records.bytesCount }
    var offset: Int64 { records.offset }

    /// - Parameters:
    ///   - name: A path, or - for standard input.
    ///   - apps: Those of rows that name none.
    ///   - environment: That of rows that name none.
    init(_ name: String, apps: ImportRow.Apps, environment: Environment) throws {
        self.apps = apps
        self.environment = environment
        self.name = name
        var records = try CSVFile.naming(name) { try TextRecords(file: name) }
        columns = try CSVFile.naming(name) {
            guard records.format == .csv, let header = try records.next() else { return nil }
            return try Self.columns(header)
        }
        self.records = records
    }

    private static func columns(_ header: TextRecords.Record) throws(CSVRecords.Malformed) -> Columns {
        let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")].map { separator in
            (separator, header.bytes.count { $0 == separator })
        }
        let separator = separators.max { $0.1 < $1.1 }?.0 ?? UInt8(ascii: ",")
        let records = try CSVRecords.read(header.bytes, separatedBy: separator)
        let names = records.first?.fields.map(CSVColumns.trimmed) ?? []
        guard let layout = ImportLayout(header: names) else {
            throw CSVRecords.Malformed(
                line: header.line, problem: "unknown columns: expected a header with \(ImportLayout.expected)")
        }
        var places: [String: Int] = [:]
        for (place, name) in names.enumerated() where places.updateValue(place, forKey: name) != nil {
            throw CSVRecords.Malformed(line: header.line, problem: "duplicate column \"\(name)\"")
        }
        return Columns(layout: layout, separator: separator, places: places, count: names.count)
    }

    /// The next row; nil at the end.
    ///
    /// - Throws: If the rest cannot be read as rows.
    mutating func next() throws -> Row? {
        guard let record = try CSVFile.naming(name, { try records.next() }) else { return nil }
        var customerId = ""
        let row = Result { () throws(ImportRow.Malformed) -> ImportRow in
            let fields = try fields(record.bytes)
            customerId = fields["customerId"] ?? ""
            return try ImportRow(apps: apps, environment: environment) { fields[$0] }
        }
        return Row(line: record.line, row: row, customerId: customerId, bytes: record.bytes.count)
    }

    private func fields(_ bytes: [UInt8]) throws(ImportRow.Malformed) -> [String: String] {
        guard let columns else {
            guard let json = try? JSONDocument(bytes).root else { throw ImportRow.Malformed("the line is not JSON") }
            return try ImportRow.texts(of: json)
        }
        let fields: [String]
        do throws(CSVRecords.Malformed) {
            fields = try CSVRecords.read(bytes, separatedBy: columns.separator).first?.fields ?? []
        } catch {
            throw ImportRow.Malformed(error.problem)
        }
        guard fields.count == columns.count else {
            throw ImportRow.Malformed("\(fields.count) fields: expected \(columns.count), as in the header")
        }
        return try columns.layout.fields { name in
            columns.places[name].map { CSVColumns.trimmed(fields[$0]) } ?? ""
        }
    }
}
