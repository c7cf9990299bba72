import Encoding
import EventLog
import Subscriptions

/// Stores proven purchases that were handed in, and links them to the customer who handed them in.
struct HandInLedger: Sendable {
    let news: NewsAppender
    let links: PurchaseLinks

    /// Appends the statements that state something new, and links their purchases.
    ///
    /// Durable when this returns. Safe to repeat: what was appended before states nothing new.
    ///
    /// - Parameters:
    ///   - proven: Of one stream; not empty.
    ///   - containsReceipt: See ``NewsAppender``.
    ///   - customerId: The backend's customer to link the purchases to; nil if there is none.
    ///   - basis: See ``PurchaseLinks``.
    ///   - note: Called for each statement with whether it was appended.
    /// - Throws: ``ReadError``, ``AppendError``. Some of the statements may be stored.
    func keep(
        _ proven: [some ProvenEvent], receivedAt: Instant, containsReceipt: Bool = false, to customerId: String?,
        basis: LinkStatement.Basis = .purchase, noting note: (Bool) -> Void = { _ in }
    ) async throws -> HandInAnswer {
        var ids: Set<ByteString> = []
        var position: Int64?
        var isKnown = false
        for statement in proven {
            let kept = try await news.append(statement, receivedAt: receivedAt, containsReceipt: containsReceipt)
            // What an earlier statement of the request stated may be projected by now.
            isKnown =
                isKnown || kept.before.contains { !ids.contains(ByteString($0.subscription.originalTransactionId)) }
            ids.formUnion(statement.event.subscriptions)
            position = [position, kept.position].compactMap(\.self).max()
            note(kept.position != nil)
        }
        var answer = HandInAnswer(
            stream: proven[0].stream, registration: isKnown ? .known : .new, subscriptions: ids.sorted().map(\.text),
            position: position)
        if let customerId {
            answer.note(try await links.link(proven.map(\.event), to: customerId, in: answer.stream, basis: basis))
        }
        return answer
    }
}

extension HandInAnswer {
    mutating func note(_ links: PurchaseLinks.Outcome) {
        if links.isOfOtherCustomer { registration = .otherCustomer }
        isLinked = links.isLinked
        lastPosition = [position, links.position].compactMap(\.self).max()
    }
}

extension HandInRequest {
    /// A member that must be a text; nil if it is absent or null.
    func text(_ key: StaticString) throws(HandInRefusal) -> String? {
        guard let value = body[key], !value.isNull else { return nil }
        guard let text = value.string else {
            throw HandInRefusal(.malformed, "\(key) must be a string", field: "\(key)")
        }
        return text
    }
}
