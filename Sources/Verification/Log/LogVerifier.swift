import AppStore
import EventLog
import Foundation

/// Checks the events of one stream in order of position.
package struct LogVerifier {
    let audit: LogAudit
    let stream: AuditedStream
    let events: EventVerifier
    let heads: [SignedHead]

    /// Returns the first missing or invalid event; nil if all are valid.
    ///
    /// - Parameter onProgress: Called with the number of events checked.
    package func firstProblem(onProgress: (Int64) -> Void) async throws -> Finding? {
        var walk = ChainWalk(stream, heads: heads)
        if let finding = walk.start() { return finding }
        while true {
            let page = try await audit.page(of: stream, after: walk.position)
            guard !page.isEmpty else { break }
            if let finding = try await firstProblem(page, &walk) { return finding }
            onProgress(walk.position)
        }
        if let finding = walk.end() { return finding }
        return try await audit.firstDamagedSubscription(of: stream).map { Finding(stream, row: $0) }
    }

    private func firstProblem(_ page: [AuditedEvent], _ walk: inout ChainWalk) async throws -> Finding? {
        var unchained: Finding?
        var checked = 0
        while unchained == nil, checked < page.count {
            let isNext = page[checked].position == walk.position + 1
            unchained = walk.next(page[checked].link)
            // What is wrong with an event itself says more than that it does not match the chain.
            if isNext { checked += 1 } else { break }
        }
        let results = await results(of: Array(page[..<checked]))
        let bad = results.firstIndex { $0.problem != nil }
        let sound = results[..<(bad ?? results.endIndex)]
        let other = try await audit.firstWithOtherFacts(
            sound.indices.map { page[$0].position }, sound.compactMap(\.facts), sound.map(\.defects), in: stream)
        if let other {
            return Finding(stream, position: other.position, "\(other.column) do not match the body")
        }
        if let bad, let problem = results[bad].problem {
            return Finding(stream, position: page[bad].position, problem)
        }
        return unchained
    }

    /// Checks events concurrently, since signatures dominate the cost, and returns the results in order.
    private func results(of events: [AuditedEvent]) async -> [EventVerifier.Result] {
        let width = max(1, ProcessInfo.processInfo.activeProcessorCount)
        let verifier = self.events
        return await withTaskGroup(of: [(Int, EventVerifier.Result)].self) { group in
            for worker in 0..<width {
                group.addTask {
                    var results: [(Int, EventVerifier.Result)] = []
                    for index in stride(from: worker, to: events.count, by: width) {
                        results.append((index, await verifier.check(events[index])))
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
