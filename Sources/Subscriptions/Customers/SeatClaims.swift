import Encoding

/// Which customers have a seat of a subscription, by what the backend states and by the number of seats that were bought.
///
/// The oldest claims have the seats. If there are fewer seats than claims, after a smaller renewal or a refund of seats, the
/// newest claims have none until a seat is free again: the App Store takes none back by itself. Between two periods, the number
/// of seats is that of the earlier one.
package struct SeatClaims: Sendable, Hashable {
    /// An interval in which a customer has a seat, or had one.
    package struct Held: Sendable, Hashable {
        /// Of kind `link`.
        package let customer: CustomerKey
        package let from: Instant
        /// ``Instant/latest`` while the customer has it.
        package let until: Instant
        /// The position of the claim.
        package let position: Int64
        /// The position of the statement that took it back; nil if none did.
        package let releasedAt: Int64?
    }

    /// A claim that the backend has not taken back.
    package struct Standing: Sendable, Hashable {
        /// Of kind `link`.
        package let customer: CustomerKey
        package let claimedAt: Instant
        /// The position of the claim.
        package let position: Int64
        /// Since when the customer has the seat; nil for one who waits for a free seat.
        package fileprivate(set) var since: Instant?
    }

    /// In order of their start.
    package private(set) var held: [Held] = []
    /// Oldest claim first.
    package private(set) var standing: [Standing] = []

    package static let none = SeatClaims()

    private init() {}

    /// The claims that stand and have no seat, oldest first.
    package var waiting: [Standing] { standing.filter { $0.since == nil } }
}

extension SeatClaims {
    /// The number of seats at an instant; nil if the subscription had none by then.
    package static func seats(of facts: SubscriptionFacts, at instant: Instant) -> Int? {
        SeatNumbers(of: facts).steps.last { $0.at <= instant }?.seats
    }
}

extension SeatClaims {
    private enum Change {
        case seats(Int)
        case claim(CustomerKey, position: Int64)
        case release(CustomerKey, position: Int64)
    }

    /// The claims by the facts of the subscription, which decide alone: neither the order of reports nor their repetition does.
    package init(of facts: SubscriptionFacts) {
        guard !facts.seats.isEmpty else { return }
        var changes: [(at: Instant, change: Change)] = SeatNumbers(of: facts).steps.map { ($0.at, .seats($0.seats)) }
        for (stated, evidence) in facts.seatsInOrder {
            let customer = CustomerKey(.link, stated.customerId.text)
            changes.append(
                (
                    stated.statedAt,
                    stated.isClaimed
                        ? .claim(customer, position: evidence.position)
                        : .release(customer, position: evidence.position)
                ))
        }
        // Of one instant, the seats count first, and statements in their order.
        let ordered = changes.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
        var customers: Set<CustomerKey> = []
        var seats = 0
        for (at, change) in ordered.map(\.element) {
            switch change {
            case .seats(let number):
                if number < seats {
                    for index in standing.indices.dropFirst(number).prefix(seats - number) {
                        end(index, at)
                        standing[index].since = nil
                    }
                }
                for index in standing.indices.prefix(number).dropFirst(min(seats, number)) {
                    standing[index].since = at
                }
                seats = number
            case .claim(let customer, let position):
                guard customers.insert(customer).inserted else { continue }
                standing.append(
                    Standing(
                        customer: customer, claimedAt: at, position: position,
                        since: standing.count < seats ? at : nil))
            case .release(let customer, let position):
                guard customers.remove(customer) != nil,
                    let index = standing.firstIndex(where: { $0.customer == customer })
                else { continue }
                end(index, at, by: position)
                standing.remove(at: index)
                if index < seats, standing.count >= seats { standing[seats - 1].since = at }
            }
        }
        for index in standing.indices { end(index, .latest) }
        held.sort { ($0.from, $0.until, $0.customer) < ($1.from, $1.until, $1.customer) }
    }

    private mutating func end(_ index: Int, _ instant: Instant, by release: Int64? = nil) {
        let claim = standing[index]
        guard let since = claim.since, since < instant else { return }
        held.append(
            Held(
                customer: claim.customer, from: since, until: instant, position: claim.position, releasedAt: release))
    }
}

/// How many seats a subscription has, from which instant on.
struct SeatNumbers {
    /// In order of time, each with another number than the one before.
    private(set) var steps: [(at: Instant, seats: Int)] = []

    /// - Parameter facts: Those of the purchaser's subscription.
    init(of facts: SubscriptionFacts) {
        let all = Subscription(facts).transactions
        let rows = all.compactMap { row -> Row? in
            guard let bought = row.seats?.bought, let start = row.transaction.purchaseDate,
                var end = row.transaction.expiresDate
            else { return nil }
            // A refund of some of the seats ends none of the others.
            if !row.isRefundedInSeats, let taken = row.settled.revocationDate { end = min(end, taken) }
            if let other = Subscription.replacement(of: row.settled, in: all) { end = min(end, other.at) }
            return start < end ? Row(interval: start..<end, id: row.transaction.transactionId, bought: bought) : nil
        }
        let refunds = Self.refunds(in: facts)
        let instants = Set(
            rows.flatMap { [$0.interval.lowerBound, $0.interval.upperBound] }
                + refunds.values.joined().map(\.at))
        for at in instants.sorted() {
            let current = rows.filter { $0.interval.contains(at) }
            guard !current.isEmpty else { continue }
            let seats = current.reduce(0) { sum, row in
                let revoked = refunds[row.id]?.last { $0.at <= at }?.revoked ?? 0
                return sum + min(max(row.bought - revoked, 0), SeatClaims.seatsMax)
            }
            if seats != steps.last?.seats { steps.append((at, seats)) }
        }
    }

    private struct Row {
        let interval: Range<Instant>
        let id: String
        let bought: Int
    }

    /// The numbers of refunded seats by transaction, in order of time, as the store stated them.
    private static func refunds(in facts: SubscriptionFacts) -> [String: [(at: Instant, revoked: Int)]] {
        var refunds: [String: [(at: Instant, revoked: Int)]] = [:]
        for (transaction, statement) in facts.orderedTransactions {
            guard let revoked = transaction.value.seats?.revoked else { continue }
            let id = transaction.value.transactionId
            let last = refunds[id]?.last
            if revoked != last?.revoked ?? 0 {
                refunds[id, default: []].append((max(statement.firstStatedAt, last?.at ?? .earliest), revoked))
            }
        }
        return refunds
    }
}

extension SeatClaims {
    /// A number of seats that no subscription reaches, so that sums of them do not overflow.
    static let seatsMax = 1_000_000_000
}

extension Subscription.ResolvedTransaction {
    /// Whether what was taken back of it is some of its seats.
    fileprivate var isRefundedInSeats: Bool { settled.revocation == .amountRefunded }
}

extension SubscriptionFacts {
    /// The statements about seats in the order of their times, those of one time in the order of receipt.
    var seatsInOrder: [(key: StatedSeat, value: Provenance)] {
        if seats.count < 2 { return Array(seats) }
        return seats.sorted { left, right in
            (left.key.statedAt, left.value.position, left.key.customerId, left.key.isClaimed ? 1 : 0)
                < (right.key.statedAt, right.value.position, right.key.customerId, right.key.isClaimed ? 1 : 0)
        }
    }
}
