/// Rows as statement parameters: one array per column, which `unnest` turns back into rows.
///
/// Costs the server more than ``CopyRows``, but the statement can do more with the rows than insert them.
///
/// A column of arrays is sent as `text[]`, each array in PostgreSQL's text form: an array of arrays would have to be
/// rectangular.
package struct ArrayRows: TableRows, Sendable {
    package private(set) var count = 0
    private var columns: [Column]
    /// The index of the column that the next value belongs to.
    private var place: Int

    /// An array that is being built.
    private struct Column: Sendable {
        /// The elements, after space for a header that is written last.
        var bytes: [UInt8]
        var element = PostgresType.text
        var hasNull = false
    }

    /// Number of dimensions, null flag, element type, element count, lower bound.
    ///
    /// Source: PostgreSQL, `array_recv` in `src/backend/utils/adt/arrayfuncs.c`.
    private static let headerBytes = 20

    /// - Parameter valueBytes: Expected length of a value, for reserving memory.
    package init(columns: Int, rows: Int, valueBytes: Int) {
        let empty = [UInt8](repeating: 0, count: Self.headerBytes)
        self.columns = (0..<columns).map { _ in
            var column = Column(bytes: empty)
            column.bytes.reserveCapacity(Self.headerBytes + rows * (4 + valueBytes))
            return column
        }
        place = columns
    }

    /// Returns one parameter per column.
    ///
    /// - Precondition: There is at least one row, and the last row is complete.
    package consuming func parameters() -> [Parameter] {
        precondition(count > 0 && place == columns.count, "no rows, or the last row has too few columns")
        return columns.map { column in
            var bytes = column.bytes
            let header = [1, column.hasNull ? 1 : 0, column.element.oid, UInt32(count), 1]
            for (index, word) in header.enumerated() { Self.put(word, at: index * 4, in: &bytes) }
            return Parameter(oid: column.element.arrayOID, bytes: bytes)
        }
    }

    package mutating func beginRow() {
        precondition(place == columns.count, "the last row has too few columns")
        place = 0
        count += 1
    }

    package mutating func append(_ text: String?) {
        guard let text else { return appendNull(.text) }
        append(.text) { bytes in bytes.append(contentsOf: text.utf8) }
    }

    package mutating func append(utf8: [UInt8]) {
        append(.text) { bytes in bytes.append(contentsOf: utf8) }
    }

    package mutating func append(json: [UInt8]?) {
        guard let json else { return appendNull(.jsonb) }
        append(.jsonb) { bytes in
            bytes.append(1)
            bytes.append(contentsOf: json)
        }
    }

    package mutating func append(_ flag: Bool?) {
        guard let flag else { return appendNull(.bool) }
        append(.bool) { bytes in bytes.append(flag ? 1 : 0) }
    }

    package mutating func append(_ number: Int32?) {
        guard let number else { return appendNull(.int4) }
        append(.int4) { bytes in number.appendBigEndian(to: &bytes) }
    }

    package mutating func append(_ number: Int64?) {
        guard let number else { return appendNull(.int8) }
        append(.int8) { bytes in number.appendBigEndian(to: &bytes) }
    }

    package mutating func append(_ time: Timestamptz?) {
        guard let time else { return appendNull(.timestamptz) }
        append(.timestamptz) { bytes in time.microsecondsOfServer.appendBigEndian(to: &bytes) }
    }

    package mutating func append(_ numbers: [Int64]) {
        append("{" + numbers.map(String.init).joined(separator: ",") + "}")
    }

    @inline(__always)
    private mutating func append(_ element: PostgresType, _ write: (inout [UInt8]) -> Void) {
        columns[place].element = element
        let start = columns[place].bytes.count
        UInt32(0).appendBigEndian(to: &columns[place].bytes)
        write(&columns[place].bytes)
        let length = UInt32(columns[place].bytes.count - start - 4)
        Self.put(length, at: start, in: &columns[place].bytes)
        place += 1
    }

    private mutating func appendNull(_ element: PostgresType) {
        columns[place].element = element
        columns[place].hasNull = true
        UInt32.max.appendBigEndian(to: &columns[place].bytes)
        place += 1
    }

    private static func put(_ word: UInt32, at start: Int, in bytes: inout [UInt8]) {
        for offset in 0..<4 { bytes[start + offset] = UInt8(truncatingIfNeeded: word >> (24 - 8 * offset)) }
    }
}
