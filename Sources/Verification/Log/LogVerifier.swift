import AppStore
import EventLog
import Foundation
import Subscriptions

/// Checks the events of one stream in order of position.
package struct LogVerifier {
    let audit: LogAudit
    let stream: AuditedStream
    let events: EventVerifier
    let heads: HeadCheck

    /// Adds every missing or invalid event to the outcome, and then the first bad row beside the events.
    ///
    /// - Parameter onProgress: Called with the number of events checked, in all streams.
    package func check(_ outcome: inout VerificationOutcome, onProgress: (Int64) -> Void) async throws {
        let (roots, problem) = try await heads.roots(of: stream, in: audit)
        outcome.add(problem)
        var walk = ChainWalk(stream, heads: heads.signed, roots: roots)
        let erasures = ErasedPositions(try await audit.erasures(of: stream))
        outcome.add(walk.start())
        for file in try await audit.archiveFiles(of: stream) { outcome.add(finding(about: file)) }
        while true {
            let page = try await audit.page(of: stream, after: walk.position)
            guard !page.isEmpty else { break }
            for finding in try await problems(page, &walk, erasures) { outcome.add(finding) }
            outcome.events += Int64(page.count)
            outcome.erased += Int64(page.count { erasures.excuse($0) })
            outcome.archived += Int64(page.count { $0.isArchived || $0.isUnread })
            outcome.unread += Int64(page.count { $0.isUnread && !erasures.excuse($0) })
            onProgress(outcome.events)
        }
        outcome.add(walk.end())
        outcome.add(try await audit.firstDamagedSubscription(of: stream).map { Finding(stream, row: $0) })
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

    /// What is wrong with the events of a page, in order.
    private func problems(
        _ page: [AuditedEvent], _ walk: inout ChainWalk, _ erasures: ErasedPositions
    ) async throws -> [Finding] {
        let results = await results(of: page, erasures)
        let sound = page.indices.filter { results[$0].facts != nil }
        let others = try await audit.otherFacts(
            sound.map { page[$0].position }, sound.compactMap { results[$0].facts }, sound.map { results[$0].defects },
            in: stream)
        let columns = Dictionary(others.map { ($0.position, $0.column) }, uniquingKeysWith: { first, _ in first })
        var findings: [Finding] = []
        for (event, result) in zip(page, results) {
            let (before, unchained) = walk.next(event.link)
            if let before { findings.append(before) }
            // What is wrong with an event itself says more than that it does not match the chain.
            let problem = result.problem ?? columns[event.position].map { "\($0) do not match the body" }
            if let problem {
                findings.append(Finding(stream, position: event.position, problem))
            } else if let unchained {
                findings.append(unchained)
            }
        }
        return findings
    }

    /// Checks events concurrently, since signatures dominate the cost, and returns the results in order.
    private func results(
        of events: [AuditedEvent], _ erasures: ErasedPositions
    ) async -> [EventVerifier.Result] {
        let width = max(1, ProcessInfo.processInfo.activeProcessorCount)
        let verifier = self.events
        return await withTaskGroup(of: [(Int, EventVerifier.Result)].self) { group in
            for worker in 0..<width {
                group.addTask {
                    var results: [(Int, EventVerifier.Result)] = []
                    for index in stride(from: worker, to: events.count, by: width) {
                        let event = events[index]
                        // Without a body, nothing can be computed again. The chain is followed in any case.
                        // For a file that cannot be read, the file is reported, and not each of its bodies.
                        let result =
                            erasures.excuse(event) || event.isUnread
                            ? EventVerifier.Result() : await verifier.check(event)
                        results.append((index, result))
                    }
                    return results
                }
            }
            var all = [EventVerifier.Result](repeating: EventVerifier.Result(), count: events.count)
            for await results in group {
                for (index, result) in results { all[index] = result }
            }
            return all
        }
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
