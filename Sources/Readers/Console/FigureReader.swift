import Encoding
import EventLog
import Postgres
import Synchronization

/// Reads figures from the analyst's views, each within ``Limits/figureWaitMax``, and keeps the results.
///
/// A figure that takes longer than ``Limits/figureIsQuick`` is not read again for every event and every page: the result
/// that is kept is returned at once, with the time at which it was read. If it is older than ``Limits/figureAgeMax``, it
/// is read again meanwhile.
package final class FigureReader: Sendable {
    private struct Key: Hashable {
        let name: String
        let stream: Int32
        let from: String
        let to: String
        let choice: FigureChoice
    }

    private typealias Answer = Result<FigureRows, FigureFailure>

    private struct Kept {
        /// The last answer; after a failure, the rows before it, if there were any.
        var answer: Answer?
        /// The position of the stream's last event when ``answer`` was read.
        var head: Int64 = 0
        var readAt: ContinuousClock.Instant
        var took = Duration.zero
        /// Nil while nothing is read.
        var reading: Task<Answer, Never>?
    }

    let pool: PostgresPool
    private let now: @Sendable () -> ContinuousClock.Instant
    private let kept = Mutex<[Key: Kept]>([:])

    /// - Parameter pool: With the rights of `subledger_analyst`.
    package init(pool: PostgresPool, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.pool = pool
        self.now = now
    }

    /// The rows of a figure; concurrent calls share one query.
    ///
    /// - Parameters:
    ///   - from: The first day, `2026-10-03`, inclusive.
    ///   - to: The last day, inclusive.
    ///   - choice: Ignored by a figure without one.
    ///   - at: Our clock, with which the result is stamped.
    package func rows(
        of figure: FigureQuery, in stream: StreamState, from: String, to: String,
        choice: FigureChoice = FigureChoice(), at: Instant
    ) async -> Result<FigureRows, FigureFailure> {
        let key = Key(name: figure.rawValue, stream: stream.streamId, from: from, to: to, choice: choice)
        let (ready, task): (Answer?, Task<Answer, Never>?) = kept.withLock { kept in
            let now = now()
            kept = kept.filter { now - $0.value.readAt < Limits.figureKeptMax || $0.value.reading != nil }
            if kept.count >= Limits.figuresKeptMax, kept[key] == nil {
                kept = kept.filter { $0.value.reading != nil }
            }
            var known = kept[key] ?? Kept(readAt: now)
            let isCurrent = known.head == stream.head && now - known.readAt < Limits.figureAgeMax
            let isQuick = known.took < Limits.figureIsQuick
            if let answer = known.answer, isCurrent || (!isQuick && now - known.readAt < Limits.figureAgeMax) {
                return (answer, nil)
            }
            if known.reading == nil {
                known.reading = Task { await self.refresh(key, figure, stream, at: at) }
                kept[key] = known
            }
            return (isQuick ? nil : known.answer, known.reading)
        }
        if let ready { return ready }
        return await task?.value ?? .failure(FigureFailure(tookTooLong: false, sql: ""))
    }

    private func refresh(
        _ key: Key, _ figure: FigureQuery, _ stream: StreamState, at: Instant
    ) async -> Answer {
        let start = now()
        let answer = await read(key, figure, stream, at: at)
        let end = now()
        kept.withLock { kept in
            var known = kept[key] ?? Kept(readAt: end)
            known.reading = nil
            known.readAt = end
            known.took = end - start
            known.head = stream.head
            switch (answer, known.answer) {
            // Rows that are old and stamped say more than a failure.
            case (.failure, .success?): break
            default: known.answer = answer
            }
            kept[key] = known
        }
        return answer
    }

    private func read(
        _ key: Key, _ figure: FigureQuery, _ stream: StreamState, at: Instant
    ) async -> Result<FigureRows, FigureFailure> {
        var values = [stream.app, stream.environment, key.from, key.to]
        if figure.hasChoice { values += key.choice.parameters }
        let sql = ReadableSQL(figure.statement, values.map { .text($0) }).text
        do throws(PostgresError) {
            let found = try await pool.query(
                figure.statement, values.map { Parameter($0) }, deadline: .now + Limits.figureWaitMax)
            var rows: [[String?]] = []
            for row in found {
                var values: [String?] = []
                for column in figure.columns.indices { values.append(try row.optional(at: column)) }
                rows.append(values)
            }
            return .success(FigureRows(columns: figure.columns, rows: rows, sql: sql, madeAt: at))
        } catch {
            return .failure(FigureFailure(error, sql: sql))
        }
    }
}

/// The rows of a figure as text.
package struct FigureRows: Sendable {
    package let columns: [String]
    package let rows: [[String?]]
    package let sql: String
    package let madeAt: Instant

    /// Whether there are no rows, or only rows of zeros, as of days without subscriptions.
    package var hasNothing: Bool {
        rows.allSatisfy { row in row.dropFirst().allSatisfy { $0.map { Double($0) == 0 } ?? true } }
    }
}

/// A figure that cannot be shown now, with the query that reads it.
package struct FigureFailure: Error, Sendable {
    package let tookTooLong: Bool
    package let sql: String

    init(tookTooLong: Bool, sql: String) {
        self.tookTooLong = tookTooLong
        self.sql = sql
    }

    init(_ error: PostgresError, sql: String) {
        tookTooLong =
            switch error.kind {
            case .deadlineExceeded: true
            case .server: error.sqlstate == "57014"
            case .unavailable, .outcomeUnknown, .closed, .decoding: false
            }
        self.sql = sql
    }
}
