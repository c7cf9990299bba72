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
    ///   - customer: To link the purchases to; nil if there is none.
    ///   - basis: See ``PurchaseLinks``.
    ///   - note: Called for each statement with whether it was appended.
    /// - Throws: ``ReadError``, ``AppendError``. Some of the statements may be stored.
    func keep(
        _ proven: [some ProvenEvent], receivedAt: Instant, containsReceipt: Bool = false, to customer: HandInCustomer?,
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
        if let customer {
            answer.note(try await links.link(proven.map(\.event), to: customer, in: answer.stream, basis: basis))
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

    /// The customer, with the account id that the backend gave the app; nil if there is none.
    ///
    /// - Parameter key: The member with the account id.
    func customer(_ key: StaticString) throws(HandInRefusal) -> HandInCustomer? {
        guard let accountId = try text(key) else { return HandInCustomer(customerId, accountId: nil) }
        // An app could name the account of another user, whose purchase it has seen.
        guard !isOfApp else {
            throw HandInRefusal(.forbidden, "only a backend can say which account id it gave the app", field: "\(key)")
        }
        guard let customerId else {
            throw HandInRefusal(.malformed, "\(key) requires customerId", field: "\(key)")
        }
        guard CustomerKey(stated: .account, accountId) != nil else {
            throw HandInRefusal(
                .malformed, "\(key) must have 1 to \(LinkStatement.idBytesMax) bytes and must not be the nil UUID",
                field: "\(key)")
        }
        return HandInCustomer(customerId, accountId: accountId)
    }
}
