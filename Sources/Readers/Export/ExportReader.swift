import Encoding
import EventLog
import Postgres
import Subscriptions

/// Reads the rows of an export in batches.
///
/// Events and changes never change. The rows of a subscription, or of a customer's id, are read by one statement, so that
/// they belong together; different ones may be of different instants.
package struct ExportReader: Sendable {
    private let connection: PostgresConnection

    /// - Parameter connection: Has the rights of a reader.
    package init(connection: PostgresConnection) {
        self.connection = connection
    }

    /// All streams, in order of app and environment, at one instant.
    package func streams() async throws(PostgresError) -> [ExportStream] {
        let rows = try await query(ExportStatements.streams, [])
        return try rows.map { (row) throws(PostgresError) -> ExportStream in
            let name: String = try row.value(at: 2)
            guard let environment = Environment(rawValue: name) else { throw PostgresError(.decoding) }
            return ExportStream(
                id: try row.value(at: 0), key: StreamKey(app: try row.value(at: 1), environment: environment),
                mark: ExportStream.Mark(
                    position: try row.value(at: 3), chain: try row.value(at: 4), projected: try row.value(at: 5),
                    change: try row.value(at: 6), settings: try row.value(at: 7)))
        }
    }

    /// The value of a stream's hash chain at a position; nil if there is no such event.
    package func chain(of stream: Int32, at position: Int64) async throws(PostgresError) -> [UInt8]? {
        let rows = try await query(ExportStatements.chain, [Parameter(stream), Parameter(position)])
        return try rows.first?.value(at: 0)
    }

    /// A batch of a table.
    ///
    /// - Parameters:
    ///   - table: Events, changes, subscriptions with all their rows, ids of customers, or subscriptions with their purchases.
    ///   - number: The number of the export, the value of column `export`.
    ///   - since: What an earlier export contained, so that only later rows and what changed are read; nil for everything.
    ///   - after: Where the batch before ended; nil for the first one.
    ///   - count: Events, changes, subscriptions or ids at most.
    package func batch(
        _ table: ExportTable, of stream: ExportStream, export number: Int64, since: ExportStream.Mark?,
        after: [String]?, count: Int
    ) async throws(PostgresError) -> ExportBatch {
        let rows: RowSet
        let limit = Parameter(Int64(count))
        switch table {
        case .events, .changes:
            let isEvents = table == .events
            let start =
                after.flatMap { $0.first.flatMap { Int64($0) } } ?? since.map { isEvents ? $0.position : $0.change }
            rows = try await query(
                isEvents ? ExportStatements.events : ExportStatements.changes,
                [
                    Parameter(stream.id), Parameter(start ?? 0),
                    Parameter(isEvents ? stream.mark.position : stream.mark.change), limit,
                ])
        default:
            let isCustomers = table == .customers
            let key = after ?? (isCustomers ? ["", ""] : [""])
            var parameters = [Parameter(stream.id)] + key.map { Parameter($0) } + [limit]
            if let since { parameters += [Parameter(since.projected), Parameter(since.change)] }
            rows = try await query(ExportStatements.current(table, areAll: since == nil), parameters)
        }
        return try batch(rows, table, stream, number, count)
    }

    private func batch(
        _ rows: RowSet, _ table: ExportTable, _ stream: ExportStream, _ number: Int64, _ count: Int
    ) throws(PostgresError) -> ExportBatch {
        let common: [String?] =
            table.hasStream ? [stream.key.app, stream.key.environment.rawValue, String(number)] : []
        var found: [ExportRow] = []
        found.reserveCapacity(rows.count)
        var keys = 0
        var last: [String] = []
        for row in rows {
            let name: String = try row.value(at: 0)
            guard let table = ExportTable(rawValue: name) else { throw PostgresError(.decoding) }
            let key = try row.array(of: String.self, at: 1).compactMap { $0 }
            // The rows are ordered by table and then by key; every key has a row in the first table, if only one without
            // fields.
            if table == found.first?.table ?? table, key != last {
                keys += 1
                last = key
            }
            let fields = try row.array(of: String.self, at: 2)
            if !fields.isEmpty { found.append(ExportRow(table: table, values: common + fields)) }
        }
        return ExportBatch(rows: found, next: keys < count ? nil : last)
    }

    private func query(_ statement: Statement, _ parameters: [Parameter]) async throws(PostgresError) -> RowSet {
        try await connection.query(statement, parameters, deadline: .now + Limits.exportBatchWaitMax)
    }
}
