import Encoding
import Subscriptions
import TestSupport

/// What Google would answer about the purchases of one customer, in order of the answers.
struct PlayStory {
    private(set) var events: [Event] = []

    static let app = "com.example.app"

    /// An answer about a subscription purchase with one item.
    @discardableResult
    mutating func answer(
        _ at: String, _ state: PurchaseSnapshot.State, token: String = "t1", start: String? = nil, until: String? = nil,
        order: String? = nil, product: String = "premium", plan: String? = "monthly", renews: Bool = true,
        linked: String? = nil, change: (inout PurchaseSnapshot) -> Void = { _ in }
    ) -> Event {
        var snapshot = PurchaseSnapshot(purchaseToken: token, kind: .subscription, stateName: state.rawValue)
        snapshot.startTime = start.map(day)
        snapshot.linkedPurchaseToken = linked
        var item = PurchaseSnapshot.Item(productId: product)
        item.basePlanId = plan
        item.expiryTime = until.map(day)
        item.orderId = order
        item.isAutoRenewing = renews
        snapshot.items = [item]
        change(&snapshot)
        return add(at, [.snapshot(snapshot)])
    }

    @discardableResult
    mutating func add(_ at: String, _ facts: [PurchaseFact]) -> Event {
        add(day(at), facts)
    }

    @discardableResult
    mutating func add(_ at: Instant, _ facts: [PurchaseFact]) -> Event {
        var bytes = Array(repeating: UInt8(0), count: 32)
        for (index, byte) in String(events.count).utf8.enumerated() { bytes[index] = byte }
        var event = Event(
            source: .googleAPI, environment: .production, app: Self.app, type: nil, subtype: nil, kind: .answer,
            dedupeKey: DedupeKey(bytes: bytes), occurredAt: at, transactions: [], renewals: [], defects: [])
        event.purchases = facts
        events.append(event)
        return event
    }

    mutating func void(_ at: String, token: String = "t1", order: String?, reason: Int? = nil, quantity: Int? = nil) {
        add(
            at,
            [
                .void(
                    PurchaseVoid(
                        purchaseToken: token, orderId: order, voidedAt: day(at), isExactTime: true, reason: reason,
                        quantity: quantity))
            ])
    }

    mutating func notice(_ at: String, token: String = "t1", _ kind: PurchaseNotice.Kind) {
        add(at, [.notice(PurchaseNotice(purchaseToken: token, kind: kind, at: day(at)))])
    }

    mutating func order(
        _ at: String, _ id: String, token: String = "t1", product: String = "premium", from start: String,
        until end: String, total: Int64? = nil, state: String = "PROCESSED", phase: String? = nil
    ) {
        var order = PurchaseOrder(orderId: id, purchaseToken: token, stateName: state)
        order.createTime = day(start)
        order.total = total
        order.currency = total == nil ? nil : "EUR"
        var item = PurchaseOrder.Item(productId: product)
        item.periodStart = day(start)
        item.periodEnd = day(end)
        item.phase = phase
        order.items = [item]
        add(at, [.order(order)])
    }

    private static func ledger(_ events: [Event]) -> MemoryLedger {
        var ledger = MemoryLedger()
        for (index, event) in events.enumerated() {
            // Received in this order, whenever the answers were given.
            ledger.append(event, receivedAt: SubscriptionFacts.arrival(index))
        }
        return ledger
    }

    /// The facts of each subscription, and of each purchase that continues another one.
    var facts: [String: SubscriptionFacts] {
        Self.ledger(events).facts(of: MemoryLedger.Stream(app: Self.app, environment: .production))
    }

    /// The subscriptions that follow from the events, by id.
    static func fold(_ events: [Event], products: ProductCatalog = .empty) -> [String: Subscription] {
        Dictionary(
            uniqueKeysWithValues: ledger(events).subscriptions(products: [app: products]).map {
                ($0.subscription.originalTransactionId, $0.subscription)
            })
    }

    var subscriptions: [String: Subscription] { Self.fold(events) }

    /// The only subscription.
    var subscription: Subscription {
        let all = subscriptions
        precondition(all.count == 1, "there are \(all.count) subscriptions: \(all.keys.sorted())")
        return all.first!.value
    }
}

extension Subscription {
    /// The access, adjoining periods as one.
    var accessSpans: [Span] { Span.union(access.map { Span($0.start, $0.end) }) }
}
