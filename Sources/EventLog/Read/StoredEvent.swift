import Encoding
import Subscriptions

/// An event as the log holds it, without its body.
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
    /// JSON text of an array; nil when there are none.
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

/// Why the log could not be read: ``unavailable`` heals by itself, ``damaged`` needs a person.
package enum ReadError: Error, Hashable, CustomStringConvertible {
    case unavailable
    /// With what an operator needs to know, and nobody else.
    case damaged(detail: String)

    package var description: String {
        switch self {
        case .unavailable: "the database is unavailable"
        case .damaged: "the stored data could not be read; the server's log says more"
        }
    }
}
