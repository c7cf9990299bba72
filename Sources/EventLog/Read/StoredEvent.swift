import Encoding
import Subscriptions

/// An event of the log, without its body.
package struct StoredEvent: Sendable {
    package let position: Int64
    package let receivedAt: Instant
    package let occurredAt: Instant?
    package let source: String
    package let type: String?
    package let subtype: String?
    package let kind: String
    package let dedupeKey: DedupeKey
    /// JSON text; see ``Facts``.
    package let facts: [UInt8]
    /// JSON text of an array; nil if there are none.
    package let defects: [UInt8]?

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("position", position)
            writer.member("receivedAt", receivedAt)
            writer.member("occurredAt", occurredAt)
            writer.member("source", source)
            writer.member("type", type)
            writer.member("subtype", subtype)
            writer.member("kind", kind)
            writer.member("dedupeKey", dedupeKey.hexadecimal)
            writer.key("facts")
            writer.value(rawJSON: facts)
            if let defects {
                writer.key("defects")
                writer.value(rawJSON: defects)
            }
        }
    }
}

/// Why the log could not be read.
package enum ReadError: Error, Hashable, CustomStringConvertible {
    /// Temporary: retry.
    case unavailable
    /// Requires an operator. The detail is for the server's log only.
    case damaged(detail: String)

    package var description: String {
        switch self {
        case .unavailable: "the database is unavailable"
        case .damaged: "the stored data could not be read; see the server's log"
        }
    }
}
