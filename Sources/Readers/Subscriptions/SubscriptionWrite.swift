import Encoding
import EventLog
import Postgres
import Subscriptions

/// A change of a subscription at the store that an operator asked for, with its last answer.
package struct SubscriptionWrite: Sendable, Hashable {
    /// When the operator last asked for it.
    package let askedAt: Instant
    package let write: StoreWrite
    /// The events of the request and its answers, in order.
    package let positions: [Int64]

    /// The latest events about the subscription as a JSON array, oldest first; null if there are none. An expression over
    /// a row of `subledger.subscription`.
    static let query: SQL = """
        (
          select json_agg(
            json_build_object(
              'position', event.position, 'receivedAt', (extract(epoch from event.received_at) * 1000)::bigint,
              'write', event.facts -> 'write'
            ) order by event.position
          )::text
          from (
            select event.position, event.received_at, event.facts
            from subledger.event
            where event.stream_id = subscription.stream_id
              and coalesce(event.facts #>> '{write,originalTransactionId}', event.facts #>> '{write,productId}')
                = subscription.original_transaction_id
              and event.source = 'operator'
              and event.facts #>> '{write,originalTransactionId}' is not null
            order by event.position desc
            limit 20
          ) as event
        )
        """

    /// Reads ``query``: one element for each request, its repeats included.
    static func read(_ row: Row, at column: Int) throws -> [SubscriptionWrite] {
        guard let text = try row.optional(JSONText.self, at: column) else { return [] }
        var writes: [SubscriptionWrite] = []
        for element in try JSONDocument(text.utf8).root.elements {
            guard let position = element["position"]?.int64,
                let receivedAt = element["receivedAt"]?.int64.flatMap({ Instant(milliseconds: $0) }),
                let json = element["write"]
            else { throw FactsError(member: "write") }
            let write = try StoreWrite(json: json)
            let earlier = writes.firstIndex {
                $0.write.requestIdentifier == write.requestIdentifier && $0.write.change == write.change
            }
            let known = earlier.map { writes.remove(at: $0) }
            // An answer ends the request before it. A change that was made stays made, whatever the store says to the same
            // request of another person at that moment.
            let askedAt = write.answer == nil ? receivedAt : known?.askedAt ?? receivedAt
            let isMade = known?.write.answer?.result == .accepted
            writes.append(
                SubscriptionWrite(
                    askedAt: askedAt, write: isMade ? known?.write ?? write : write,
                    positions: (known?.positions ?? []) + [position]))
        }
        return writes
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("askedAt", askedAt)
            write.writeMembers(to: &writer)
            writer.key("positions")
            writer.array(positions) { $0.value($1) }
        }
    }
}
