import Encoding
import EventLog
import Subscriptions

/// Links purchases that were handed in to the customer who handed them in.
struct PurchaseLinks: Sendable {
    let log: LogReader
    let links: LinkService
    let clock: StoreClock

    struct Outcome: Sendable {
        /// Whether another customer owned one of the purchases.
        var isOfOtherCustomer = false
        /// Whether the customer is linked to the purchases; nil if there is none.
        var isLinked: Bool?
        /// The position of the customer's links; nil if they did not change and were not confirmed.
        var position: Int64?

        /// What came of some purchases and of others.
        func and(_ other: Outcome) -> Outcome {
            Outcome(
                isOfOtherCustomer: isOfOtherCustomer || other.isOfOtherCustomer,
                isLinked: isLinked == true && other.isLinked == true,
                position: [position, other.position].compactMap(\.self).max())
        }
    }

    /// Links the purchases of events to a customer, as the app's ownership permits.
    ///
    /// Safe to repeat.
    ///
    /// Whether the links count is decided by the fold, see ``LinkClaims``.
    ///
    /// If the backend names the account id that it gave the app, purchases with it are linked together with that id; those
    /// with another one are another customer's, and are not linked.
    ///
    /// - Parameter basis: ``LinkStatement/Basis/id`` if the customer has shown nothing that only the buyer has: then what
    ///   belongs to another customer stays with it.
    /// - Throws: ``ReadError``, ``AppendError``.
    func link(
        _ events: [Event], to customer: HandInCustomer, in stream: StreamKey, basis: LinkStatement.Basis = .purchase
    ) async throws -> Outcome {
        let purchases = Self.newestFirst(events)
        let tokens = Self.accountTokens(events)
        guard let account = CustomerKey(stated: .account, customer.accountId) else {
            return try await link(
                purchases, handingIn: Set(tokens.values.joined()), to: customer.id, in: stream, basis: basis)
        }
        let own = purchases.filter { tokens[ByteString($0)]?.contains(account) == true }
        let others = purchases.filter { tokens[ByteString($0)] == nil }
        var outcome = try await link(others, to: customer.id, in: stream, basis: basis)
        if !own.isEmpty {
            let named = try await link(own, of: account, to: customer.id, in: stream)
            outcome = others.isEmpty ? named : outcome.and(named)
        }
        if own.count + others.count < purchases.count { outcome.isLinked = false }
        return outcome
    }

    /// Like ``link(_:to:in:basis:)``, for the purchases of events that were linked before.
    ///
    /// - Parameters:
    ///   - tokens: The account tokens of the purchases.
    ///   - account: An account id of all purchases that the backend gave the app for the customer; nil if it names none.
    func link(
        _ purchases: [String], handingIn tokens: Set<CustomerKey> = [], of account: CustomerKey? = nil,
        to customerId: String, in stream: StreamKey, basis: LinkStatement.Basis = .purchase
    ) async throws -> Outcome {
        var outcome = Outcome()
        guard !purchases.isEmpty else { return outcome }
        let now = clock.date()
        let owners = try await log.linkedOwners(of: purchases, in: stream, at: now)
        outcome.isOfOtherCustomer = !owners.subtracting([ByteString(customerId)]).isEmpty
        switch try await links.add(
            purchases.map { CustomerKey(.subscription, $0) }, of: account, to: customerId, basis: basis,
            handingIn: tokens, in: stream, receivedAt: now)
        {
        case .stated(let position, _):
            outcome.isLinked = true
            outcome.position = position
        case .contested:
            outcome.isOfOtherCustomer = true
            outcome.isLinked = false
        }
        return outcome
    }

    /// By purchase with any: the account tokens of the purchases themselves.
    private static func accountTokens(_ events: [Event]) -> [ByteString: Set<CustomerKey>] {
        var tokens: [ByteString: Set<CustomerKey>] = [:]
        func note(_ id: String?, _ purchases: some Sequence<ByteString>) {
            guard let token = CustomerKey(stated: .account, id) else { return }
            for purchase in purchases { tokens[purchase, default: []].insert(token) }
        }
        for transaction in events.flatMap(\.transactions) where !transaction.isFamilyShared {
            note(transaction.appAccountToken, [ByteString(transaction.originalTransactionId)])
        }
        for event in events {
            for case .snapshot(let snapshot) in event.purchases { note(snapshot.accountId, event.subscriptions) }
        }
        return tokens
    }

    /// The `originalTransactionId`s that can be linked, those with the newest purchase first.
    private static func newestFirst(_ events: [Event]) -> [String] {
        var latest: [ByteString: Instant] = [:]
        for id in events.flatMap(\.subscriptions)
        where (try? LinkStatement.check(id.text, "originalTransactionId")) != nil {
            latest[id] = .earliest
        }
        for transaction in events.flatMap(\.transactions) {
            let id = ByteString(transaction.originalTransactionId)
            guard let known = latest[id], let purchaseDate = transaction.purchaseDate else { continue }
            latest[id] = max(known, purchaseDate)
        }
        return latest.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map(\.key.text)
    }
}
