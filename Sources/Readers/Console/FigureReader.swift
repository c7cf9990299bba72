import Encoding
import EventLog
import Postgres
import Synchronization

/// Reads figures from the analyst's views, each within ``Limits/figureWaitMax``, and keeps them for
/// ``Limits/figureAgeMax`` or until the stream has other events.
package final class FigureReader: Sendable {
    private struct Key: Hashable {
        let name: String
        let stream: Int32
        let head: Int64
        let from: String
        let to: String
    }

    private struct Kept {
        let task: Task<Result<FigureRows, FigureFailure>, Never>
        let since: ContinuousClock.Instant
    }

    private let pool: PostgresPool
    private let now: @Sendable () -> ContinuousClock.Instant
    private let kept = Mutex<[Key: Kept]>([:])

    /// - Parameter pool: With the rights of `subledger_analyst`.
    package init(pool: PostgresPool, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.pool = pool
        self.now = now
    }

    /// The rows of a figure; concurrent and repeated calls share one query.
    ///
    /// - Parameters:
    ///   - from: The first day, `2026-10-03`, inclusive.
    ///   - to: The last day, inclusive.
    ///   - at: Our clock, with which the result is stamped.
    package func rows(
        of figure: FigureQuery, in stream: StreamState, from: String, to: String, at: Instant
    ) async -> Result<FigureRows, FigureFailure> {
        let key = Key(name: figure.rawValue, stream: stream.streamId, head: stream.head, from: from, to: to)
        let task = kept.withLock { kept in
            let now = now()
            kept = kept.filter { now - $0.value.since < Limits.figureAgeMax }
            if let known = kept[key] { return known.task }
            if kept.count >= Limits.figuresKeptMax { kept.removeAll() }
            let task = Task { await self.read(figure, stream, from: from, to: to, at: at) }
            kept[key] = Kept(task: task, since: now)
            return task
        }
        return await task.value
    }

    private func read(
        _ figure: FigureQuery, _ stream: StreamState, from: String, to: String, at: Instant
    ) async -> Result<FigureRows, FigureFailure> {
        let literals: [ReadableSQL.Literal] = [
            .text(stream.app), .text(stream.environment), .text(from), .text(to),
        ]
        let sql = ReadableSQL(figure.statement, literals).text
        do throws(PostgresError) {
            let found = try await pool.query(
                figure.statement,
                [Parameter(stream.app), Parameter(stream.environment), Parameter(from), Parameter(to)],
                deadline: .now + Limits.figureWaitMax)
            var rows: [[String?]] = []
            for row in found {
                var values: [String?] = []
                for column in figure.columns.indices { values.append(try row.optional(at: column)) }
                rows.append(values)
            }
            return .success(FigureRows(columns: figure.columns, rows: rows, sql: sql, madeAt: at))
        } catch {
            let tookTooLong =
                switch error.kind {
                case .deadlineExceeded: true
                case .server: error.sqlstate == "57014"
                case .unavailable, .outcomeUnknown, .closed, .decoding: false
                }
            return .failure(FigureFailure(tookTooLong: tookTooLong, sql: sql))
        }
    }
}

/// The rows of a figure as text.
package struct FigureRows: Sendable {
    package let columns: [String]
    package let rows: [[String?]]
    package let sql: String
    package let madeAt: Instant
}

/// A figure that cannot be shown now, with the query that reads it.
package struct FigureFailure: Error, Sendable {
    package let tookTooLong: Bool
    package let sql: String
}
