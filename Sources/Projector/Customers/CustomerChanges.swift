import Encoding
import EventLog
import Subscriptions

/// What a batch of events changes in the evidence of who owns which subscription. Most batches change nothing.
struct CustomerChanges: Sendable {
    typealias Edge = (originalTransactionId: String, key: CustomerKey, position: Int64)
    typealias Statement = (link: LinkStatement, position: Int64)

    /// Subscriptions that were not known before.
    private(set) var newSubscriptions: Set<String> = []
    /// Edges that are new or have another first event.
    private(set) var newEdges: [Edge] = []
    /// Edges that no longer hold, because their transaction turned out to belong to a family member or to carry another
    /// token.
    private(set) var oldEdges: [Edge] = []
    /// The subscriptions with other evidence than before, and the tokens that they no longer carry, each with the
    /// position of the last event about the subscription.
    private(set) var touched: [CustomerKey: Int64] = [:]
    /// Link statements of backends, in order of position.
    private(set) var statements: [Statement] = []

    var isEmpty: Bool { touched.isEmpty && statements.isEmpty }

    /// - Parameters:
    ///   - subscriptions: The subscriptions after the events, with their evidence.
    ///   - before: The evidence of those that were known before the events.
    init(
        _ events: [FoldableEvent], _ subscriptions: some Sequence<ProjectedSubscription>,
        before: [String: OwnershipEvidence]
    ) {
        for subscription in subscriptions {
            let id = subscription.facts.originalTransactionId
            let old = before[id]
            guard let new = subscription.evidence, old != new else { continue }
            if old == nil { newSubscriptions.insert(id) }
            touched[new.subscription] = subscription.position
            let (oldKeys, newKeys) = (old?.edges ?? [:], new.edges)
            for (key, position) in newKeys.sorted(by: { $0.key < $1.key }) where oldKeys[key] != position {
                newEdges.append((id, key, position))
            }
            for key in oldKeys.keys.sorted() where newKeys[key] == nil {
                oldEdges.append((id, key, subscription.position))
                touched[key] = max(touched[key] ?? 0, subscription.position)
            }
        }
        for event in events {
            if let link = event.link { statements.append((link, event.position)) }
        }
    }
}
