import ArgumentParser
import Encoding
import Readers

/// The format of an export's files. Each row is one line.
enum ExportFormat: String, CaseIterable, ExpressibleByArgument, Sendable {
    /// RFC 4180 with LF and a header line. Null is an empty field, an empty text is "".
    case csv
    /// A JSON object in each line, with every column.
    case jsonl

    func header(of table: ExportTable) -> [UInt8] {
        guard self == .csv else { return [] }
        return Array((table.columns.map(\.name).joined(separator: ",") + "\n").utf8)
    }

    /// Appends a row with the line end.
    func write(_ row: ExportRow, columns: [ExportColumn], to bytes: inout [UInt8]) {
        switch self {
        case .csv: Self.writeCSV(row.values, to: &bytes)
        case .jsonl:
            var writer = JSONWriter(bytesExpected: 512)
            writer.object { writer in
                for (column, value) in zip(columns, row.values) {
                    writer.key(column.name)
                    Self.write(value, column.kind, to: &writer)
                }
            }
            bytes += writer.bytes
        }
        bytes.append(UInt8(ascii: "\n"))
    }

    private static func write(_ value: String?, _ kind: ExportColumn.Kind, to writer: inout JSONWriter) {
        guard let value else { return writer.value(rawJSON: Array("null".utf8)) }
        switch kind {
        case .text, .instant, .second, .bytes: writer.value(value)
        case .number, .boolean, .json, .array: writer.value(rawJSON: Array(value.utf8))
        }
    }

    private static func writeCSV(_ values: [String?], to bytes: inout [UInt8]) {
        for (place, value) in values.enumerated() {
            if place > 0 { bytes.append(UInt8(ascii: ",")) }
            guard let value else { continue }
            guard value.isEmpty || value.utf8.contains(where: needsQuotes) else {
                bytes += value.utf8
                continue
            }
            bytes.append(UInt8(ascii: "\""))
            for byte in value.utf8 {
                if byte == UInt8(ascii: "\"") { bytes.append(byte) }
                bytes.append(byte)
            }
            bytes.append(UInt8(ascii: "\""))
        }
    }

    private static func needsQuotes(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: ",") || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\n")
            || byte == UInt8(ascii: "\r")
    }
}
