import CLibpq

/// One row of a result. Retains the whole result.
package struct Row: Sendable {
    let rows: RowSet
    let index: Int

    /// Reads a column that cannot be null.
    ///
    /// - Parameter column: Zero-based index.
    /// - Throws: ``PostgresError/Kind/decoding`` when the column is null, of another type, or missing.
    package func value<T: PostgresDecodable>(
        _ type: T.Type = T.self, at column: Int
    ) throws(PostgresError) -> T {
        guard let value = try optional(type, at: column) else {
            throw .decoding(PostgresDecodingError("null"), column: column)
        }
        return value
    }

    /// Reads a column; SQL null is `nil`.
    ///
    /// - Parameter column: Zero-based index.
    /// - Throws: ``PostgresError/Kind/decoding`` when the column is of another type or missing.
    package func optional<T: PostgresDecodable>(
        _ type: T.Type = T.self, at column: Int
    ) throws(PostgresError) -> T? {
        defer { withExtendedLifetime(rows) {} }
        guard let bytes = try bytes(at: column) else { return nil }
        do {
            return try T.decode(postgres: bytes, oid: PQftype(rows.result, Int32(column)))
        } catch {
            throw .decoding(error, column: column)
        }
    }

    /// Reads a non-null column that holds a one-dimensional array; its elements may be null.
    ///
    /// - Parameter column: Zero-based index.
    /// - Throws: ``PostgresError/Kind/decoding`` when the column is null, not an array of that type, or missing.
    package func array<T: PostgresDecodable>(of type: T.Type, at column: Int) throws(PostgresError) -> [T?] {
        defer { withExtendedLifetime(rows) {} }
        guard let bytes = try bytes(at: column) else {
            throw .decoding(PostgresDecodingError("null"), column: column)
        }
        var decoder = ArrayDecoder(bytes)
        do {
            return try decoder.elements(of: type)
        } catch {
            throw .decoding(error, column: column)
        }
    }

    /// The column's bytes in libpq's memory, or `nil` for SQL null. They are valid as long as the result; callers keep
    /// the result alive while they read, since a pointer does not retain it.
    private func bytes(at column: Int) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard column >= 0, column < rows.columnCount else {
            throw .decoding(PostgresDecodingError("no such column: the result has \(rows.columnCount)"), column: column)
        }
        let row = Int32(index)
        let field = Int32(column)
        if PQgetisnull(rows.result, row, field) == 1 { return nil }
        let length = Int(PQgetlength(rows.result, row, field))
        return UnsafeRawBufferPointer(start: PQgetvalue(rows.result, row, field), count: length)
    }
}
