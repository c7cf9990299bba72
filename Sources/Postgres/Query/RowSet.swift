import CLibpq

/// The rows of a result, in the server's order, held in libpq's memory until the last reference is released.
///
/// Unchecked because `OpaquePointer` is not `Sendable`: libpq never changes a `PGresult` after returning it, documents
/// concurrent reads as safe, and only `deinit` frees it.
package final class RowSet: @unchecked Sendable {
    let result: OpaquePointer

    /// The number of rows; zero for a statement that returns none.
    package let count: Int

    /// The number of columns of each row.
    let columnCount: Int

    /// Takes ownership of the result and clears it on deinit.
    init(_ result: OpaquePointer) {
        self.result = result
        count = Int(PQntuples(result))
        columnCount = Int(PQnfields(result))
    }

    deinit {
        PQclear(result)
    }

    /// The number of rows that the statement inserted, updated, deleted or selected, from its command tag.
    package var affectedRows: Int {
        Int(String(cString: PQcmdTuples(result))) ?? 0
    }

    /// The command that the server reports as done, such as `COMMIT`; the `commit` of a failed transaction yields
    /// `ROLLBACK`.
    var commandTag: String {
        String(cString: PQcmdStatus(result))
    }
}

extension RowSet: RandomAccessCollection {
    package var startIndex: Int { 0 }
    package var endIndex: Int { count }

    /// - Precondition: The index is in range.
    package subscript(row: Int) -> Row {
        precondition(row >= 0 && row < count, "row index out of range")
        return Row(rows: self, index: row)
    }
}
