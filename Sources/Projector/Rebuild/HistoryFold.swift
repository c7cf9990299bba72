import EventLog
import Postgres
import Subscriptions

/// Folds the events of a stream up to a position into the empty tables of a rebuild: each subscription from all of its events
/// at once, several subscriptions at a time.
///
/// Live projection writes the rows of a subscription again with every event. Here they are written once, so that an event costs
/// less than half as much, and pages of subscriptions need nothing of each other. What they have in common comes after
/// them: transactions that moved between subscriptions, links, shared tokens, and then the customers.
struct HistoryFold: Sendable {
    let writer: BatchWriter
    /// How many connections work at once; the pool must lend as many.
    let workers: Int
    /// Most events of which it is kept in memory which subscriptions they mention. The log is read once more for each further
    /// part of the subscriptions.
    let eventsIndexedMax: Int64
    /// Most events whose subscriptions a connection folds at a time, and most ids whose customers it computes.
    let eventsAtOnceMax: Int

    /// Returns the ids after one of them.
    private typealias IdPages = @Sendable (CustomerKey, PostgresConnection) async throws -> [CustomerKey]

    /// The share of the events in the progress. The rest are the customers.
    private static let eventsShare = 0.8

    /// - Parameter onProgress: Called often, with the number of events that the work so far is worth.
    /// - Throws: ``ProjectionError``, ``RebuildError/runsAlready``, and what the parameter throws. The rebuild has failed then.
    func run(through last: Int64, onProgress: (Int64) async throws -> Void) async throws {
        let checkpoint = try await writer.checkpoint().get()
        guard checkpoint.position == 0 else { throw RebuildError.runsAlready }
        let worker = HistoryWorker(
            streamId: writer.streamId, checkpoint: checkpoint,
            idsMax: min(Limits.batchEventsMax, Int64(eventsAtOnceMax)))
        var index = MentionIndex(part: 0, of: UInt64((last - 1) / eventsIndexedMax + 1), seed: 0)
        try await joinPurchases(in: &index, worker, through: last)
        var subscriptions = 0
        for part in 0..<index.parts {
            index.begin(part)
            let others = try await read(into: &index, worker, through: last)
            if part == 0 { try await applyLinks(others, worker) }
            subscriptions += try await fold(index, worker) { done in
                let share = (Double(part) + done) / Double(index.parts) * Self.eventsShare
                try await onProgress(Int64(Double(last) * share))
            }
        }
        try await lend { try await worker.foldMoved($0) }
        try await lend { try await worker.recountTokens($0) }
        var written = 0
        let pages: [IdPages] = [
            { try await worker.subscriptions(after: $0, $1) }, { try await worker.linkedKeys(after: $0, $1) },
            { try await worker.linkedCustomers(after: $0, $1) },
        ]
        for next in pages {
            try await writeCustomers(worker, next) { more in
                written += more
                let done = min(1, Double(written) / Double(max(1, subscriptions)))
                try await onProgress(Int64(Double(last) * (Self.eventsShare + (1 - Self.eventsShare) * done)))
            }
        }
        guard try await writer.record(last, after: checkpoint).get() != nil else { throw RebuildError.runsAlready }
    }

    /// Counts purchases of Google Play that may continue each other as one subscription.
    private func joinPurchases(
        in index: inout MentionIndex, _ worker: HistoryWorker, through last: Int64
    ) async throws {
        var ranges = Ranges(through: last)
        try await distribute {
            ranges.next()
        } work: { connection, range in
            try await worker.linkedPurchases(range, connection)
        } then: { links in
            for link in links where link.count == 2 { index.join(link[0], link[1]) }
        }
    }

    /// Indexes the part of the index.
    ///
    /// - Returns: See ``HistoryWorker/Mentions/others``; in order.
    private func read(
        into index: inout MentionIndex, _ worker: HistoryWorker, through last: Int64
    ) async throws -> [Int64] {
        var ranges = Ranges(through: last)
        var others: [Int64] = []
        try await distribute {
            ranges.next()
        } work: { connection, range in
            try await worker.mentions(range, connection)
        } then: { mentions in
            for event in mentions.events { index.add(event.position, about: event.subscriptions) }
            others += mentions.others
        }
        index.sort()
        return others.sorted()
    }

    private func applyLinks(_ positions: [Int64], _ worker: HistoryWorker) async throws {
        var rest = positions[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let page = Array(rest.prefix(Int(Limits.batchEventsMax)))
            rest = rest.dropFirst(page.count)
            try await lend { try await worker.applyLinks(page, $0) }
        }
    }

    /// Folds all subscriptions of the part that is indexed, and returns how many there are.
    ///
    /// - Parameter onProgress: Called with the share that is done.
    private func fold(
        _ index: MentionIndex, _ worker: HistoryWorker, _ onProgress: (Double) async throws -> Void
    ) async throws -> Int {
        var pages = HistoryPages(index, eventsMax: eventsAtOnceMax)
        let count = pages.count
        var done = 0
        try await distribute {
            pages.next()
        } work: { connection, page -> Int in
            try await worker.fold(page, index, connection)
            return page.subscriptions.count
        } then: { more in
            done += more
            try await onProgress(Double(done) / Double(count))
        }
        return count
    }

    /// - Parameter onProgress: Called with the number of further ids that are done.
    private func writeCustomers(
        _ worker: HistoryWorker, _ next: IdPages, _ onProgress: (Int) async throws -> Void
    ) async throws {
        var last = CustomerKey(.account, "")
        try await distribute { () async throws -> Set<CustomerKey>? in
            let after = last
            let keys = try await lend { try await next(after, $0) }
            last = keys.last ?? last
            return keys.isEmpty ? nil : Set(keys)
        } work: { connection, keys -> Int in
            try await worker.writeCustomers(of: keys, connection)
            return keys.count
        } then: { more in
            try await onProgress(more)
        }
    }

    // MARK: - Connections

    /// Works on items, as many at once as there are workers.
    ///
    /// - Parameters:
    ///   - next: Returns the next item; nil if there are no more.
    ///   - use: Called with what the work returned, in no particular order.
    private func distribute<Item: Sendable, Value: Sendable>(
        _ next: () async throws -> Item?,
        work: @escaping @Sendable (PostgresConnection, Item) async throws -> Value,
        then use: (Value) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Value.self) { group in
            var running = 0
            var isEnd = false
            while true {
                try Task.checkCancellation()
                if !isEnd, running < workers {
                    guard let item = try await next() else {
                        isEnd = true
                        continue
                    }
                    group.addTask { try await lend { try await work($0, item) } }
                    running += 1
                } else if let value = try await group.next() {
                    running -= 1
                    try await use(value)
                } else {
                    return
                }
            }
        }
    }

    /// Runs work on a connection's thread.
    private func lend<Value: Sendable>(
        _ work: @Sendable (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try await writer.pool.withConnection(deadline: .now + Limits.statementWaitMax) {
            (connection) async throws(PostgresError) -> Result<Value, any Error> in
            do {
                return .success(try await work(connection))
            } catch let error as PostgresError {
                throw error
            } catch {
                return .failure(error)
            }
        }.get()
    }
}

/// The events up to a position, in ranges: each the position before the first event, and that of the last one.
private struct Ranges {
    private var start: Int64 = 0
    private let last: Int64

    init(through last: Int64) {
        self.last = last
    }

    mutating func next() -> Range<Int64>? {
        guard start < last else { return nil }
        let end = min(start + Limits.auditIdsMax, last)
        defer { start = end }
        return start..<end
    }
}
