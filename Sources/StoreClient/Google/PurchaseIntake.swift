import Encoding
import EventLog
import PlayStore
import Subscriptions

/// Makes the purchases due about which notifications have come: follows the log, in its order.
struct PurchaseIntake: Sendable {
    let queue: PurchaseQueue
    /// Package names.
    let apps: [String]
    let parts: RoundParts

    /// Takes in all notifications that the log has. What fails for one stream holds up no other.
    ///
    /// Safe to repeat, and to run in several processes at once: each notification is taken in once.
    ///
    /// - Returns: The apps with notifications.
    /// - Throws: ``ReadError`` if the database is unavailable.
    func takeIn() async throws -> Set<String> {
        var notified: Set<String> = []
        var failed: Set<Int32> = []
        while !Task.isCancelled {
            let intakes = try await queue.intakes(of: apps).filter { !failed.contains($0.streamId) }
            guard !intakes.isEmpty else { break }
            for intake in intakes {
                if let taken = try await parts.make(.init(intake.stream), { try await takeIn(after: intake) }) {
                    if taken > 0 { notified.insert(intake.stream.app) }
                } else {
                    failed.insert(intake.streamId)
                }
            }
        }
        return notified
    }

    /// - Returns: The number of notifications.
    private func takeIn(after intake: PurchaseQueue.Intake) async throws(ReadError) -> Int {
        let (stored, through) = try await queue.notifications(after: intake)
        let batch = Batch(stored)
        try await queue.takeIn(batch.purchases, pending: batch.pending, after: intake, through: through)
        return stored.count
    }

    /// What some notifications make due.
    struct Batch {
        private(set) var purchases: [PurchaseToAsk] = []
        private(set) var pending: [(purchaseToken: String, position: Int64)] = []

        init(_ notifications: [PurchaseQueue.StoredNotification]) {
            var places: [String: Int] = [:]
            for stored in notifications {
                guard let notification = PurchaseAsker.notification(stored), let token = notification.purchaseToken
                else { continue }
                if !notification.facts.isEmpty { pending.append((token.text, stored.position)) }
                let purchase = PurchaseToAsk(notification, token, noticedAt: stored.receivedAt)
                guard let place = places[token.text] else {
                    places[token.text] = purchases.count
                    purchases.append(purchase)
                    continue
                }
                purchases[place].merge(purchase)
            }
        }
    }
}

extension PurchaseToAsk {
    fileprivate init(_ notification: DeveloperNotification, _ token: PurchaseToken, noticedAt: Instant) {
        var productId: String?
        if case .oneTimeProduct(_, _, let named) = notification.content { productId = named }
        self.init(
            purchaseToken: token.text, resource: notification.isAboutProduct ? .oneTime : .subscription,
            productId: productId, notification: PurchaseNotification(notification), noticedAt: noticedAt)
    }

    /// Adds a later notice about the same purchase. Of two notifications, the one that happened later counts.
    fileprivate mutating func merge(_ later: PurchaseToAsk) {
        productId = later.productId ?? productId
        guard let other = later.notification else { return }
        if let known = notification, known.eventTime > other.eventTime { return }
        notification = other
    }
}

extension PurchaseNotification {
    /// Nil if no answer is expected to show it.
    fileprivate init?(_ notification: DeveloperNotification) {
        guard let eventTime = notification.eventTime else { return nil }
        let name: String
        let states: Set<PurchaseSnapshot.State>?
        switch notification.content {
        case .subscription(let type, _): (name, states) = (type.name, type.expectedStates)
        case .oneTimeProduct(let type, _, _): (name, states) = (type.name, type.expectedStates)
        case .voidedPurchase, .pendingRefundReview, .test, .unknown: return nil
        }
        self.init(type: name, eventTime: eventTime, expectedStates: Set((states ?? []).map(\.rawValue)))
    }
}
