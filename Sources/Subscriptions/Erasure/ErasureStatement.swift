import Encoding

/// The statement that a person's data was erased from a stream: an operator's event, appended in the transaction that erases.
///
/// It names nobody. What named the person is replaced by pseudonyms, and the bodies at ``positions`` are removed; their digests
/// stay, so the hash chain still proves the order and the time of every event.
///
/// Source: scale, "a person's data erased, and the log still proves".
package struct ErasureStatement: Sendable, Hashable {
    /// `erased-` and 32 hexadecimal digits, random. The person's ids became this text with a number behind it.
    package let pseudonym: String
    package let at: Instant
    package let by: String
    package let reason: String
    /// The subscriptions that were the person's, by the ids that they have since, in ascending order.
    package let subscriptions: [String]
    /// The events that have no body any more, in ascending order.
    package let positions: [ClosedRange<Int64>]
    /// Whether the stores' own ids of the person's purchases were replaced, too.
    package let replacesTransactions: Bool

    package init(
        pseudonym: String, at: Instant, by: String, reason: String, subscriptions: [String],
        positions: [ClosedRange<Int64>], replacesTransactions: Bool = false
    ) {
        self.pseudonym = pseudonym
        self.at = at
        self.by = by
        self.reason = reason
        self.subscriptions = subscriptions
        self.positions = positions
        self.replacesTransactions = replacesTransactions
    }

    /// Creates the event to append to the log.
    package func event(environment: Environment, app: String?, receivedAt: Instant, dedupeKey: DedupeKey) -> Event {
        var event = Event(
            source: .operator, environment: environment, app: app, type: nil, subtype: nil, kind: .erasure,
            dedupeKey: dedupeKey, occurredAt: receivedAt, transactions: [], renewals: [], defects: [])
        event.erasure = self
        return event
    }

    /// Joins positions that follow each other.
    ///
    /// - Parameter positions: In ascending order.
    package static func ranges(of positions: [Int64]) -> [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for position in positions {
            if let last = ranges.last, last.upperBound + 1 == position {
                ranges[ranges.count - 1] = last.lowerBound...position
            } else {
                ranges.append(position...position)
            }
        }
        return ranges
    }
}

// MARK: - JSON

extension ErasureStatement {
    /// Whether the body of an operator's event is one of these.
    package static func isErasure(_ json: JSONValue) -> Bool { json.string("pseudonym") != nil }

    /// The canonical JSON, which is the body of the event.
    package var canonicalText: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    /// `{"pseudonym":…,"at":…,"by":…,"reason":…,"subscriptions":[…],"positions":[{"first":…,"last":…}]}`, with
    /// `"transactions":true` if the stores' own ids were replaced.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("pseudonym", pseudonym)
            writer.member("at", at)
            writer.member("by", by)
            writer.member("reason", reason)
            writer.key("subscriptions")
            writer.array(subscriptions) { $0.value($1) }
            writer.key("positions")
            writer.array(positions) { writer, range in
                writer.object { writer in
                    writer.member("first", range.lowerBound)
                    writer.member("last", range.upperBound)
                }
            }
            writer.member("transactions", replacesTransactions ? true : nil)
        }
    }

    /// Reads the JSON that ``write(to:)`` writes.
    package init(json: JSONValue) throws(FactsError) {
        guard let at = try json.instant("at") else { throw FactsError(member: "erasure.at") }
        var ranges: [ClosedRange<Int64>] = []
        for element in try json.requiredElements("positions") {
            guard let first = element["first"]?.int64, let last = element["last"]?.int64, first <= last else {
                throw FactsError(member: "erasure.positions")
            }
            ranges.append(first...last)
        }
        self.init(
            pseudonym: try json.required("pseudonym"), at: at, by: try json.required("by"),
            reason: try json.required("reason"),
            subscriptions: try json.requiredElements("subscriptions").compactMap(\.string), positions: ranges,
            replacesTransactions: json.bool("transactions") ?? false)
    }
}
