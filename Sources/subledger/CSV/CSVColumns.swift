import Encoding

/// The columns that the header line of a CSV file names, in any order.
struct CSVColumns {
    private let places: [String: Int]
    private let count: Int

    /// - Parameters:
    ///   - required: Must be named.
    ///   - optional: May be named.
    init(
        _ header: CSVRecords.Record?, required: [String], optional: [String]
    ) throws(CSVRecords.Malformed) {
        let known = required + optional
        guard let header else {
            throw CSVRecords.Malformed(
                line: 1, problem: "missing header line: expected \(known.joined(separator: ","))")
        }
        var places: [String: Int] = [:]
        for (place, field) in header.fields.enumerated() {
            let name = Self.trimmed(field)
            guard known.contains(name) else {
                throw CSVRecords.Malformed(
                    line: header.line,
                    problem: "unknown column \"\(name)\": expected \(known.joined(separator: ", "))")
            }
            guard places.updateValue(place, forKey: name) == nil else {
                throw CSVRecords.Malformed(line: header.line, problem: "duplicate column \"\(name)\"")
            }
        }
        for name in required where places[name] == nil {
            throw CSVRecords.Malformed(line: header.line, problem: "missing column \"\(name)\"")
        }
        self.places = places
        count = header.fields.count
    }

    /// Returns the fields of a record by column, without surrounding spaces; empty if the column is not in the file.
    func fields(_ record: CSVRecords.Record) throws(CSVRecords.Malformed) -> (String) -> String {
        guard record.fields.count == count else {
            throw CSVRecords.Malformed(
                line: record.line, problem: "\(record.fields.count) fields: expected \(count), as in the header")
        }
        return { name in places[name].map { Self.trimmed(record.fields[$0]) } ?? "" }
    }

    static func trimmed(_ text: String) -> String { CSVRecords.trimmed(text) }
}
