import Encoding
import EventLog
import PlayStore
import Subscriptions

extension PurchaseAsker {
    /// Asks about the orders whose periods or prices the answers about a purchase do not show, and stores the answers.
    ///
    /// One that only confirms a price, as of most renewals, uses the half of the day's quota that scheduled questions
    /// may use, and if Google does not answer, it is asked about with the next question about the purchase. See
    /// ``AnsweredPurchase/after(_:last:isRecovered:isVoided:)``. Of a purchase that is handed in, each answer is waited for at
    /// most ``Limits/handInOrderWaitMax``, and the purchase is asked about again soon if one is missing.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    func askAboutOrders(
        _ snapshot: PurchaseSnapshot, _ question: Question, in stream: StreamKey
    ) async throws -> AskedOrders {
        var asked = AskedOrders()
        // Only its order says what was paid for a one-time purchase.
        guard snapshot.kind == .subscription ? !snapshot.isPending : snapshot.wasPaid else { return asked }
        let claim = question.claim
        let last = try await queue.answered(claim)
        let (answered, unknown, isOptional) = AnsweredPurchase.after(
            snapshot, last: last, isRecovered: question.subject.notices.contains(where: \.isRecovery),
            isVoided: question.subject.notices.contains(where: \.isVoid))
        var orders = unknown
        if question.withOrders {
            for order in snapshot.items.compactMap(\.orderId) where !orders.contains(order) { orders.append(order) }
        }
        guard answered != last || !orders.isEmpty else { return asked }
        let canWait = isOptional && !question.withOrders
        asked = try await ask(about: orders, question, in: stream, isOptional: canWait)
        if asked.areKnown, !asked.areForbidden {
            try await queue.record(answered, of: claim)
        } else if canWait {
            // The next question about a purchase that no push announces may be that at its renewal.
            asked.areKnown = asked.areKnown || !question.isHandIn
            asked.areForbidden = false
        }
        return asked
    }

    private func ask(
        about orders: [String], _ question: Question, in stream: StreamKey, isOptional: Bool
    ) async throws -> AskedOrders {
        var asked = AskedOrders()
        var subject = question.subject
        subject.environment = stream.environment
        subject.notices = []
        // A purchase that was unknown may have many. All at once are one call.
        var open = orders
        if orders.count > 1 {
            switch await ask(.orders(orders, of: question.app.packageName), question, isOptional) {
            case .answered(let answer):
                guard let list = try? OrderList(decoding: answer.body) else {
                    asked.areKnown = false
                    return asked
                }
                for order in list.orders {
                    guard try await keep(order.body, about: subject, answer.answeredAt, &asked) else { return asked }
                }
                let answeredIds = Set(list.orders.map(\.orderId))
                open.removeAll { answeredIds.contains($0) }
            // An order that Google does not know fails those with it.
            case .refused: break
            case .rejected(.permission):
                asked.areForbidden = true
                return asked
            case .rejected(.credentials), .unreadable, .unavailable:
                asked.areKnown = false
                return asked
            }
        }
        for orderId in open {
            switch await ask(.order(orderId, of: question.app.packageName), question, isOptional) {
            case .answered(let answer):
                guard try await keep(answer.body, about: subject, answer.answeredAt, &asked) else { return asked }
            case .refused: break
            case .rejected(.permission):
                asked.areForbidden = true
                return asked
            case .rejected(.credentials), .unreadable, .unavailable:
                asked.areKnown = false
                return asked
            }
        }
        return asked
    }

    private func ask(_ request: PlayRequest, _ question: Question, _ isOptional: Bool) async -> GoogleOutcome {
        let isScheduled = isOptional || question.claim.rank == .scheduled
        guard question.isHandIn else { return await client.ask(request, app: question.app, isScheduled: isScheduled) }
        let answer = try? await clock.within(Limits.handInOrderWaitMax) {
            await client.ask(request, app: question.app, isScheduled: isScheduled)
        }
        return answer ?? .unavailable(.timeout, retryAfter: .zero)
    }

    /// Stores what Google answers about one order, if it is news.
    ///
    /// - Returns: False if the answer cannot be read: perhaps it was cut off.
    private func keep(
        _ body: [UInt8], about subject: PlayStatement.Subject, _ answeredAt: Instant, _ asked: inout AskedOrders
    ) async throws -> Bool {
        guard let statement = try? PlayStatement.answer(body, of: .order, about: subject, answeredAt: answeredAt) else {
            asked.areKnown = false
            return false
        }
        let kept = try await news.append(statement, receivedAt: statement.answeredAt)
        asked.position = kept.position ?? asked.position
        return true
    }

    /// What came of questions about orders.
    struct AskedOrders {
        /// False if Google did not answer about one, so that the question must be asked again.
        var areKnown = true
        /// True if the account may see purchases and not one of the orders.
        var areForbidden = false
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
