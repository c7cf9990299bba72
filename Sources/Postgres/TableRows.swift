/// Rows on their way to a table, written value by value: each row in turn, and in it each column in the order of the
/// statement that takes them, in its exact type.
package protocol TableRows {
    /// Begins the next row.
    ///
    /// - Precondition: The one before it is whole.
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
    /// `bigint[]`, of one dimension and without nulls.
    mutating func append(_ numbers: [Int64])
}
