import Encoding

/// The life of one subscription on Google Play, driven by explicit actions: a chain of purchase tokens. Each action
/// updates the store's books, the messages that the store sends, and an independent record of the expected answers.
///
/// Call actions in the order of their instants. The caller ensures their preconditions; an impossible action is a bug in
/// the story and traps. Actions after an unacknowledged purchase was taken back have no effect.
package struct PlayLife: Sendable {
    package let customer: PlayCustomer
    package let terms: PlayTerms
    /// Oldest first.
    package internal(set) var purchases: [PlayPurchaseToken] = []
    /// Pending changes of the plan that were cancelled.
    package internal(set) var withdrawn: [PlayPurchaseToken] = []
    /// Oldest first.
    package internal(set) var orders: [PlayOrder] = []
    package internal(set) var voids: [PlayVoid] = []
    /// What was paid for each product and period, oldest first. A promotion pays for nothing, at a price of 0.
    package internal(set) var charges: [Purchase] = []
    /// Renewals that could not be charged when they were due, oldest first.
    package internal(set) var failures: [FailedRenewal] = []
    /// Why access ends, by the transaction id of the charge.
    package internal(set) var endings: [String: Ending] = [:]
    /// In the order in which they were caused, at most seconds apart from that of their times.
    package private(set) var messages: [PlayMessage] = []
    package internal(set) var key = PlayAnswerKey()
    /// What is known after each message, and after each event without one that an answer shows.
    package private(set) var accessHistory: [PlayAccessEntry] = []
    /// What is known until the void of the newest payment is sent: the store shows only that its period has ended. Nil if
    /// no void is awaited.
    var accessBeforeVoid: AccessBook?
    /// The end of the last paid period. A deferral moves it.
    package internal(set) var paidEnd = Instant.earliest
    /// The end of the grace period after the last paid period, or of the day in which a charge is tried again.
    var graceEnd: Instant?
    /// How long a planned pause lasts.
    var pauseLength: CalendarDuration?
    var identifiers: PlayIdentifiers
    /// Acknowledgements by the app's server, by purchase token, and ends that it could not date otherwise, by ``endKey(of:)``.
    private let acknowledged: [String: Instant]
    private let isAcknowledgedByApp: Bool
    /// An unacknowledged purchase was taken back.
    private(set) var isClosed = false
    private var random: SplitMix64

    /// How long the app takes to acknowledge a purchase.
    private static let appMilliseconds: Int64 = 20_000

    /// - Parameters:
    ///   - isAcknowledgedByApp: Whether the app itself acknowledges its purchases.
    ///   - acknowledged: When the app's server acknowledged purchases, by purchase token.
    package init(
        customer: PlayCustomer, identifiers: PlayIdentifiers, terms: PlayTerms = PlayTerms(),
        isAcknowledgedByApp: Bool = true, acknowledged: [String: Instant] = [:], lagSeed: UInt64 = 1
    ) {
        self.customer = customer
        self.identifiers = identifiers
        self.terms = terms
        self.isAcknowledgedByApp = isAcknowledgedByApp
        self.acknowledged = acknowledged
        random = SplitMix64(seed: lagSeed)
    }

    /// All purchase tokens, in the order of purchase.
    package var tokens: [PlayPurchaseToken] {
        (purchases + withdrawn).sorted { ($0.history[0].at, $0.orderId) < ($1.history[0].at, $1.orderId) }
    }

    package var current: PlayPurchaseToken {
        guard let last = purchases.last else { preconditionFailure("the subscription has no purchase") }
        return last
    }

    /// The books of the newest token after the last action.
    package var book: PlayBook {
        guard let last = current.history.last else { preconditionFailure("the purchase has no books") }
        return last.book
    }

    /// When a server was first shown that the newest token has ended, in an answer that states no end or one that lies ahead;
    /// nil if it was not.
    var endShownAt: Instant? { acknowledged[Self.endKey(of: current.token)] }

    /// Where the first answer is noted by which alone the end of a token can be dated.
    package static func endKey(of token: String) -> String { "\(token) end" }

    /// The plan of the newest token's first item.
    package var plan: PlayPlan { book.items[0].plan }

    /// The ids of the last paid order; nil after a promotion.
    package var lastOrderId: String? { book.items[0].successfulOrderId }
}

// MARK: - The books

extension PlayLife {
    /// A delay, in milliseconds.
    mutating func lag(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }

