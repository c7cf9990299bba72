import Encoding
import Postgres
import Subscriptions

/// The parts of an event that a projection needs.
package struct FoldableEvent: Sendable {
    package let position: Int64
    let receivedAt: Instant
    let occurredAt: Instant?
    /// The time of the event, as its body contains it; when it was received if it contains none.
    package var statedAt: Instant { occurredAt ?? receivedAt }
    /// By `originalTransactionId`. Empty for an event that an operator skipped.
    package let factsBySubscription: [String: StatedFacts]
    /// See ``Facts/companion``.
    var companion: String?
    /// The link statement of a backend; nil for other events.
    package private(set) var link: LinkStatement?
    /// What the event says about a customer besides its facts; nil if it says nothing.
    package private(set) var notice: CustomerNotice?

    /// Selects the columns of ``read(_:)`` from the events of the stream `$1`; further conditions follow it.
    ///
    /// A V1 body that repeats the bytes of a stored one states nothing new, so its times are those of the first.
    package static let query: SQL = """
        select event.position, coalesce(first.received_at, event.received_at) as received_at,
          case when first.received_at is null then event.occurred_at else first.occurred_at end as occurred_at,
          event.facts, projector_skip.position is not null as is_skipped,
          \(NoticeStatements.kind) as notice, \(NoticeStatements.id) as noticed_id
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        left join lateral (
          select body.received_at, body.occurred_at
          from subledger.event as body
          where event.source = 'apple-v1'
            and body.stream_id = $1
            and body.dedupe_key = event.dedupe_key
          order by case when body.source = 'apple-v1' then body.position else 0 end
          limit 1
        ) as first on true
        where event.stream_id = $1
        """

    /// Reads a row of ``query``.
    package static func read(_ row: Row) throws(PostgresError) -> Result<FoldableEvent, UnfoldableEvent> {
        let position: Int64 = try row.value(at: 0)
        let receivedAt: Instant = try row.value(at: 1)
        let occurredAt: Instant? = try row.optional(at: 2)
        func event(_ factsBySubscription: [String: StatedFacts]) -> FoldableEvent {
            FoldableEvent(
                position: position, receivedAt: receivedAt, occurredAt: occurredAt,
                factsBySubscription: factsBySubscription)
        }
        if try row.value(Bool.self, at: 4) { return .success(event([:])) }
        let notice = try NoticeStatements.notice(
            try row.optional(at: 5), try row.optional(at: 6), position, occurredAt ?? receivedAt)
        let text = try row.value(JSONB.self, at: 3).utf8
        return readJSON(text, position: position) { try EventFacts(json: $0) }.map { facts in
            var event = event(facts.bySubscription)
            event.companion = facts.companion
            event.link = facts.link
            event.notice = notice
            return event
        }
    }

    /// Like ``read(_:)``, but returns an event that cannot be folded without facts.
    package static func readOrEmpty(_ row: Row) throws(PostgresError) -> FoldableEvent {
        if case .success(let event) = try read(row) { return event }
        return FoldableEvent(
            position: try row.value(at: 0), receivedAt: try row.value(at: 1), occurredAt: nil, factsBySubscription: [:])
    }

    /// The same event with only the facts of some subscriptions, and without its link statement.
    ///
    /// - Parameter isWanted: Decides by an `originalTransactionId`.
    package func about(_ isWanted: (String) -> Bool) -> FoldableEvent {
        FoldableEvent(
            position: position, receivedAt: receivedAt, occurredAt: occurredAt,
            factsBySubscription: factsBySubscription.filter { isWanted($0.key) }, companion: companion)
    }

    /// Folds the event's facts about a subscription into it.
    package func fold(_ facts: StatedFacts, into subscription: inout SubscriptionFacts) {
        subscription.fold(
            facts, occurredAt: occurredAt, receivedAt: receivedAt, position: position, companion: companion)
    }
}

extension FoldableEvent {
    /// Folds the facts of the event into the subscriptions that they are about. Purchases of Google that continue each
    /// other become one, with the id of the first. Transactions that were reported under several subscriptions are known to
    /// each of them.
    ///
    /// - Parameter holders: Of all transactions that were folded before.
    package func fold(
        into states: inout [String: some SubscriptionState], among holders: inout TransactionHolders
    ) {
        // In an order of their own: which of several purchases is joined first decides at which position.
        let ordered =
            factsBySubscription.count < 2
            ? Array(factsBySubscription) : factsBySubscription.sorted { ByteString($0.key) < ByteString($1.key) }
        for (id, facts) in ordered {
            let line = facts.isOfPurchase ? states.join(id, with: facts, position: position) : id
            states.change(line, position: position) { fold(facts, into: &$0) }
            states.shareTransactions(of: facts, in: id, among: &holders, position: position)
        }
    }
}

/// Parses and decodes a JSON text.
///
/// - Parameter position: The position in the error, if the text cannot be decoded.
package func readJSON<Value>(
    _ text: [UInt8], position: Int64, _ read: (JSONValue) throws -> Value
) -> Result<Value, UnfoldableEvent> {
    do {
        return .success(try read(try JSONDocument(text).root))
    } catch {
        return .failure(UnfoldableEvent(position: position, problem: String(describing: error)))
    }
}
