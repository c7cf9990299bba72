import Encoding
import PlayStore
import Simulation
import Subscriptions

/// A ledger in memory that asks the simulated Google Play about the purchases of one life, as a server does.
package struct AskedPurchases {
    package let life: AskedLife
    /// The answers so far, in the order of their positions.
    package private(set) var statements: [PlayStatement] = []
    private let rendering: PlayRendering
    private var ledger = MemoryLedger()
    private var known: [Known] = []
    private var answered: [String: AnsweredPurchase] = [:]

    /// An answer about a purchase, and what the store's books said then.
    private struct Known {
        let position: Int64
        let answeredAt: Instant
        let token: String
        let book: Book
        let message: PlayMessage?

        enum Book {
            case subscription(PlayBook)
            case oneTime(PlayOneTimeLife.Book)
        }

        var subscription: PlayBook? {
            if case .subscription(let book) = book { book } else { nil }
        }
        var oneTime: PlayOneTimeLife.Book? {
            if case .oneTime(let book) = book { book } else { nil }
        }

        /// A promotion has no order: its token stands for it.
        func shows(_ order: String) -> Bool {
            guard let subscription, subscription.startTime != nil else { return false }
            return subscription.items.contains { ($0.successfulOrderId ?? token) == order }
        }
    }

    package init(_ life: AskedLife, packageName: String = "com.example.play") {
        self.life = life
        rendering = PlayRendering(packageName: packageName)
    }

    package var facts: [SubscriptionFacts] { ledger.allStreams.flatMap { ledger.facts(of: $0).values } }

    // MARK: Asking

    /// Asks about the purchase, and about the orders whose periods the answer does not show.
    ///
    /// - Returns: When it was answered.
    package mutating func ask(after occasion: AskedLife.Occasion) throws -> Instant {
        let answeredAt = occasion.at.advanced(byMilliseconds: 300)
        var subject = PlayStatement.Subject(
            packageName: rendering.packageName, purchaseToken: try Self.token(occasion.token))
        if let message = occasion.message {
            let push = try PushMessage(decoding: message.notification(rendering))
            subject.notices = push.notification?.facts ?? []
        }
        switch life {
        case .subscription(let life):
            guard let purchase = life.tokens.first(where: { $0.token == occasion.token }),
                let book = purchase.book(at: answeredAt),
                let body = life.subscriptionV2(purchase, at: answeredAt, rendering)
            else { break }
            let (event, position) = try append(body, of: .subscriptionV2, about: subject, answeredAt)
            known.append(
                Known(
                    position: position, answeredAt: answeredAt, token: occasion.token, book: .subscription(book),
                    message: occasion.message))
            try askAboutOrders(of: life, event, subject, occasion, answeredAt)
        case .oneTime(let life):
            guard let body = life.productV2(at: answeredAt, rendering), let book = life.book(at: answeredAt) else {
                break
            }
            let (_, position) = try append(body, of: .productV2, about: subject, answeredAt)
            known.append(
                Known(
                    position: position, answeredAt: answeredAt, token: life.token, book: .oneTime(book),
                    message: occasion.message))
        }
        return answeredAt
    }

    private mutating func askAboutOrders(
        of life: PlayLife, _ event: Event, _ asked: PlayStatement.Subject, _ occasion: AskedLife.Occasion,
        _ answeredAt: Instant
    ) throws {
        guard case .snapshot(let snapshot)? = event.purchases.first else { return }
        let (after, orders, _) = AnsweredPurchase.after(
            snapshot, last: answered[occasion.token], isRecovered: occasion.message?.subscriptionType == .recovered)
        answered[occasion.token] = after
        let subject = PlayStatement.Subject(
            packageName: asked.packageName, purchaseToken: asked.purchaseToken, environment: event.environment)
        for orderId in orders {
            guard let order = life.orders.first(where: { $0.orderId == orderId }),
                let body = order.answer(at: answeredAt, rendering)
            else { continue }
            _ = try append(body, of: .order, about: subject, answeredAt)
        }
    }

    /// Asks about every order that exists at the instant, as a server does in the end.
    package mutating func askAboutOrders(at instant: Instant) throws {
        for order in life.orders {
            guard let body = order.answer(at: instant, rendering) else { continue }
            let subject = PlayStatement.Subject(
                packageName: rendering.packageName, purchaseToken: try Self.token(order.purchaseToken),
                environment: life.isTest ? .sandbox : .production)
            _ = try append(body, of: .order, about: subject, instant)
        }
    }

    /// The first answer by which alone an end can be dated, with its token; nil if there is none.
    package var undatedEnd: (token: String, at: Instant)? {
        known.first { known in
            known.subscription.map { book in
                book.state == .expired
                    && book.items.contains { $0.expiryTime.map { $0 > known.answeredAt } ?? true }
            } ?? false
        }.map { ($0.token, $0.answeredAt) }
    }

    private mutating func append(
        _ body: [UInt8], of resource: PlayResource, about subject: PlayStatement.Subject, _ answeredAt: Instant
    ) throws -> (Event, Int64) {
        let statement = try PlayStatement.answer(body, of: resource, about: subject, answeredAt: answeredAt)
        statements.append(statement)
        return (statement.event, ledger.append(statement.event, receivedAt: answeredAt))
    }

    private static func token(_ text: String) throws -> PurchaseToken {
        guard let token = PurchaseToken(text) else { throw UnreadableToken(text: text) }
        return token
    }

    private struct UnreadableToken: Error {
        let text: String
    }

    // MARK: Evidence

    /// The position of the answer that first shows what the rule rests on; nil if there is none, or if two purchases show
    /// one order, as after a change of plan at the next renewal.
    package func evidence(_ reason: AccessReason) -> Int? {
        let order = reason.transactionId.split(separator: "/").first.map(String.init) ?? ""
        let showing = known.filter { $0.shows(order) }
        guard Set(showing.map(\.token)).count <= 1 else { return nil }
        let evidence: Known? =
            switch reason.kind {
            case .paid: showing.first
            case .owned: known.first { $0.oneTime?.state == .purchased }
            case .extended: showing.first { $0.message?.subscriptionType == .deferred }
            case .grace: showing.first { $0.subscription?.state == .inGracePeriod }
            case .switchedOffInGrace, .endedByStatus, .revoked: showing.first { $0.subscription?.state == .expired }
            case .upgraded:
                known.first {
                    $0.subscription?.startTime != nil && $0.subscription?.linkedToken == showing.first?.token
                }
            case .refunded, .graceTakenBack:
                known.first {
                    if case .voided(let voided, _, _)? = $0.message?.content { voided == order } else { false }
                }
            case .refundedPart, .familyRevoked, .assignmentRevoked, .over: nil
            }
        return evidence.map { Int($0.position) }
    }
}
