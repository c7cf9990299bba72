import Encoding
import Foundation
import Readers
import Server
import Subscriptions

/// Writes one export, or what is missing of one that was interrupted.
struct ExportRun {
    /// What the caller asked for.
    struct Request {
        let app: String?
        let environment: Environment?
        let layout: ExportLayout
        let format: ExportFormat
        let rowsPerFile: Int
        /// Nil to continue after the last export in the folder.
        let since: ExportCursor?
        /// Everything, whatever earlier exports contain.
        let isFull: Bool
    }

    enum Outcome {
        case written(folder: String, rows: [(table: ExportTable, count: Int64)])
        /// Nothing was appended, published or computed again since an export.
        case nothingNew(since: Int64)
    }

    private enum Limits {
        /// Events or changes of one query: at some kilobytes each, some megabytes.
        static let batchEvents = 1000
        /// Subscriptions or customers of one query, each with dozens of rows.
        static let batchSubscriptions = 500
    }

    let folder: ExportFolder
    let reader: ExportReader
    let request: Request

    func run() async throws -> Outcome {
        let (complete, partial) = try folder.numbers()
        let streams = try await reader.streams().filter { stream in
            request.app ?? stream.key.app == stream.key.app
                && request.environment ?? stream.key.environment == stream.key.environment
        }
        if let partial {
            if try folder.complete(partial) {
                return .written(folder: folder.completeFolder(partial), rows: [])
            }
            if let (plan, progress) = try folder.resumed(partial) {
                try check(plan, partial)
                return try await write(partial, plan, progress, try await resumed(plan, streams))
            }
        }
        var since = request.since
        if since == nil, let complete { since = try folder.cursor(of: complete) }
        if let since {
            guard since.layout == request.layout else {
                throw CommandProblem(
                    "export \(since.export) is as \(since.layout.rawValue): use the same --as, or another folder")
            }
            guard since.app == request.app, since.environment == request.environment else {
                throw CommandProblem(
                    "export \(since.export) has other streams: use the same --app and --environment, or another folder")
            }
            try await check(since, streams)
        }
        let number = max(complete ?? 0, since?.export ?? 0) + 1
        let marks = Dictionary(streams.map { ($0.key, $0.mark) }, uniquingKeysWith: { $1 })
        guard !streams.isEmpty else { throw CommandProblem("the log has no events of this app and environment") }
        if !request.isFull, let since, since.marks == marks { return .nothingNew(since: since.export) }
        let plan = ExportFolder.Plan(
            format: request.format, rowsPerFile: request.rowsPerFile, since: request.isFull ? nil : since,
            startedAt: SystemClock.now(),
            cursor: ExportCursor(
                export: number, layout: request.layout, app: request.app, environment: request.environment, marks: marks
            )
        )
        try folder.begin(number, plan)
        return try await write(number, plan, [], streams)
    }

    /// Refuses to finish an export with other settings than those it was begun with.
    private func check(_ plan: ExportFolder.Plan, _ export: Int64) throws {
        guard plan.format == request.format, plan.rowsPerFile == request.rowsPerFile,
            plan.cursor.layout == request.layout, plan.cursor.app == request.app,
            plan.cursor.environment == request.environment,
            request.since ?? plan.since == plan.since, !request.isFull || plan.since == nil
        else {
            throw CommandProblem(
                "export \(export) was interrupted and began with other flags: repeat them to finish it, or delete "
                    + folder.partialFolder(export))
        }
    }

    /// Checks that the log still begins with what a cursor was made from.
    private func check(_ cursor: ExportCursor, _ streams: [ExportStream]) async throws {
        for (key, mark) in cursor.ordered {
            let name = "\(key.app) in \(key.environment.rawValue)"
            guard let stream = streams.first(where: { $0.key == key }) else {
                throw CommandProblem(
                    "the log has no events of \(name), which export \(cursor.export) has: use another folder")
            }
            var chain: [UInt8]? = mark.chain
            if mark.position > 0 { chain = try await reader.chain(of: stream.id, at: mark.position) }
            guard chain == mark.chain, stream.mark.change >= mark.change else {
                throw CommandProblem(
                    """
                    the log of \(name) is not the one that export \(cursor.export) was made from: the database was \
                    restored or replaced; begin again in another folder
                    """)
            }
        }
    }

