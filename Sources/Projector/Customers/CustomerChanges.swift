import Encoding
import EventLog
import Subscriptions

/// What a batch of events changes in the evidence of who owns which subscription. Most batches change nothing.
struct CustomerChanges: Sendable {
    /// The store account is that of the purchases, empty if it is not known; nil if the key is not an account token.
    typealias Edge = (originalTransactionId: String, key: CustomerKey, position: Int64, storeAccount: String?)
    typealias Statement = (link: LinkStatement, position: Int64)

    /// Subscriptions that were not known before.
    private(set) var newSubscriptions: Set<String> = []
    /// Edges that are new, or have another first event or store account.
    private(set) var newEdges: [Edge] = []
    /// Edges that no longer hold, because their transaction turned out to belong to a family member or to carry another
    /// token.
    private(set) var oldEdges: [Edge] = []
    /// The subscriptions with other evidence than before, and the tokens that they no longer carry, each with the
    /// position of the last event about the subscription.
    private(set) var touched: [CustomerKey: Int64] = [:]
    /// The account tokens that other people than before buy with, perhaps: with another set of store accounts, or with
    /// other periods. Each with the position of the last event about one of its subscriptions.
    private(set) var tokens: [CustomerKey: Int64] = [:]
    /// Link statements of backends, in order of position.
    private(set) var statements: [Statement] = []

    var isEmpty: Bool { touched.isEmpty && statements.isEmpty && tokens.isEmpty }

    /// - Parameters:
    ///   - states: The subscriptions after the events, with their evidence, and with what was written before.
    ///   - subscriptions: The same ones, folded.
    ///   - before: The evidence of those that were known before the events.
    init(
        _ events: [FoldableEvent], _ states: [ProjectedSubscription], _ subscriptions: [Subscription],
        before: [String: OwnershipEvidence]
    ) {
        for (subscription, folded) in zip(states, subscriptions) {
            let id = subscription.facts.originalTransactionId
            let old = before[id]
            guard let new = subscription.evidence else { continue }
            if !folded.hasSamePeriods(as: subscription.written) {
                for purchase in new.purchases {
                    tokens[purchase.token] = max(tokens[purchase.token] ?? 0, subscription.position)
                }
            }
            guard old != new else { continue }
            if old == nil { newSubscriptions.insert(id) }
            touched[new.subscription] = subscription.position
            let (oldKeys, newKeys) = (old?.edges ?? [:], new.edges)
            // Another store account, or another receipt that its purchases are in.
            let hasMoved =
                old?.storeAccount != new.storeAccount || old?.continuedAccount != new.continuedAccount
                || old.map { Set($0.ties.keys) != Set(new.ties.keys) } == true
            for edge in Self.edges(id, new) where oldKeys[edge.key] != edge.position || hasMoved {
                newEdges.append(edge)
                let isCounted = new.storeAccount != nil || !folded.access.isEmpty
                if edge.key.kind == .account, hasMoved || isCounted && oldKeys[edge.key] == nil {
                    tokens[edge.key] = max(tokens[edge.key] ?? 0, subscription.position)
                }
            }
            for key in oldKeys.keys.sorted() where newKeys[key] == nil {
                oldEdges.append((id, key, subscription.position, nil))
                touched[key] = max(touched[key] ?? 0, subscription.position)
                if key.kind == .account { tokens[key] = max(tokens[key] ?? 0, subscription.position) }
            }
        }
        for event in events {
            if let link = event.link { statements.append((link, event.position)) }
        }
    }

    /// The edges that should be stored for a subscription, in order of their keys.
    static func edges(_ originalTransactionId: String, _ evidence: OwnershipEvidence) -> [Edge] {
        let isOutsideApp = evidence.continuedAccount != nil
        let storeAccount = isOutsideApp ? OwnershipEvidence.outsideApp : evidence.storeAccount?.text ?? ""
        return evidence.edges.sorted { $0.key < $1.key }.map { key, position in
            (originalTransactionId, key, position, key.kind == .account ? storeAccount : nil)
        }
    }
}

extension Subscription {
    /// Whether products are accessed at the same times. Nothing that was written is access at no time.
    fileprivate func hasSamePeriods(as other: Subscription?) -> Bool {
        let written = other?.access ?? []
        return access.count == written.count
            && zip(written, access).allSatisfy { old, new in
                old.start == new.start && old.end == new.end && old.productId == new.productId
            }
    }
}
