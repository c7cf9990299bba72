import EventLog
import Subscriptions

/// What a batch of events changes in who belongs together. Most change nothing.
struct CustomerChanges {
    typealias Edge = (line: String, key: CustomerKey, position: Int64)
    typealias Statement = (link: LinkStatement, position: Int64)

    /// Lines that were not known before.
    private(set) var newLines: [String] = []
    /// Or of another first event.
    private(set) var newEdges: [Edge] = []
    /// Of a row that turned out to be a family member's; with the last event about the line, which showed it.
    private(set) var oldEdges: [Edge] = []
    /// What backends stated, in the order of positions.
    private(set) var statements: [Statement] = []

    var isEmpty: Bool { newLines.isEmpty && newEdges.isEmpty && oldEdges.isEmpty && statements.isEmpty }

    /// - Parameters:
    ///   - lines: As they are after the events.
    ///   - start: All of `lines` was folded up to this position before.
    init(_ events: [FoldableEvent], _ lines: some Sequence<ProjectedLine>, after start: Int64) {
        for line in lines {
            let facts = line.facts
            let id = facts.originalTransactionId
            guard !line.isNew else {
                newLines.append(id)
                add(facts.customerKeys(), id)
                continue
            }
            guard facts.hasNews(since: start) else { continue }
            let (old, new) = (facts.customerKeys(upTo: start), facts.customerKeys())
            add(new.filter { old[$0.key] != $0.value }, id)
            for key in old.keys where new[key] == nil { oldEdges.append((id, key, line.position)) }
        }
        for event in events {
            if let link = event.link { statements.append((link, event.position)) }
        }
    }

    private mutating func add(_ keys: [CustomerKey: Int64], _ line: String) {
        for (key, position) in keys.sorted(by: { $0.key < $1.key }) { newEdges.append((line, key, position)) }
    }
}
