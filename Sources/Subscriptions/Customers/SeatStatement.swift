import Encoding

/// A seat of a subscription that a backend gives to one of its customers, or takes back.
///
/// Of a subscription whose members the app invites by itself, the App Store knows the number of seats and nobody who has one:
/// the record of who has access is the backend's. A later statement about the same customer replaces an earlier one.
///
/// Source: Apple, "Multiseat subscriptions" (`invitationManagement` `DEVELOPER`). Built from documentation alone: no genuine
/// transaction with seats was seen.
package struct SeatStatement: Sendable, Hashable {
    /// The purchaser's subscription.
    package let originalTransactionId: String
    /// The backend's own id of the customer.
    package let customerId: ByteString
    /// Whether the customer has the seat from then on.
    package let isClaimed: Bool

    /// The `invitationManagement` of seats whose members the App Store invites: each has a transaction of its own.
    package static let invitedByStore = "APPLE"

    package init(originalTransactionId: String, customerId: String, isClaimed: Bool) {
        self.originalTransactionId = originalTransactionId
        self.customerId = ByteString(customerId)
        self.isClaimed = isClaimed
    }

    /// Leads from the customer to the subscription, and says nothing about whose it is.
    package var link: LinkStatement {
        LinkStatement(
            backendCustomerId: customerId.text, links: [CustomerKey(.subscription, originalTransactionId)],
            isComplete: false, basis: .seat)
    }

    /// Creates the event to append to the log.
    package func event(environment: Environment, app: String?, receivedAt: Instant, dedupeKey: DedupeKey) -> Event {
        var event = Event(
            source: .backend, environment: environment, app: app, type: nil, subtype: nil,
            kind: isClaimed ? .seatClaim : .seatRelease, dedupeKey: dedupeKey, occurredAt: receivedAt, transactions: [],
            renewals: [], defects: [])
        event.seat = self
        return event
    }
}

// MARK: - JSON

extension SeatStatement {
    /// The canonical JSON, which is the body of the event.
    package var canonicalText: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("seat")
            write(to: &writer)
        }
        return writer.bytes
    }

    /// Whether a body is one of a seat.
    package static func isSeat(_ body: JSONValue) -> Bool { body["seat"] != nil }

    /// Reads the canonical JSON.
    package init(body: JSONValue) throws(FactsError) {
        guard let json = body["seat"] else { throw FactsError(member: "seat") }
        try self.init(json: json)
    }

    /// `{"originalTransactionId":…,"customerId":…,"claimed":…}`
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("originalTransactionId", originalTransactionId)
            writer.member("customerId", customerId.text)
            writer.member("claimed", isClaimed)
        }
    }

    /// Reads the JSON that ``write(to:)`` writes.
    package init(json: JSONValue) throws(FactsError) {
        guard let isClaimed = json["claimed"]?.bool else { throw FactsError(member: "seat.claimed") }
        self.init(
            originalTransactionId: try json.required("originalTransactionId"),
            customerId: try json.required("customerId"), isClaimed: isClaimed)
    }
}
