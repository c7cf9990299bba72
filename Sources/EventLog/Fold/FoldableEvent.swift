import Encoding
import Postgres
import Subscriptions

/// An event with what the fold needs of it.
package struct FoldableEvent: Sendable {
    package let position: Int64
    let receivedAt: Instant
    let occurredAt: Instant?
    /// Empty for an event that an operator has the projector pass over.
    package let factsBySubscription: [String: StatedFacts]
    /// See ``Facts/companion``.
    var companion: String?
    /// What a backend stated.
    package private(set) var link: LinkStatement?

    /// Reads a row with the columns `position`, `received_at`, `occurred_at` and `facts` of an event, and whether it is
    /// skipped.
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
        let text = try row.value(JSONB.self, at: 3).utf8
        return readJSON(text, position: position) { try EventFacts(json: $0) }.map { facts in
            var event = event(facts.bySubscription)
            event.companion = facts.companion
            event.link = facts.link
            return event
        }
    }

    /// As ``read(_:)``, with no facts for an event that cannot be folded.
    package static func readOrEmpty(_ row: Row) throws(PostgresError) -> FoldableEvent {
        if case .success(let event) = try read(row) { return event }
        return FoldableEvent(
            position: try row.value(at: 0), receivedAt: try row.value(at: 1), occurredAt: nil, factsBySubscription: [:])
    }

    /// The same event, as far as it is about some subscriptions.
    package func about(_ ids: Set<String>) -> FoldableEvent {
        FoldableEvent(
            position: position, receivedAt: receivedAt, occurredAt: occurredAt,
            factsBySubscription: factsBySubscription.filter { ids.contains($0.key) }, companion: companion)
    }

    /// Folds what the event says about a subscription.
    package func fold(_ facts: StatedFacts, into subscription: inout SubscriptionFacts) {
        subscription.fold(
            facts, occurredAt: occurredAt, receivedAt: receivedAt, position: position, companion: companion)
    }
}

/// What a JSON text of the row with some position stands for.
package func readJSON<Value>(
    _ text: [UInt8], position: Int64, _ read: (JSONValue) throws -> Value
) -> Result<Value, UnfoldableEvent> {
    do {
        return .success(try read(try JSONDocument(text).root))
    } catch {
        return .failure(UnfoldableEvent(position: position, problem: String(describing: error)))
    }
}
