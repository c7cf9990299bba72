import Encoding

/// The life of a one-time purchase on Google Play. See ``PlayLife`` for subscriptions.
package struct PlayOneTimeLife: Sendable {
    /// What the store's books say about the purchase.
    package struct Book: Sendable, Hashable {
        package enum State: Sendable, Hashable {
            case pending, purchased, cancelled
        }

        package internal(set) var state: State
        /// Nil until the purchase is paid.
        package internal(set) var completionTime: Instant?
        package internal(set) var refundableQuantity: Int
        package internal(set) var isConsumed = false
    }

    package let customer: PlayCustomer
    package let product: Product
    /// Google's product id.
    package let sku: String
    package let quantity: Int
    package let isTest: Bool
    package let token: String
    package let orderId: String
    package private(set) var history: [(at: Instant, book: Book)] = []
    package private(set) var orders: [PlayOrder] = []
    package private(set) var voids: [PlayVoid] = []
    package private(set) var messages: [PlayMessage] = []
    package private(set) var key = PlayAnswerKey()
    /// What is known after each message.
    package private(set) var accessHistory: [PlayAccessEntry] = []
    package private(set) var acknowledgedAt: Instant?
    package private(set) var deadline: Instant?
    private let isAcknowledgedByApp: Bool
    private let acknowledgedByServer: Instant?
    private var identifiers: PlayIdentifiers
    private var random: SplitMix64
    private var isClosed = false

    private static let deadlineLength = Duration.seconds(3 * 86_400)

    /// Starts a purchase, which is pending until ``pay(at:)``.
    package init(
        buying product: Product, quantity: Int = 1, at instant: Instant, customer: PlayCustomer,
        identifiers: PlayIdentifiers, isTest: Bool = false, isAcknowledgedByApp: Bool = true,
        acknowledged: [String: Instant] = [:], lagSeed: UInt64 = 1
    ) {
        self.customer = customer
        self.product = product
        sku = product.onGooglePlay.id
        self.quantity = quantity
        self.isTest = isTest
        self.isAcknowledgedByApp = isAcknowledgedByApp
        var identifiers = identifiers
        token = identifiers.token()
        orderId = identifiers.order
        self.identifiers = identifiers
        acknowledgedByServer = acknowledged[token]
        random = SplitMix64(seed: lagSeed)
        key.set(.pending, at: instant, shownBefore: .never)
        record(Book(state: .pending, refundableQuantity: quantity), at: instant)
    }

    /// The books at an instant; nil before the purchase.
    package func book(at instant: Instant) -> Book? { history.last { $0.at <= instant }?.book }

    package func isAcknowledged(at instant: Instant) -> Bool { acknowledgedAt.map { $0 <= instant } ?? false }

    package mutating func pay(at instant: Instant) {
        update(at: instant) {
            $0.state = .purchased
            $0.completionTime = instant
        }
        let price = customer.storefront.price(product) * Int64(quantity)
        orders = [
            PlayOrder(
                orderId: orderId, purchaseToken: token, createTime: instant,
                currency: customer.storefront.currency,
                items: [.init(productId: sku, basePlanId: nil, offerId: nil, phase: nil, price: price)],
                servicePeriod: nil, changes: [.init(at: instant, state: .processed)])
        ]
        if product.kind == .nonConsumable { key.access.pay(orderId, for: product.onGooglePlay, from: instant, to: nil) }
        key.set(.owned, at: instant)
        key.buy(customer.owner(customer.account.obfuscatedAccountId), at: instant)
        deadline = instant.advanced(by: isTest ? .seconds(301) : Self.deadlineLength)
        let byApp = isAcknowledgedByApp ? instant.advanced(byMilliseconds: 20_000) : nil
        acknowledgedAt = [byApp, acknowledgedByServer].compactMap(\.self).min()
        send(.oneTime(.purchased, sku: sku), after: instant)
    }

    /// Drops the pending purchase.
    package mutating func cancelPending(at instant: Instant) {
        update(at: instant) { $0.state = .cancelled }
        key.set(.never, at: instant, shownBefore: .pending)
        send(.oneTime(.canceled, sku: sku), after: instant)
    }

    /// The app uses a consumable up, which acknowledges it.
    package mutating func consume(at instant: Instant) {
        guard proceed(to: instant) else { return }
        update(at: instant) { $0.isConsumed = true }
        acknowledgedAt = min(acknowledgedAt ?? instant, instant)
    }

    /// Refunds the purchase and takes it back.
    package mutating func refund(
        source: PlayVoid.Source = .developer, reason: PlayVoid.Reason = .remorse, at instant: Instant
    ) {
        guard proceed(to: instant) else { return }
        takeBack(source, reason, at: instant)
    }

    /// Refunds some units of a consumable.
    package mutating func refund(units: Int, at instant: Instant) {
        guard proceed(to: instant) else { return }
        let left = (history.last?.book.refundableQuantity ?? 0) - units
        precondition(left >= 0, "more units are refunded than were bought")
        guard left > 0 else { return takeBack(.developer, .remorse, at: instant) }
        update(at: instant) { $0.refundableQuantity = left }
        orders[0].refund(orders[0].total * Int64(units) / Int64(quantity), at: instant)
        enterVoid(.developer, .remorse, quantity: units, isPartial: true, at: instant)
    }

    /// Lets time pass to the end of the story.
    package mutating func finish(at instant: Instant) { _ = proceed(to: instant) }

    /// The number of units that are paid for at an instant and not refunded.
    package func units(at instant: Instant) -> Int {
        guard let book = book(at: instant), book.state == .purchased else { return 0 }
        return book.refundableQuantity
    }

    private mutating func proceed(to instant: Instant) -> Bool {
        guard !isClosed, let deadline, deadline < instant, !isAcknowledged(at: deadline),
            history.last?.book.state == .purchased
        else { return !isClosed }
        isClosed = true
        takeBack(.google, .unacknowledged, at: deadline)
        return false
    }

    private mutating func takeBack(_ source: PlayVoid.Source, _ reason: PlayVoid.Reason, at instant: Instant) {
        let isLastOfSeveral = voids.contains(where: \.isPartial)
        update(at: instant) {
            $0.state = .cancelled
            $0.refundableQuantity = 0
        }
        orders[0].refund(nil, reason == .chargeBack ? .chargeBack : .other, at: instant)
        if product.kind == .nonConsumable { key.access.takeBack(orderId, at: instant) }
        // As if it had never been paid for.
        key.set(.refunded, at: orders[0].createTime)
        enterVoid(source, reason, quantity: nil, isPartial: isLastOfSeveral, at: instant)
    }

    private mutating func enterVoid(
        _ source: PlayVoid.Source, _ reason: PlayVoid.Reason, quantity: Int?, isPartial: Bool, at instant: Instant
    ) {
        voids.append(
            PlayVoid(
                purchaseToken: token, orderId: orderId, purchaseTime: orders[0].createTime, voidedTime: instant,
                seenAt: instant.advanced(byMilliseconds: Int64.random(in: 1000...3_600_000, using: &random)),
                source: source, reason: reason, isSubscription: false, quantity: quantity, isPartial: isPartial))
        send(.voided(orderId: orderId, isSubscription: false, isPartial: isPartial), after: instant)
    }

    private mutating func send(_ content: PlayMessage.Content, after instant: Instant) {
        let eventTime = instant.advanced(byMilliseconds: Int64.random(in: 200...2000, using: &random))
        messages.append(
            PlayMessage(
                messageId: identifiers.messageId(), purchaseToken: token, eventTime: eventTime, content: content))
        accessHistory.append(PlayAccessEntry(at: eventTime, access: key.access))
    }

    private mutating func update(at instant: Instant, _ change: (inout Book) -> Void) {
        guard var book = history.last?.book else { return }
        change(&book)
        record(book, at: instant)
    }

    private mutating func record(_ book: Book, at instant: Instant) {
        history.append((max(instant, history.last?.at ?? instant), book))
    }
}
