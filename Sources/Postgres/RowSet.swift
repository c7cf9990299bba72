import CLibpq

/// The rows that a statement gave, in the server's order, held in libpq's own memory until the last reader is gone.
///
/// Unchecked because `OpaquePointer` says nothing of threads: libpq never changes a `PGresult` after handing it over,
/// documents reading it from several threads as safe, and only `deinit` frees it.
package final class RowSet: @unchecked Sendable {
    let result: OpaquePointer

    /// How many rows were returned; zero for a statement that returns none.
    package let count: Int

    /// How many columns each row has.
    let columnCount: Int

    /// Takes over the result and clears it at the end.
    init(_ result: OpaquePointer) {
        self.result = result
        count = Int(PQntuples(result))
        columnCount = Int(PQnfields(result))
    }

    deinit {
        PQclear(result)
    }

    /// How many rows the statement inserted, updated, deleted or selected, as its command tag says.
    package var affectedRows: Int {
        Int(String(cString: PQcmdTuples(result))) ?? 0
    }

    /// What the server says that it did, such as `COMMIT`, which answers a `commit` of a failed transaction with
    /// `ROLLBACK`.
    var commandTag: String {
        String(cString: PQcmdStatus(result))
    }
}

extension RowSet: RandomAccessCollection {
    package var startIndex: Int { 0 }
    package var endIndex: Int { count }

    /// - Precondition: The row is in the set.
    package subscript(row: Int) -> Row {
        precondition(row >= 0 && row < count, "a row outside of the result")
        return Row(rows: self, index: row)
    }
}
