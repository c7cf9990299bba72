import EventLog
import Postgres
import Subscriptions

/// Compares projections with a fresh fold of the log. The projector may run meanwhile.
///
/// One read of the log finds the events of one part of the subscriptions. Each subscription is then folded from its own
/// events, by the projector's code into temporary tables, and compared in one snapshot of the database.
package struct ProjectionAudit: Sendable {
    let connection: PostgresConnection
    /// Compare concurrently, each with its own temporary tables.
    private let workers: [AuditWorker]
    private let seed: UInt64
    private let subscriptionsAtOnceMax: Int

    /// How many subscriptions are checked.
    package enum Extent: Sendable, Hashable {
        case all
        /// About this many subscriptions of each stream, the same for the same seed.
        case sample(Int)
    }

    /// A problem, as the end of a line that begins with the stream.
    package struct Problem: Error, Hashable, CustomStringConvertible {
        package let description: String
    }

    /// Needs some tens of megabytes of memory.
    package static let subscriptionsAtOnceMax = 500_000

    /// Creates the temporary tables.
    ///
    /// - Parameters:
    ///   - connection: May read what the projector may read. Used only by this audit.
    ///   - others: More connections of this kind, for more speed.
    ///   - subscriptionsAtOnceMax: How many subscriptions are indexed at a time. The log is read once for each such
    ///     part.
    package init(
        connection: PostgresConnection, others: [PostgresConnection] = [], seed: UInt64,
        subscriptionsAtOnceMax: Int = Self.subscriptionsAtOnceMax
    ) async throws(PostgresError) {
        self.connection = connection
        workers = ([connection] + others).map(AuditWorker.init)
        self.seed = seed
        self.subscriptionsAtOnceMax = subscriptionsAtOnceMax
        for worker in workers {
            try await worker.connection.script(
                AuditStatements.makeTables.text, deadline: .now + Limits.statementWaitMax)
        }
    }

    /// The first stream that has projections but does not exist; nil if there is none.
    package func strayStream() async throws(PostgresError) -> (stream: Int32, problem: Problem)? {
        let rows = try await query(Step(AuditStatements.firstStrayStream), Limits.tableWaitMax)
        guard rows.count > 0 else { return nil }
        let relation: String = try rows[0].value(at: 1)
        return (try rows[0].value(at: 0), Problem(description: "\(relation): has rows of a stream that does not exist"))
    }

    /// Checks a stream's projections, and returns how many subscriptions were compared.
    ///
    /// - Parameter onProgress: Called with the numbers of checked subscriptions and of all subscriptions to check.
    /// - Throws: ``Problem`` for the first difference; ``PostgresError``.
    package func check(
        stream: Int32, _ extent: Extent, onProgress: (Int64, Int64) -> Void
    ) async throws -> Int64 {
        let place = try await query(Step(AuditStatements.streamPosition, [Parameter(stream)]), Limits.statementWaitMax)
        let head: Int64 = try place[0].optional(at: 0) ?? 0
        let folded: Int64 = try place[0].optional(at: 1) ?? 0
        if folded > head {
            throw Problem(description: "checkpoint: position \(folded) is beyond the head, \(head)")
        }
        let projectionVersion: Int32 = try place[0].optional(at: 3) ?? Checkpoint.projectionVersion
        if folded > 0, projectionVersion != Checkpoint.projectionVersion {
            throw Problem(
                description: "checkpoint: rows have another projection version: let the projector run, then verify")
        }
        guard OwnershipRules(text: try place[0].optional(at: 4) ?? OwnershipRules.standard.text) != nil else {
            throw Problem(description: "checkpoint: unknown ownership rules")
        }
        guard CheckPolicy(recorded: try place[0].optional(at: 5) ?? CheckPolicy.standard.lead) != nil else {
            throw Problem(description: "checkpoint: unknown lead of checks")
        }
        let products: String = try place[0].optional(at: 2) ?? ""
        guard ProductCatalog.isWellFormed(products) else {
            throw Problem(description: "checkpoint: products are not valid configuration text")
        }
        let orphan = try await query(Step(AuditStatements.firstOrphan, [Parameter(stream)]), Limits.tableWaitMax)
        if orphan.count > 0 { throw try Self.problem(orphan[0]) }
        let shared = try await query(
            Step(AuditStatements.firstSharedTransaction, [Parameter(stream)]), Limits.tableWaitMax)
        if shared.count > 0 { throw try Self.problem(shared[0]) }
        try await checkLinks(stream)
        try await checkSharedTokens(stream)
        let counted = try await query(
            Step(AuditStatements.countSubscriptions, [Parameter(stream)]), Limits.tableWaitMax)
        let subscriptions: Int64 = try counted[0].value(at: 0)
        let perPart =
            switch extent {
            case .all: subscriptionsAtOnceMax
            case .sample(let count): max(1, count)
            }
        let parts = max(1, (UInt64(subscriptions) + UInt64(perPart) - 1) / UInt64(perPart))
        var checked: Int64 = 0
        onProgress(0, subscriptions)
        for part in 0..<(extent == .all ? parts : 1) {
            var index = MentionIndex(part: part, of: parts, seed: seed)
            try await check(stream, &index) { more in
                checked += more
                onProgress(checked, max(checked, extent == .all ? subscriptions : min(subscriptions, Int64(perPart))))
            }
        }
        let sample = MentionIndex(part: 0, of: parts, seed: seed)
        try await checkCustomers(stream) { extent == .all || sample.contains($0) }
        return checked
    }

    /// Checks the subscriptions of a part: those that have rows, then those that only events mention.
    private func check(_ stream: Int32, _ index: inout MentionIndex, _ count: (Int64) -> Void) async throws {
        var after = ""
        while true {
            let rows = try await query(
                Step(
                    AuditStatements.pageIds, [Parameter(stream), Parameter(after), Parameter(Limits.auditIdsMax)]),
                Limits.statementWaitMax)
            guard let last = rows.last else { break }
            after = try last.value(at: 0)
            var subscriptions: [String] = []
            for row in rows {
                let subscription: String = try row.value(at: 0)
                if index.contains(subscription) { subscriptions.append(subscription) }
            }
            try await check(subscriptions, stream, &index, count)
        }
        try await readOn(stream, &index, count)
        var unchecked = index.uncheckedEvents[...]
        while !unchecked.isEmpty {
            let rows = try await query(
                Step(
                    AuditStatements.events,
                    [Parameter(stream), .array(Array(unchecked.prefix(Limits.auditSubscriptionsMax)))]),
                Limits.statementWaitMax)
            let events = try rows.map { try FoldableEvent.readOrEmpty($0) }
            unchecked = unchecked.dropFirst(Limits.auditSubscriptionsMax)
            let subscriptions = Set(events.flatMap(\.factsBySubscription.keys)).filter { index.isUnchecked($0) }
                .sorted()
            try await check(subscriptions, stream, &index, count)
        }
    }

    private func check(
        _ subscriptions: [String], _ stream: Int32, _ index: inout MentionIndex, _ count: (Int64) -> Void
    ) async throws {
        var rest = subscriptions[...]
        while !rest.isEmpty {
            var pages: [[String]] = []
            while pages.count < workers.count, !rest.isEmpty {
                pages.append(Array(rest.prefix(Limits.auditSubscriptionsMax)))
                rest = rest.dropFirst(Limits.auditSubscriptionsMax)
            }
            while try await compare(pages, stream, index) == false { try await readOn(stream, &index, count) }
            for page in pages {
                index.markChecked(page)
                count(Int64(page.count))
            }
        }
    }

    /// Compares several pages concurrently.
    ///
    /// - Returns: False if the projector is ahead of the index.
    private func compare(_ pages: [[String]], _ stream: Int32, _ index: MentionIndex) async throws -> Bool {
        let outcomes = await withTaskGroup(of: (Int, Result<Bool, any Error>).self) { group in
            for (number, (worker, page)) in zip(workers, pages).enumerated() {
                group.addTask { (number, await worker.compare(page, stream, index)) }
            }
            var outcomes = [Result<Bool, any Error>](repeating: .success(true), count: pages.count)
            for await (number, outcome) in group { outcomes[number] = outcome }
            return outcomes
        }
        // In page order, so that the first differing row is reported.
        return try outcomes.reduce(true) { isDone, outcome in try outcome.get() && isDone }
    }

    /// Brings the index up to the end of the log. Each worker reads a page at a time.
    private func readOn(_ stream: Int32, _ index: inout MentionIndex, _ count: (Int64) -> Void) async throws {
        let end = try await query(Step(AuditStatements.lastPosition, [Parameter(stream)]), Limits.statementWaitMax)
        let last: Int64 = try end[0].value(at: 0)
        var starts = Array(stride(from: index.upTo, to: last, by: Int(Limits.auditIdsMax)))[...]
        while !starts.isEmpty {
            try Task.checkCancellation()
            for page in try await mentions(stream, after: Array(starts.prefix(workers.count)), through: last) {
                for mention in page { index.add(mention.position, about: mention.subscriptions) }
            }
            starts = starts.dropFirst(workers.count)
            count(0)
        }
        index.sort()
    }

    /// Reads several pages concurrently, and returns them in their order.
    private func mentions(
        _ stream: Int32, after starts: [Int64], through last: Int64
    ) async throws -> [[AuditWorker.Mention]] {
        try await withThrowingTaskGroup(of: (Int, [AuditWorker.Mention]).self) { group in
            for (number, (worker, start)) in zip(workers, starts).enumerated() {
                group.addTask {
                    (
                        number,
                        try await worker.mentions(
                            stream, after: start, through: min(start + Limits.auditIdsMax, last))
                    )
                }
            }
            var pages = [[AuditWorker.Mention]](repeating: [], count: starts.count)
            for try await (number, page) in group { pages[number] = page }
            return pages
        }
    }

    static func problem(_ row: Row) throws(PostgresError) -> Problem {
        let subscription: String = try row.value(at: 0)
        let relation: String = try row.value(at: 1)
        let transaction: String? = try row.optional(at: 2)
        let problem: String = try row.value(at: 3)
        return Problem(
            description:
                "\(relation) \(transaction.map { "\($0) of subscription \(subscription)" } ?? subscription): \(problem)"
        )
    }

    func query(_ step: Step, _ limit: Duration) async throws(PostgresError) -> RowSet {
        try await connection.query(step, deadline: .now + limit)
    }
}
