import AppStore
import EventLog
import Foundation
import Subscriptions

/// Checks the events of one stream, in ranges by several workers, and reports what is wrong in order of position.
package struct LogVerifier: Sendable {
    let audit: LogAudit
    /// Each checks a range of events with a connection of its own.
    let workers: [LogAudit]
    let stream: AuditedStream
    let events: EventVerifier
    let heads: HeadCheck
    /// Where an earlier verification ended; nil to begin with the first event.
    let place: VerifiedPlace?
    /// How many events a worker checks before it takes others.
    let rangeEventsMax: Int

    /// How many ranges may wait for one that takes long, for each worker.
    private static let rangesAheadMax = 4

    /// Adds every missing or invalid event to the outcome, and then the first bad row beside the events.
    ///
    /// - Parameters:
    ///   - onProgress: Called with the number of events checked, or verified before, in all streams.
    ///   - onVerified: Called with a place up to which nothing is wrong, each time that it has moved.
    package func check(
        _ outcome: inout VerificationOutcome, onProgress: (Int64) -> Void,
        onVerified: (VerifiedPlace) throws -> Void = { _ in }
    ) async throws {
        let before = outcome.total
        let start = try await start(&outcome)
        outcome.verifiedBefore += start?.head.position ?? 0
        let (roots, problem) = try await heads.roots(of: stream, in: audit)
        outcome.add(problem)
        var walk = ChainWalk(stream, from: start, heads: heads.signed, roots: roots)
        let erasures = ErasedPositions(try await audit.erasures(of: stream))
        outcome.add(walk.start())
        for file in try await audit.archiveFiles(of: stream) where file.isAfter(walk.position) {
            outcome.add(finding(about: file))
        }
        try await withThrowingTaskGroup(of: Checked.self) { group in
            var idle = workers.isEmpty ? [audit] : workers
            let aheadMax = idle.count * Self.rangesAheadMax
            /// Ranges that were checked before an earlier one, by the position before their first.
            var waiting: [Int64: Checked] = [:]
            var (consumed, given) = (walk.position, walk.position)
            var isEnd = false
            while true {
                while !isEnd, waiting.count < aheadMax, let worker = idle.popLast() {
                    guard
                        let end = try await audit.endOfRange(
                            of: stream, after: given, eventsMax: rangeEventsMax)
                    else {
                        isEnd = true
                        break
                    }
                    let first = given
                    group.addTask { try await check(first, through: end, erasures, worker) }
                    given = end
                }
                guard consumed < given, let checked = try await group.next() else { break }
                idle.append(checked.worker)
                waiting[checked.start] = checked
                while let next = waiting.removeValue(forKey: consumed) {
                    consumed = next.end
                    next.add(to: &outcome, &walk, stream)
                    onProgress(outcome.verifiedBefore + outcome.events)
                    if outcome.total == before, let place = walk.place { try onVerified(place) }
                }
            }
        }
        outcome.add(walk.end())
        outcome.add(
            try await audit.firstDamagedSubscription(of: stream, after: start?.head.position ?? .min)
                .map { Finding(stream, row: $0) })
    }

    /// The place to begin at: where the earlier verification ended, if the log still has there what it had then.
    ///
    /// Signed heads and checkpoints of earlier positions are compared on the way there, without bodies.
    private func start(_ outcome: inout VerificationOutcome) async throws -> VerifiedPlace? {
        guard let place, place.head.position > 0 else { return nil }
        let position = place.head.position
        let there = try await audit.links(of: stream, after: position - 1, through: position)
        guard there.first?.chain == place.head.chain else {
            outcome.add(
                Finding(
                    stream, positions: 1...position,
                    "an event was changed, inserted or removed since this was verified"))
            return nil
        }
        let (earlier, roots) = heads.before(place, of: stream)
        guard !earlier.isEmpty || !roots.isEmpty else { return place }
        var walk = ChainWalk(stream, from: nil, heads: earlier, roots: roots)
        outcome.add(walk.start())
        while walk.position < position {
            let links = try await audit.links(of: stream, after: walk.position, through: position)
            guard !links.isEmpty else { break }
            for link in links {
                let (before, itself) = walk.next(link)
                outcome.add(before)
                outcome.add(itself)
            }
        }
        return place
    }

    /// What is wrong with an archive file as a whole. Its bodies are checked with their events.
    private func finding(about file: ListedArchive) -> Finding? {
        switch file.state {
        case .writing: return nil
        case .removing:
            return Finding(
                stream, row: "archive file \(file.name) is to be removed: run `subledger archive --clean`")
        case .kept: break
        }
        guard let folder = audit.archive.folder else {
            return Finding(
                stream,
                row: "archive file \(file.name) of \(file.month) is not read, with \(file.bodies ?? 0) bodies: set "
                    + "SUBLEDGER_ARCHIVE_FOLDER")
        }
        do throws(ArchiveError) {
            _ = try file.open(in: folder)
            return nil
        } catch {
            return Finding(stream, row: error.description)
        }
    }

    /// A range of events that a worker checked.
    private struct Checked: Sendable {
        let worker: LogAudit
        /// The position before the first event.
        let start: Int64
        let end: Int64
        var events: [(link: AuditedLink, problem: String?)] = []
        var erased: Int64 = 0
        var archived: Int64 = 0
        var unread: Int64 = 0

        /// Follows the chain over the events, and adds what is wrong with them.
        func add(to outcome: inout VerificationOutcome, _ walk: inout ChainWalk, _ stream: AuditedStream) {
            for (link, problem) in events {
                let (before, unchained) = walk.next(link)
                outcome.add(before)
                // What is wrong with an event itself says more than that it does not match the chain.
                if let problem {
                    outcome.add(Finding(stream, position: link.position, problem))
                } else {
                    outcome.add(unchained)
                }
            }
            outcome.events += Int64(events.count)
            outcome.erased += erased
            outcome.archived += archived
            outcome.unread += unread
        }
    }

    /// Checks the events after a position, page by page. The next page is read meanwhile.
    private func check(
        _ start: Int64, through end: Int64, _ erasures: ErasedPositions, _ worker: LogAudit
    ) async throws -> Checked {
        var checked = Checked(worker: worker, start: start, end: end)
        var page = try await worker.page(of: stream, after: start, through: end)
        while let last = page.last?.position {
            async let next = worker.page(of: stream, after: last, through: end)
            checked.events += zip(page.map(\.link), try await problems(page, erasures, worker))
                .map { (link: $0, problem: $1) }
            checked.erased += Int64(page.count { erasures.excuse($0) })
            checked.archived += Int64(page.count { $0.isArchived || $0.isUnread })
            checked.unread += Int64(page.count { $0.isUnread && !erasures.excuse($0) })
            page = try await next
        }
        return checked
    }

    /// What is wrong with each event of a page by itself.
    ///
    /// An event that an older release stored may have what this release derives from its body, or what that one derived.
    private func problems(
        _ page: [AuditedEvent], _ erasures: ErasedPositions, _ worker: LogAudit
    ) async throws -> [String?] {
        var problems = try await problemsOfOneReading(page, erasures, worker)
        guard problems.contains(where: { $0 != nil }), let upgradedAt = try await worker.upgradedAt() else {
            return problems
        }
        let older = page.indices.filter { problems[$0] != nil && page[$0].receivedAt < upgradedAt }
        guard !older.isEmpty else { return problems }
        let found = try await EarlierReading.$isInForce.withValue(true) {
            try await problemsOfOneReading(older.map { page[$0] }, erasures, worker)
        }
        for (index, problem) in zip(older, found) { problems[index] = problem }
        return problems
    }

    private func problemsOfOneReading(
        _ page: [AuditedEvent], _ erasures: ErasedPositions, _ worker: LogAudit
    ) async throws -> [String?] {
        var results: [EventVerifier.Result] = []
        results.reserveCapacity(page.count)
        for event in page {
            // Without a body, nothing can be computed again. The chain is followed in any case.
            // For a file that cannot be read, the file is reported, and not each of its bodies.
            results.append(
                erasures.excuse(event) || event.isUnread ? EventVerifier.Result() : await events.check(event))
        }
        // Whether another text is the same `jsonb`, the database decides.
        let unlike = page.indices.filter { results[$0].facts != nil && !results[$0].areStored(with: page[$0]) }
        let others = try await worker.otherFacts(
            unlike.map { page[$0].position }, unlike.compactMap { results[$0].facts },
            unlike.map { results[$0].defects }, in: stream)
        let columns = Dictionary(others.map { ($0.position, $0.column) }, uniquingKeysWith: { first, _ in first })
        return zip(page, results).map { event, result in
            result.problem ?? columns[event.position].map { "\($0) do not match the body" }
        }
    }
}

extension ListedArchive {
    /// Whether it has bodies of events after a position, as far as is known.
    fileprivate func isAfter(_ position: Int64) -> Bool {
        positions.map { $0.upperBound > position } ?? true
    }
}

/// The positions that have no body by the erasures of a stream.
private struct ErasedPositions: Sendable {
    private let ranges: [ClosedRange<Int64>]

    /// - Parameter statements: With their positions. A statement says nothing about events after it.
    init(_ statements: [(position: Int64, statement: ErasureStatement)]) {
        ranges = statements.flatMap { position, statement in
            statement.positions.filter { $0.upperBound < position }
        }
    }

    /// Whether the event has no body because it was erased.
    func excuse(_ event: AuditedEvent) -> Bool {
        event.isErasable && ranges.contains { $0.contains(event.position) }
    }
}
