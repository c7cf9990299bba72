import Encoding
import Subscriptions

/// What an answer about one purchase or order says, in the ledger's terms.
package struct PurchaseContent: Sendable, Hashable {
    package var facts: [PurchaseFact]
    /// Whether it is a test purchase; nil for an order, which does not say it.
    package var isTest: Bool?
    package var defects: [Defect] = []

    package var environment: Environment? { isTest.map { $0 ? .sandbox : .production } }

    /// Reads the body of an answer with status 200.
    ///
    /// - Parameters:
    ///   - token: The token that was asked about. Answers do not contain it.
    ///   - answeredAt: Our clock.
    /// - Throws: ``UnreadableJSON`` for a body that says nothing, such as one that was cut off. It is no fact.
    init(
        decoding answer: JSONValue, of resource: PlayResource, token: PurchaseToken, answeredAt: Instant
    ) throws(UnreadableJSON) {
        guard answer.isObject else { throw .notAnObject }
        var fields = JSONFields(answer)
        switch resource {
        case .subscriptionV2:
            let snapshot = try PurchaseSnapshot(subscriptionV2: &fields, token)
            self.init(facts: [.snapshot(snapshot)], isTest: fields.raw("testPurchase") != nil)
        case .productV2:
            let snapshot = try PurchaseSnapshot(productV2: &fields, token)
            self.init(facts: [.snapshot(snapshot)], isTest: fields.raw("testPurchaseContext") != nil)
        case .order:
            self.init(facts: [.order(try PurchaseOrder(&fields, token))], isTest: nil)
        }
        if case .snapshot(let snapshot)? = facts.first { fields.noteContradictions(of: snapshot, answeredAt) }
        defects = fields.defects
    }

    init(facts: [PurchaseFact], isTest: Bool? = nil) {
        self.facts = facts
        self.isTest = isTest
    }
}

extension JSONFields {
    /// Records a state that this version does not know, one that contradicts the stated end, and an end that is not after
    /// the start.
    fileprivate mutating func noteContradictions(of snapshot: PurchaseSnapshot, _ answeredAt: Instant) {
        let isSubscription = snapshot.kind == .subscription
        note(snapshot.stateName, of: isSubscription ? .subscriptionState : .purchaseState)
        guard isSubscription else { return }
        for item in snapshot.items {
            guard let start = snapshot.startTime, let end = item.expiryTime, end <= start else { continue }
            note(
                "expiryTime",
                "of \(UnknownValue.short(item.productId)) is not after startTime, so that it gives no access")
        }
        guard snapshot.state == .expired else { return }
        for item in snapshot.items where item.expiryTime.map({ $0 > answeredAt }) ?? true {
            note(
                "expiryTime",
                "of \(UnknownValue.short(item.productId)) is \(item.expiryTime == nil ? "missing" : "ahead") although the "
                    + "state is EXPIRED: access ends with the answer")
        }
    }
}
