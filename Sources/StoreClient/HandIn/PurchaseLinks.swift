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
    }

    /// Links the purchases of events to a customer, as the app's ownership permits.
    ///
    /// Safe to repeat.
    ///
    /// Whether the links count is decided by the fold, see ``LinkClaims``.
    ///
    /// - Parameter basis: ``LinkStatement/Basis/id`` if the customer has shown nothing that only the buyer has: then what
    ///   belongs to another customer stays with it.
    /// - Throws: ``ReadError``, ``AppendError``.
    func link(
        _ events: [Event], to customerId: String, in stream: StreamKey, basis: LinkStatement.Basis = .purchase
    ) async throws -> Outcome {
        try await link(
            Self.newestFirst(events), handingIn: Self.accountTokens(events), to: customerId, in: stream, basis: basis)
    }

    /// Like ``link(_:to:in:basis:)``, for the purchases of events that were linked before.
    ///
    /// - Parameter tokens: The account tokens of the purchases.
    func link(
        _ purchases: [String], handingIn tokens: Set<CustomerKey> = [], to customerId: String, in stream: StreamKey,
        basis: LinkStatement.Basis = .purchase
    ) async throws -> Outcome {
        var outcome = Outcome()
        guard !purchases.isEmpty else { return outcome }
        let now = clock.date()
        let owners = try await log.linkedOwners(of: purchases, in: stream, at: now)
        outcome.isOfOtherCustomer = !owners.subtracting([ByteString(customerId)]).isEmpty
        switch try await links.add(
            purchases.map { CustomerKey(.subscription, $0) }, to: customerId, basis: basis,
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

    /// The account tokens of the purchases themselves.
    private static func accountTokens(_ events: [Event]) -> Set<CustomerKey> {
        let stated =
            events.flatMap(\.transactions).filter { !$0.isFamilyShared }.map(\.appAccountToken)
            + events.flatMap(\.purchases).map { fact in
                if case .snapshot(let snapshot) = fact { snapshot.accountId } else { nil }
            }
        return Set(stated.compactMap { CustomerKey(stated: .account, $0) })
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
