import Encoding
import Server

/// A file with what another service answers about its customers: CSV with the columns customerId, entitlement, active and
/// until, or JSON lines with these members. Other columns are ignored.
struct AccessFile {
    /// What a row says.
    struct Row: Sendable {
        let customerId: String
        let entitlement: String
        let active: Bool
        /// The end of the access; ``Instant/latest`` if it has none. Nil if the row does not say.
        let until: Instant?
    }

    private let name: String
    private var records: ImportRecords
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

    /// - Parameter name: A path, or - for standard input.
    init(_ name: String) throws {
        self.name = name
        records = try ImportRecords(name)
        guard records.format == .csv, let header = try records.next() else {
            names = nil
            return
        }
        do throws(CSVRecords.Malformed) {
            let names = try CSVRecords.read(header.bytes).first?.fields.map(CSVColumns.trimmed) ?? []
            for required in ["customerId", "entitlement", "active"] where !names.contains(required) {
                throw CSVRecords.Malformed(line: 1, problem: "missing column \"\(required)\"")
            }
            self.names = names
        } catch {
            throw CSVFile.Malformed(description: "\(name):\(header.line): \(error.problem)")
        }
    }

    var bytesCount: Int64? { records.bytesCount }
    var offset: Int64 { records.offset }

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
                throw CSVFile.Malformed(description: "\(name):\(record.line): \(error.problem)")
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
            for (name, field) in zip(names, fields) { texts[name] = CSVColumns.trimmed(field) }
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
