import AppStore
import EventLog
import Foundation

/// Checks the events of one stream in order of position.
package struct LogVerifier {
    let audit: LogAudit
    let stream: AuditedStream
    let events: EventVerifier

    package init(audit: LogAudit, stream: AuditedStream, events: EventVerifier) {
        self.audit = audit
        self.stream = stream
        self.events = events
    }

    /// Returns the first missing or invalid event; nil if all are valid.
    ///
    /// - Parameter onProgress: Called with the number of events checked.
    package func firstProblem(onProgress: (Int64) -> Void) async throws -> Finding? {
        var position: Int64 = 0
        while true {
            let page = try await audit.page(of: stream, after: position)
            guard let last = page.last else { break }
            if let finding = try await firstProblem(page, after: position) { return finding }
            position = last.position
            onProgress(position)
        }
        guard let head = stream.head else { return Finding(stream, "has events but no head") }
        if position < head { return Finding(stream, position: position + 1, "event is missing") }
        if head < position { return Finding(stream, position: head + 1, "event is past the head of its stream") }
        return try await audit.firstDamagedSubscription(of: stream).map { Finding(stream, row: $0) }
    }

    private func firstProblem(_ page: [AuditedEvent], after position: Int64) async throws -> Finding? {
        let gap = page.indices.first { page[$0].position != position + Int64($0) + 1 }
        let unbroken = Array(page[..<(gap ?? page.endIndex)])
        let results = await results(of: unbroken)
        let bad = results.firstIndex { $0.problem != nil }
        let sound = results[..<(bad ?? results.endIndex)]
        let other = try await audit.firstWithOtherFacts(
            sound.indices.map { unbroken[$0].position }, sound.compactMap(\.facts), sound.map(\.defects), in: stream)
        if let other {
            return Finding(stream, position: other.position, "\(other.column) do not match the body")
        }
        if let bad, let problem = results[bad].problem {
            return Finding(stream, position: unbroken[bad].position, problem)
        }
        return gap.map { Finding(stream, position: position + Int64($0) + 1, "event is missing") }
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
