import Encoding
import Subscriptions
import TestSupport

let testSubscription = "1000000000000001"
let monthly = "com.example.magazine.monthly"
let premium = "com.example.magazine.premium"

/// A date such as `2018-02-20` (its UTC midnight) or a full ISO 8601 instant.
func day(_ text: String) -> Instant {
    Instant(iso8601: text)!
}

func row(
    _ id: String, _ start: Instant, _ end: Instant, product: String = monthly, subscription: String = testSubscription,
    change: (inout Transaction) -> Void = { _ in }
) -> Transaction {
    var transaction = Transaction(transactionId: id, originalTransactionId: subscription)
    transaction.webOrderLineItemId = "9\(id)"
    transaction.productId = product
    transaction.subscriptionGroupIdentifier = "20000001"
    transaction.quantity = 1
    transaction.purchaseDate = start
    transaction.expiresDate = end
    change(&transaction)
    return transaction
}

func row(
    _ id: String, _ start: String, _ end: String, product: String = monthly, subscription: String = testSubscription,
    change: (inout Transaction) -> Void = { _ in }
) -> Transaction {
    row(id, day(start), day(end), product: product, subscription: subscription, change: change)
}

func intention(
    autoRenew: Bool?, next: String = monthly, current: String = monthly, subscription: String = testSubscription,
    change: (inout RenewalInfo) -> Void = { _ in }
) -> RenewalInfo {
    var renewal = RenewalInfo(originalTransactionId: subscription)
    renewal.productId = current
    renewal.autoRenewProductId = next
    renewal.autoRenewStatus = autoRenew
    change(&renewal)
    return renewal
}

extension Transaction {
    func refunded(_ date: String) -> Transaction {
        var copy = self
        copy.revocationDate = day(date)
        copy.revocationReason = 0
        return copy
    }
}

/// The transaction as signed on a date.
func signed(_ transaction: Transaction, _ date: String) -> Transaction {
    changed(transaction) { $0.signedDate = day(date) }
}

func changed(_ transaction: Transaction, _ change: (inout Transaction) -> Void) -> Transaction {
    var copy = transaction
    change(&copy)
    return copy
}

/// What one notification states, and the time that it refers to.
struct Told: Hashable {
    var occurredAt: Instant
    var facts: Facts

    init(_ occurredAt: Instant, _ transactions: [Transaction], _ renewals: [RenewalInfo] = []) {
        self.occurredAt = occurredAt
        self.facts = Facts(transactions: transactions, renewals: renewals)
    }

    init(_ occurredAt: String, _ transactions: [Transaction], _ renewals: [RenewalInfo] = []) {
        self.init(day(occurredAt), transactions, renewals)
    }

    /// Grant `g-1` of `plus` to `u-1`, or its end.
    static func grant(
        _ at: String, from: String, until: String, by: String, isRevocation: Bool = false
    ) throws -> Told {
        let grant = try GrantStatement(
            id: "g-1", customerId: "u-1", entitlement: "plus", from: day(from), until: day(until), reason: "case 1",
            by: by, isRevocation: isRevocation)
        let event = grant.event(
            source: .operator, environment: .production, app: "a", receivedAt: day(at), dedupeKey: DedupeKey(bytes: []))
        return Told(at, event.transactions)
    }
}

extension [Told] {
    /// Whether the second statement arrives last, so that it takes back what the first one states.
    func takesBack(_ refund: Told, by reversal: Told) -> Bool {
        (lastIndex(of: refund) ?? -1) < (lastIndex(of: reversal) ?? -1)
    }
}

/// One delivery of a statement: its position in the log and our clock.
struct Delivery: Hashable {
    var told: Told
    var receivedAt: Instant
    var position: Int64
}

extension SubscriptionFacts {
    /// Folds in the given order; position and time of receipt follow that order.
    init(arriving told: [Told], subscription: String = testSubscription) {
        self.init(originalTransactionId: subscription)
        for (index, told) in told.enumerated() {
            add(Delivery(told: told, receivedAt: Self.arrival(index), position: Int64(index + 1)))
        }
    }

    mutating func add(_ delivery: Delivery) {
        let told = delivery.told
        fold(told.facts, occurredAt: told.occurredAt, receivedAt: delivery.receivedAt, position: delivery.position)
    }

    /// Later than all dates in the stories, so that late and unordered arrival is realistic.
    static func arrival(_ index: Int) -> Instant {
        day("2060-01-01").advanced(byMilliseconds: Int64(index) * 1000)
    }

    var canonicalBytes: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

extension [String: SubscriptionFacts] {
    /// Folds in the given order into the subscriptions that the reports are about.
    init(arriving told: [Told]) {
        self.init()
        var holders = TransactionHolders()
        for (index, told) in told.enumerated() {
            let ids = Set(
                told.facts.transactions.map(\.originalTransactionId) + told.facts.accountDeletions
                    + told.facts.purchases.map(\.purchaseToken)
                    + [told.facts.seat?.originalTransactionId].compactMap(\.self))
            for id in ids.sorted() {
                let delivery = Delivery(
                    told: told, receivedAt: SubscriptionFacts.arrival(index), position: Int64(index + 1))
                self[id, default: SubscriptionFacts(originalTransactionId: id)].add(delivery)
                shareTransactions(
                    of: StatedFacts(told.facts, about: id), in: id, among: &holders, position: delivery.position)
            }
        }
    }
}

/// A stretch of access, regardless of its rows and grace periods.
struct Span: Hashable, CustomStringConvertible {
    var start: Instant
    var end: Instant

    init(_ start: Instant, _ end: Instant) {
        self.start = start
        self.end = end
    }

    init(_ start: String, _ end: String) {
        self.init(day(start), day(end))
    }

    var description: String { "[\(start), \(end))" }

    /// The union of stretches, in order, without overlap.
    static func union(_ spans: [Span]) -> [Span] {
        var merged: [Span] = []
        for span in spans.sorted(by: { ($0.start, $0.end) < ($1.start, $1.end) }) {
            if let last = merged.last, span.start <= last.end {
                merged[merged.count - 1].end = max(last.end, span.end)
            } else {
                merged.append(span)
            }
        }
        return merged
    }

    static func isSubset(_ inner: [Span], of outer: [Span]) -> Bool {
        inner.allSatisfy { part in outer.contains { $0.start <= part.start && part.end <= $0.end } }
    }
}

extension Subscription {
    init(arriving told: [Told], subscription: String = testSubscription) {
        self.init(SubscriptionFacts(arriving: told, subscription: subscription))
    }

    var spans: [Span] {
        Span.union(access.map { Span($0.start, $0.end) })
    }
}

/// The orders in which one set of notifications may arrive.
enum Arrival: CaseIterable, Sendable {
    case inOrder, reversed, shuffled, eachTwice, reversedEachTwice, shuffledEachTwice

    func arrange<Item>(_ items: [Item]) -> [Item] {
        var generator = TestSeed.generator(items.count)
        return switch self {
        case .inOrder: items
        case .reversed: items.reversed()
        case .shuffled: items.shuffled(using: &generator)
        case .eachTwice: items.flatMap { [$0, $0] }
        case .reversedEachTwice: items.reversed().flatMap { [$0, $0] }
        case .shuffledEachTwice: (items + items).shuffled(using: &generator)
        }
    }
}
