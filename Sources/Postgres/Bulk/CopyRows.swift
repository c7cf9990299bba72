/// Rows in the binary format of `copy … from stdin`, the server's cheapest way to insert many rows.
///
/// Values are appended column by column, in the order and exact types of the statement's columns; the server converts
/// nothing.
///
/// Source: PostgreSQL, "COPY", section "Binary Format".
package struct CopyRows: TableRows, Sendable {
    private(set) var bytes: [UInt8]
    package private(set) var count = 0
    private let columns: Int
    private var values = 0

    private static let signature = Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0x00]

    /// - Parameter rowBytes: Expected length of a row, for reserving memory.
    package init(columns: Int, rows: Int, rowBytes: Int) {
        self.columns = columns
        bytes = []
        bytes.reserveCapacity(32 + rows * rowBytes)
        bytes += Self.signature
        // No flags, no header extension.
        append(word: 0)
        append(word: 0)
    }

    package var isEmpty: Bool { count == 0 }

    package mutating func beginRow() {
        checkLastRow()
        count += 1
        append(half: UInt16(columns))
    }

    /// The file trailer, sent after the last row.
    static let end: [UInt8] = [0xFF, 0xFF]

    /// - Precondition: The last row is complete.
    func checkLastRow() {
        precondition(values == count * columns, "the last row has too few or too many columns")
    }

    /// Appends SQL null, of any type.
    package mutating func appendNull() {
        values += 1
        append(word: .max)
    }

    package mutating func append(_ text: String?) {
        guard let text else { return appendNull() }
        values += 1
        append(word: UInt32(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }

    package mutating func append(utf8: [UInt8]) {
        values += 1
        append(word: UInt32(utf8.count))
        bytes.append(contentsOf: utf8)
    }

    /// `bytea`.
    package mutating func append(bytes: [UInt8]) { append(utf8: bytes) }

    /// `numeric`, from digits with at most a sign before them and a point between them, such as `-17.50`, whose scale is 2.
    ///
    /// Source: PostgreSQL, `numeric_recv` in `src/backend/utils/adt/numeric.c`: the number of groups of four digits, the
    /// power of 10,000 that the first group counts, the sign, the scale, and the groups.
    package mutating func append(numeric text: String?) {
        guard let text else { return appendNull() }
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let parts = text.utf8.dropFirst(isNegative ? 1 : 0).split(
            separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let whole = [UInt8](parts[0])
        let fraction = parts.count > 1 ? [UInt8](parts[1]) : []
        let groups = (before: (whole.count + 3) / 4, after: (fraction.count + 3) / 4)
        values += 1
        append(word: UInt32(8 + 2 * (groups.before + groups.after)))
        append(half: UInt16(groups.before + groups.after))
        append(half: UInt16(truncatingIfNeeded: groups.before - 1))
        append(half: isNegative ? 0x4000 : 0)
        append(half: UInt16(fraction.count))
        // Zeros complete the first group and the last one.
        let zero = UInt8(ascii: "0")
        var digits = [UInt8](repeating: zero, count: groups.before * 4 - whole.count)
        digits += whole
        digits += fraction
        digits += [UInt8](repeating: zero, count: groups.after * 4 - fraction.count)
        for start in stride(from: 0, to: digits.count, by: 4) {
            append(half: digits[start..<start + 4].reduce(0) { $0 * 10 + UInt16($1 - zero) })
        }
    }

    package mutating func append(json: [UInt8]?) {
        guard let json else { return appendNull() }
        values += 1
        append(word: UInt32(json.count + 1))
        bytes.append(1)
        bytes.append(contentsOf: json)
    }

    package mutating func append(_ flag: Bool?) {
        guard let flag else { return appendNull() }
        values += 1
        append(word: 1)
        bytes.append(flag ? 1 : 0)
    }

    package mutating func append(_ number: Int32?) {
        guard let number else { return appendNull() }
        values += 1
        append(word: 4)
        append(word: UInt32(bitPattern: number))
    }

    package mutating func append(_ number: Int64?) {
        guard let number else { return appendNull() }
        values += 1
        append(word: 8)
        append(long: UInt64(bitPattern: number))
    }

    package mutating func append(_ time: Timestamptz?) {
        guard let time else { return appendNull() }
        values += 1
        append(word: 8)
        append(long: UInt64(bitPattern: time.microsecondsOfServer))
    }

    package mutating func append(_ numbers: [Int64]) {
        values += 1
        append(word: UInt32(numbers.isEmpty ? 12 : 20 + numbers.count * 12))
        append(word: numbers.isEmpty ? 0 : 1)
        append(word: 0)
        append(word: PostgresType.int8.oid)
        guard !numbers.isEmpty else { return }
        append(word: UInt32(numbers.count))
        append(word: 1)
        for number in numbers {
            append(word: 8)
            append(long: UInt64(bitPattern: number))
        }
    }

    private mutating func append(half: UInt16) {
        bytes.append(UInt8(truncatingIfNeeded: half >> 8))
        bytes.append(UInt8(truncatingIfNeeded: half))
    }

    private mutating func append(word: UInt32) {
        append(half: UInt16(truncatingIfNeeded: word >> 16))
        append(half: UInt16(truncatingIfNeeded: word))
    }

    private mutating func append(long: UInt64) {
        append(word: UInt32(truncatingIfNeeded: long >> 32))
        append(word: UInt32(truncatingIfNeeded: long))
    }
}
