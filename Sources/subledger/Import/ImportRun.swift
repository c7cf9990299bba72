import Encoding
import EventLog
import Server
import Subscriptions

/// Takes the rows of a file, a batch after the other, with progress.
struct ImportRun {
    let importer: any PurchaseImport
    let name: String
    var file: ImportFile
    var results: ImportResults
    private var last = LastCustomers()

    private enum Limits {
        static let batchRows = 1000
        static let batchBytes = 8 << 20
        /// How often rows are tried for which a store or the database cannot be asked.
        static let triesMax = 5
        static let batchWaitMax = Duration.seconds(600)
    }

    struct Summary: Sendable {
        var taken = 0
        var known = 0
        var refused = 0
        /// Rows with a result of an earlier run.
        var skipped = 0
        /// Why the import ended before the end of the file; nil if it did not.
        var unavailable: String?

        var done: Int { taken + known + refused + skipped }

        /// `{"rows":…,"taken":…,"known":…,"refused":…,"skipped":…}`
        var line: String {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("rows", Int64(done))
                writer.member("taken", Int64(taken))
                writer.member("known", Int64(known))
                writer.member("refused", Int64(refused))
                writer.member("skipped", Int64(skipped))
            }
            return writer.text
        }
    }

    init(_ importer: any PurchaseImport, _ name: String, _ file: ImportFile, _ results: ImportResults) {
        self.importer = importer
        self.name = name
        self.file = file
        self.results = results
    }

    mutating func run() async throws -> Summary {
        let progress = ProgressReport("import", unit: "rows")
        var summary = Summary()
        try skip(&summary)
        while summary.unavailable == nil {
            let batch = try batch()
            guard !batch.isEmpty else { break }
            try await take(batch, &summary)
            // The number of rows is estimated by the size of those that were read.
            let read = Double(max(1, file.offset))
            let total = file.bytesCount.map { Double(summary.done) * Double($0) / read } ?? Double(summary.done)
            progress.update(Int64(summary.done), of: Int64(total))
        }
        return summary
    }

    /// Skips the rows that have a result.
    private mutating func skip(_ summary: inout Summary) throws {
        guard results.last > 0 else { return }
        var row: ImportFile.Row?
        while row?.line ?? 0 < results.last, let next = try file.next() {
            row = next
            summary.skipped += 1
        }
        guard row?.line == results.last, row?.customerId == results.lastCustomerId else {
            throw CSVFile.Malformed(
                description: "\(name): the result file is of another file: line \(results.last) differs")
        }
    }

    private mutating func batch() throws -> [ImportFile.Row] {
        var rows: [ImportFile.Row] = []
        var bytes = 0
        while rows.count < Limits.batchRows, bytes < Limits.batchBytes, let row = try file.next() {
            rows.append(row)
            bytes += row.bytes
        }
        return rows
    }

    private mutating func take(_ batch: [ImportFile.Row], _ summary: inout Summary) async throws {
        var open = batch[...]
        var tries = 0
        while !open.isEmpty {
            let outcomes = try await outcomes(of: Array(open))
            let done = outcomes.prefix {
                if case .unavailable = $0 { false } else { true }
            }
            try results.write(Array(zip(open, done)))
            for outcome in done {
                switch outcome {
                case .taken: summary.taken += 1
                case .known: summary.known += 1
                case .refused: summary.refused += 1
                case .unavailable: break
                }
            }
            open = open.dropFirst(done.count)
            guard done.count < outcomes.count else { break }
            tries = done.isEmpty ? tries + 1 : 0
            guard tries < Limits.triesMax else {
                summary.unavailable = outcomes[done.count].reason
                return
            }
            try await Task.sleep(for: .seconds(1 << tries))
        }
    }

    private mutating func outcomes(of batch: [ImportFile.Row]) async throws -> [ImportOutcome] {
        let fresh = batch.compactMap { row -> ImportRow? in
            guard let row = try? row.row.get() else { return nil }
            return last.isKnown(row) ? nil : row
        }
        var taken = try await importer.take(fresh, until: .now + Limits.batchWaitMax)[...]
        var outcomes: [ImportOutcome] = []
        var known: [ImportRow] = []
        for row in batch {
            switch row.row {
            case .failure(let malformed): outcomes.append(.refused(malformed.description))
            case .success(let row) where last.isKnown(row): outcomes.append(.known)
            case .success(let row):
                let outcome = taken.popFirst() ?? .unavailable("not asked yet")
                if outcome == .taken || outcome == .known { known.append(row) }
                outcomes.append(outcome)
            }
        }
        last.note(known)
        return outcomes
    }
}

/// The customers for whom purchases were taken last: exports name a subscription once for each renewal.
private struct LastCustomers {
    private static let countMax = 100_000
    private var customers: [ImportRow.Purchase: String] = [:]

    func isKnown(_ row: ImportRow) -> Bool { customers[row.purchase] == row.customerId }

    mutating func note(_ rows: [ImportRow]) {
        if customers.count > Self.countMax { customers = [:] }
        for row in rows { customers[row.purchase] = row.customerId }
    }
}
