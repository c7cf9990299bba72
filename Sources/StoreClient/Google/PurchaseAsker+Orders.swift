import EventLog
import PlayStore
import Subscriptions

extension PurchaseAsker {
    /// Asks about the orders whose periods or prices the answers about a purchase do not show, and stores the answers. Of a
    /// subscription, usually there are none: see ``AnsweredPurchase/after(_:last:isRecovered:)``.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    func askAboutOrders(
        _ snapshot: PurchaseSnapshot, _ question: Question, in stream: StreamKey
    ) async throws -> AskedOrders {
        var asked = AskedOrders()
        // Only its order says what was paid for a one-time purchase.
        guard snapshot.kind == .subscription ? !snapshot.isPending : snapshot.wasPaid else { return asked }
        let (claim, app) = (question.claim, question.app)
        let last = try await queue.answered(claim)
        let (answered, unknown) = AnsweredPurchase.after(
            snapshot, last: last, isRecovered: question.subject.notices.contains(where: \.isRecovery),
            isVoided: question.subject.notices.contains(where: \.isVoid))
        var orders = unknown
        if question.withOrders {
            for order in snapshot.items.compactMap(\.orderId) where !orders.contains(order) { orders.append(order) }
        }
        guard answered != last || !orders.isEmpty else { return asked }
        var subject = question.subject
        subject.environment = stream.environment
        subject.notices = []
        for orderId in orders {
            let outcome = await client.ask(
                .order(orderId, of: app.packageName), app: app, isScheduled: claim.rank == .scheduled)
            switch outcome {
            case .answered(let answer):
                // Perhaps it was cut off.
                guard
                    let statement = try? PlayStatement.answer(
                        answer.body, of: .order, about: subject, answeredAt: answer.answeredAt)
                else {
                    asked.areKnown = false
                    return asked
                }
                let kept = try await news.append(statement, receivedAt: statement.answeredAt)
                asked.position = kept.position ?? asked.position
            case .refused: break
            case .rejected, .unreadable, .unavailable:
                asked.areKnown = false
                return asked
            }
        }
        try await queue.record(answered, of: claim)
        return asked
    }

    /// What came of questions about orders.
    struct AskedOrders {
        /// False if Google did not answer about one, so that the question must be asked again.
        var areKnown = true
        /// The position of the last event that an answer became.
        var position: Int64?
    }
}

extension PurchaseFact {
    fileprivate var isVoid: Bool {
        if case .void = self { true } else { false }
    }

    fileprivate var isRecovery: Bool {
        if case .notice(let notice) = self { notice.kind == .recovered } else { false }
    }
}
