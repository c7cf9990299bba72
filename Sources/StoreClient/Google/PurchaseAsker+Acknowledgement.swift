import Encoding
import EventLog
import PlayStore
import Subscriptions

extension PurchaseAsker {
    /// Acknowledges a new purchase whose answer is in the log. Never one that is pending, ended or acknowledged.
    func acknowledge(
        _ snapshot: PurchaseSnapshot, _ question: Question, in stream: StreamKey, at now: Instant
    ) async throws(ReadError) -> PurchaseRecord.Acknowledgement {
        guard question.app.acknowledges else { return .notNeeded }
        guard snapshot.needsAcknowledgement else { return .notNeeded }
        let since = min(snapshot.startTime ?? now, question.claim.unacknowledgedSince ?? now, now)
        let accountId = try await accountId(of: snapshot, in: stream)
        guard let request = Self.request(snapshot, question, accountId) else { return .pending(since: since) }
        let outcome = await client.ask(request, app: question.app, priority: .handIn)
        switch outcome {
        case .answered:
            metrics.noteAcknowledgement(.made, of: question.app.packageName)
            return .made(at: clock.date())
        case .refused(let refusal):
            metrics.noteAcknowledgement(.refused, of: question.app.packageName)
            // Acknowledged before, refunded, or not what it was: the next answer says which.
            return refusal.kind == .gone ? .notNeeded : .pending(since: since)
        case .rejected, .unreadable, .unavailable:
            metrics.noteAcknowledgement(.failed, of: question.app.packageName)
            return .pending(since: since)
        }
    }

    /// The app user of a purchase outside the app, which continues an expired one: the account token that the backend has
    /// linked to the owner, or else the one that the expired purchase stated. Nil for all other purchases.
    private func accountId(
        of snapshot: PurchaseSnapshot, in stream: StreamKey
    ) async throws(ReadError) -> String? {
        guard snapshot.kind == .subscription, snapshot.accountId == nil else { return nil }
        if let expired = snapshot.expiredPurchaseToken,
            let linked = try await queue.linkedAccount(ofOwnerOf: expired, in: stream)
        {
            return linked
        }
        return snapshot.expiredAccountId
    }

    private static func request(
        _ snapshot: PurchaseSnapshot, _ question: Question, _ accountId: String?
    ) -> PlayRequest? {
        switch snapshot.kind {
        case .subscription:
            // With several items, the purchase has no product of its own.
            let productId = snapshot.items.count == 1 ? snapshot.items[0].productId : nil
            return .acknowledgeSubscription(
                question.token, productId: productId, accountId: accountId, of: question.app.packageName)
        case .product:
            guard let productId = snapshot.items.first?.productId ?? question.claim.productId else { return nil }
            return .acknowledgeProduct(question.token, productId: productId, of: question.app.packageName)
        }
    }
}

extension PurchaseSnapshot {
    /// Whether Google refunds the purchase if it is not acknowledged.
    fileprivate var needsAcknowledgement: Bool {
        guard isAcknowledged == false else { return false }
        switch state {
        case .active, .canceled, .inGracePeriod, .purchased: return true
        case .pending, .paused, .onHold, .expired, .pendingPurchaseCanceled, .cancelled, nil: return false
        }
    }
}