    /// An instant a drawn number of milliseconds later.
    mutating func later(_ range: ClosedRange<Int64>, than instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: lag(range))
    }

    /// Records the books of the newest token after a change.
    mutating func update(at instant: Instant, _ change: (inout PlayBook) -> Void) {
        update(purchases.count - 1, at: instant, change)
    }

    mutating func update(_ number: Int, at instant: Instant, _ change: (inout PlayBook) -> Void) {
        guard let last = purchases[number].history.last else { preconditionFailure("the purchase has no books") }
        var book = last.book
        change(&book)
        purchases[number].history.append(.init(at: max(instant, last.at), book: book))
    }

    mutating func updateOrder(_ orderId: String, _ change: (inout PlayOrder) -> Void) {
        guard let index = orders.lastIndex(where: { $0.orderId == orderId }) else {
            preconditionFailure("unknown order")
        }
        change(&orders[index])
    }

    /// Records a message about the newest token.
    mutating func send(_ type: PlayMessage.SubscriptionType, at instant: Instant) {
        send(type, at: instant, token: current.token, productId: plan.productId)
    }

    mutating func send(_ type: PlayMessage.SubscriptionType, at instant: Instant, token: String, productId: String) {
        send(.subscription(type, productId: productId), at: instant, token: token)
    }

    mutating func send(_ content: PlayMessage.Content, at instant: Instant, token: String) {
        messages.append(
            PlayMessage(
                messageId: identifiers.messageId(), purchaseToken: token, eventTime: instant, content: content))
        recordAccess(at: instant)
    }

    /// Adds what is known from the instant on to the history.
    mutating func recordAccess(at instant: Instant) {
        accessHistory.append(PlayAccessEntry(at: instant, access: accessBeforeVoid ?? key.access))
    }
}

// MARK: - Access

extension PlayLife {
    /// The name of a period in the record of access.
    static func period(_ paidBy: String, _ productId: String) -> String { "\(paidBy)/\(productId)" }

    /// The names of the periods of a token's last payment; of the newest token's if it is nil. A promotion has no order.
    func currentPeriods(_ purchase: PlayPurchaseToken? = nil) -> [String] {
        let purchase = purchase ?? current
        let items = purchase.history.last?.book.items ?? []
        return items.filter { !$0.isDeferred }.map {
            Self.period($0.successfulOrderId ?? purchase.token, $0.plan.productId)
        }
    }

    mutating func cutGrace(at instant: Instant) {
        for period in currentPeriods() { key.access.cutGrace(after: period, at: instant) }
    }
}

// MARK: - Acknowledgement

extension PlayLife {
    /// Notes that the newest token has been paid, from which on it can be acknowledged.
    mutating func expectAcknowledgement(from instant: Instant, end: Instant) {
        let token = current.token
        let byApp = isAcknowledgedByApp ? instant.advanced(byMilliseconds: Self.appMilliseconds) : nil
        let number = purchases.count - 1
        purchases[number].deadline = terms.deadline(plan, purchased: instant, end: end)
        purchases[number].acknowledgedAt = [byApp, acknowledged[token]].compactMap(\.self).min()
    }

    /// Lets time pass until an action. Takes an unacknowledged purchase back at its deadline.
    ///
    /// - Returns: Whether the subscription still goes on.
    mutating func proceed(to instant: Instant) -> Bool {
        guard !isClosed, let purchase = purchases.last else { return !isClosed }
        guard let deadline = purchase.deadline, deadline < instant, !purchase.isAcknowledged(at: deadline),
            [.active, .canceled].contains(book.state)
        else { return true }
        takeBackUnacknowledged(at: deadline)
        isClosed = true
        return false
    }

    private mutating func takeBackUnacknowledged(at instant: Instant) {
        guard let orderId = book.items[0].successfulOrderId else { return }
        update(at: instant) {
            $0.state = .expired
            for index in $0.items.indices {
                $0.items[index].expiryTime = instant
                $0.items[index].isAutoRenewing = false
            }
            $0.cancellation = PlayCancellation(kind: .system, at: instant)
        }
        awaitVoid(of: orderId, at: instant)
        takeBack(orderId, at: instant, source: .google, reason: .unacknowledged)
        key.set(.refunded, at: instant)
        send(.revoked, at: later(500...1500, than: instant))
        sendAfterLast(.expired)
        sendVoid(of: orderId, at: later(4000...9000, than: instant))
    }

    /// Sends a message two to three seconds after the last one about the newest token.
    mutating func sendAfterLast(_ type: PlayMessage.SubscriptionType) {
        guard let last = messages.last else { preconditionFailure("there is no message") }
        send(type, at: later(2000...3000, than: last.eventTime))
    }
}
