/// A writer of table rows. Values are appended row by row, in the column order and exact types of the receiving
/// statement.
package protocol TableRows {
    /// Begins the next row.
    ///
    /// - Precondition: The previous row is complete.
    mutating func beginRow()

    /// `text`.
    mutating func append(_ text: String?)
    /// `text`, as UTF-8.
    mutating func append(utf8: [UInt8])
    /// `jsonb`, as JSON text.
    mutating func append(json: [UInt8]?)
    /// `boolean`.
    mutating func append(_ flag: Bool?)
    /// `integer`.
    mutating func append(_ number: Int32?)
    /// `bigint`.
    mutating func append(_ number: Int64?)
    /// `timestamptz`.
    mutating func append(_ time: Timestamptz?)
    /// `bigint[]`, one-dimensional and without nulls.
    mutating func append(_ numbers: [Int64])
}
