import EventLog
import Subscriptions

/// What a batch of events changes in who belongs together. Most change nothing.
struct CustomerChanges {
    typealias Edge = (originalTransactionId: String, key: CustomerKey, position: Int64)
    typealias Statement = (link: LinkStatement, position: Int64)

    /// Subscriptions that were not known before.
    private(set) var newSubscriptions: [String] = []
    /// Or of another first event.
    private(set) var newEdges: [Edge] = []
    /// Of a row that turned out to be a family member's; with the last event about the subscription, which showed it.
    private(set) var oldEdges: [Edge] = []
    /// What backends stated, in the order of positions.
    private(set) var statements: [Statement] = []

    var isEmpty: Bool { newSubscriptions.isEmpty && newEdges.isEmpty && oldEdges.isEmpty && statements.isEmpty }

    /// - Parameters:
    ///   - subscriptions: As they are after the events.
    ///   - start: All of `subscriptions` was folded up to this position before.
    init(_ events: [FoldableEvent], _ subscriptions: some Sequence<ProjectedSubscription>, after start: Int64) {
        for subscription in subscriptions {
            let facts = subscription.facts
            let id = facts.originalTransactionId
            guard !subscription.isNew else {
                newSubscriptions.append(id)
                add(facts.customerKeys(), id)
                continue
            }
            guard facts.hasNews(since: start) else { continue }
            let (old, new) = (facts.customerKeys(upTo: start), facts.customerKeys())
            add(new.filter { old[$0.key] != $0.value }, id)
            for key in old.keys where new[key] == nil { oldEdges.append((id, key, subscription.position)) }
        }
        for event in events {
            if let link = event.link { statements.append((link, event.position)) }
        }
    }

    private mutating func add(_ keys: [CustomerKey: Int64], _ subscription: String) {
        for (key, position) in keys.sorted(by: { $0.key < $1.key }) { newEdges.append((subscription, key, position)) }
    }
}
