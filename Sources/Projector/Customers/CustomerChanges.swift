import EventLog
import Subscriptions

/// What a batch of events changes in the grouping of keys into customers. Most batches change nothing.
struct CustomerChanges {
    typealias Edge = (originalTransactionId: String, key: CustomerKey, position: Int64)
    typealias Statement = (link: LinkStatement, position: Int64)

    /// Subscriptions that were not known before.
    private(set) var newSubscriptions: [String] = []
    /// Edges that are new or have another first event.
    private(set) var newEdges: [Edge] = []
    /// Edges that no longer hold, because their transaction turned out to belong to a family member. The position is
    /// that of the last event about the subscription, which showed it.
    private(set) var oldEdges: [Edge] = []
    /// Link statements of backends, in order of position.
    private(set) var statements: [Statement] = []

    var isEmpty: Bool { newSubscriptions.isEmpty && newEdges.isEmpty && oldEdges.isEmpty && statements.isEmpty }

    /// - Parameters:
    ///   - subscriptions: The subscriptions after the events.
    ///   - start: The position up to which all of `subscriptions` were folded before.
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
