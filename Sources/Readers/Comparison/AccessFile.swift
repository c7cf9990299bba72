import Encoding

/// A file with what another service answers about its customers: CSV with the columns customerId, entitlement, active and
/// until, or JSON lines with these members. Other columns are ignored.
package struct AccessFile {
    /// What a row says.
    package struct Row: Sendable {
        package let customerId: String
        package let entitlement: String
        package let active: Bool
        /// The end of the access; ``Instant/latest`` if it has none. Nil if the row does not say.
        package let until: Instant?
    }

    private var records: TextRecords
    /// Those of a CSV file.
    private let names: [String]?
    /// The next customer, whose first row is read.
    private var waiting: Customer?

    /// A customer with the rows that are adjacent in the file.
    struct Customer: Sendable {
        let id: String
        /// The number of the first line.
        let line: Int
        var rows: [Row]
    }

    /// - Throws: ``CSVRecords/Malformed``, and what reading throws.
    package init(_ records: TextRecords) throws {
        var records = records
        guard records.format == .csv, let header = try records.next() else {
            names = nil
            self.records = records
            return
        }
        let names = try CSVRecords.read(header.bytes).first?.fields.map(CSVRecords.trimmed) ?? []
        for required in ["customerId", "entitlement", "active"] where !names.contains(required) {
            throw CSVRecords.Malformed(line: header.line, problem: "missing column \"\(required)\"")
        }
        self.names = names
        self.records = records
    }

    package var bytesCount: Int64? { records.bytesCount }
    package var offset: Int64 { records.offset }

    /// The next customers; empty at the end.
    mutating func next(_ count: Int) throws -> [Customer] {
        var customers: [Customer] = []
        while customers.count < count, let customer = try next() { customers.append(customer) }
        return customers
    }

    private mutating func next() throws -> Customer? {
        var current = waiting
        waiting = nil
        while let record = try records.next() {
            let row: Row
            do throws(CSVRecords.Malformed) {
                row = try self.row(record.bytes)
            } catch {
                throw CSVRecords.Malformed(line: record.line, problem: error.problem)
            }
            guard let known = current, known.id != row.customerId else {
                current = current ?? Customer(id: row.customerId, line: record.line, rows: [])
                current?.rows.append(row)
                continue
            }
            waiting = Customer(id: row.customerId, line: record.line, rows: [row])
            return known
        }
        return current
    }

    private func row(_ bytes: [UInt8]) throws(CSVRecords.Malformed) -> Row {
        func malformed(_ problem: String) -> CSVRecords.Malformed { CSVRecords.Malformed(line: 1, problem: problem) }
        var texts: [String: String] = [:]
        if let names {
            let fields = try CSVRecords.read(bytes).first?.fields ?? []
            guard fields.count == names.count else {
                throw malformed("\(fields.count) fields: expected \(names.count), as in the header")
            }
            for (name, field) in zip(names, fields) { texts[name] = CSVRecords.trimmed(field) }
        } else {
            guard let json = try? JSONDocument(bytes).root, json.isObject else {
                throw malformed("the line is not a JSON object")
            }
            texts["customerId"] = json["customerId"]?.string
            texts["entitlement"] = json["entitlement"]?.string
            texts["active"] = json["active"]?.bool.map { $0 ? "true" : "false" } ?? json["active"]?.string
            if let until = json["until"] { texts["until"] = until.isNull ? "never" : until.string }
        }
        guard let customerId = texts["customerId"], !customerId.isEmpty else {
            throw malformed("customerId is missing")
        }
        guard let entitlement = texts["entitlement"], !entitlement.isEmpty else {
            throw malformed("entitlement is missing")
        }
        let active: Bool
        switch texts["active"]?.lowercased() {
        case "true", "t", "1": active = true
        case "false", "f", "0": active = false
        default: throw malformed("active must be true or false")
        }
        var until: Instant?
        if let text = texts["until"], !text.isEmpty {
            until = text == "never" ? .latest : Instant(iso8601: text)
            guard until != nil else {
                throw malformed("until must be an ISO 8601 instant such as 2026-11-08T08:11:46Z, or never")
            }
        }
        return Row(customerId: customerId, entitlement: entitlement, active: active, until: until)
    }
}