    /// The streams of an interrupted export, as they were when it began.
    private func resumed(_ plan: ExportFolder.Plan, _ streams: [ExportStream]) async throws -> [ExportStream] {
        try await check(plan.cursor, streams)
        return plan.cursor.ordered.compactMap { key, mark in
            streams.first { $0.key == key }.map { ExportStream(id: $0.id, key: key, mark: mark) }
        }
    }

    private func write(
        _ export: Int64, _ plan: ExportFolder.Plan, _ done: [ExportFolder.Progress], _ streams: [ExportStream]
    ) async throws -> Outcome {
        var files = done.flatMap(\.files)
        try folder.trimProgress(of: export)
        let progress = ProgressReport("export", unit: "events and changes")
        let total = streams.reduce(Int64(0)) { total, stream in
            let since = plan.since?.marks[stream.key]
            return total + stream.mark.position - (since?.position ?? 0) + stream.mark.change - (since?.change ?? 0)
        }
        for (index, stream) in streams.enumerated() {
            for table in plan.cursor.layout.steps {
                let last = done.last { $0.stream == index && $0.table == table }
                if let last, last.after == nil { continue }
                var after = last?.after
                let since = self.since(plan, stream, table)
                repeat {
                    let set = try await self.set(export, plan, stream, table, since, after, files) { read in
                        guard !table.isVersioned else { return }
                        let count = files.reduce(Int64(0)) { $0 + ($1.table.isVersioned ? 0 : $1.rows) } + read
                        progress.update(count, of: total)
                    }
                    files += set.files
                    after = set.after
                    try folder.record(
                        ExportFolder.Progress(stream: index, table: table, after: after, files: set.files), of: export)
                } while after != nil
            }
        }
        try folder.finish(export, plan, files, at: SystemClock.now())
        let rows = plan.cursor.layout.tables.map { table in
            (table, files.reduce(Int64(0)) { $0 + ($1.table == table ? $1.rows : 0) })
        }
        return .written(folder: folder.completeFolder(export), rows: rows)
    }

    /// What earlier exports contain of a table; nil for nothing, also if its rows were computed from other settings.
    private func since(
        _ plan: ExportFolder.Plan, _ stream: ExportStream, _ table: ExportTable
    ) -> ExportStream.Mark? {
        guard let mark = plan.since?.marks[stream.key] else { return nil }
        return table.isVersioned && mark.settings != stream.mark.settings ? nil : mark
    }

    /// Writes the next files of a table, and for subscriptions of the tables that belong to them.
    private func set(
        _ export: Int64, _ plan: ExportFolder.Plan, _ stream: ExportStream, _ table: ExportTable,
        _ since: ExportStream.Mark?, _ start: [String]?, _ files: [ExportFile.Record], _ report: (Int64) -> Void
    ) async throws -> (files: [ExportFile.Record], after: [String]?) {
        var open: [ExportTable: ExportFile] = [:]
        defer { for file in open.values { file.abandon() } }
        let count =
            table.isVersioned
            ? min(Limits.batchSubscriptions, max(1, plan.rowsPerFile / 10)) : min(Limits.batchEvents, plan.rowsPerFile)
        var after = start
        var rows: Int64 = 0
        repeat {
            let batch = try await reader.batch(
                table, of: stream, export: export, since: since, after: after, count: count)
            for row in batch.rows {
                if open[row.table] == nil {
                    let number = files.reduce(Int64(1)) { $0 + ($1.table == row.table ? 1 : 0) }
                    open[row.table] = try ExportFile(
                        row.table, name: "\(row.table.rawValue)-\(ExportFolder.digits(number)).\(plan.format.rawValue)",
                        in: folder.partialFolder(export),
                        format: plan.format)
                }
                try open[row.table]?.write(row)
            }
            after = batch.next
            rows = open.values.map(\.rows).max() ?? 0
            report(rows)
        } while after != nil && rows < plan.rowsPerFile
        var complete: [ExportFile.Record] = []
        for table in ExportTable.allCases {
            guard var file = open.removeValue(forKey: table) else { continue }
            complete.append(try file.finish())
        }
        return (complete, after)
    }
}
