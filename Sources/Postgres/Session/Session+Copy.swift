import CLibpq

extension Session {
    /// Maximum bytes passed to libpq at once; libpq buffers whatever the server has not accepted yet.
    private static let copyBytesMax = 1 << 16

    /// Runs a `copy … from stdin (format binary)` with the rows. It is not prepared, because the server keeps no plan
    /// for it.
    func copy(
        _ rows: CopyRows, by statement: Statement, deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> Outcome {
        try require(PQexitPipelineMode(connection))
        try require(PQsendQuery(connection, statement.sql))
        var outcome: Outcome?
        while let result = try nextResult(deadline: deadline) {
            let status = PQresultStatus(result)
            if status == PGRES_COPY_IN {
                PQclear(result)
                try send(rows)
            } else {
                // This is the only result; the end of results follows.
                outcome = try self.outcome(of: result, status: status, statement: statement)
            }
        }
        guard let outcome else { throw lost() }
        return outcome
    }

    /// Passes all rows to libpq, which sends the rest while the response is awaited.
    private func send(_ rows: CopyRows) throws(PostgresError) {
        rows.checkLastRow()
        for bytes in [rows.bytes, CopyRows.end] {
            let isTaken = bytes.withUnsafeBytes { bytes in
                let text = bytes.assumingMemoryBound(to: CChar.self)
                return stride(from: 0, to: bytes.count, by: Self.copyBytesMax).allSatisfy { start in
                    let length = min(Self.copyBytesMax, bytes.count - start)
                    return PQputCopyData(connection, text.baseAddress.map { $0 + start }, Int32(length)) == 1
                }
            }
            guard isTaken else { throw lost() }
        }
        try require(PQputCopyEnd(connection, nil))
    }
}
