import Encoding
import Subscriptions

extension ChangeReader.PublishedChange {
    /// Writes an object with the change and its customer.
    ///
    /// - Parameter instant: As of which the customer was read.
    package func write(at instant: Instant, to writer: inout JSONWriter) {
        writer.object { writeMembers(at: instant, to: &$0) }
    }

    /// Writes the members of the same object.
    package func writeMembers(at instant: Instant, to writer: inout JSONWriter) {
        writer.member("number", place.number)
        writer.member("kind", change.kind.rawValue)
        writer.member("at", change.at)
        writer.member("publishedAt", publishedAt)
        writer.member("cause", change.cause.name)
        writer.member("position", change.cause.position)
        writer.member("originalTransactionId", change.originalTransactionId)
        writer.member("productId", change.productId)
        if let until = change.until { writer.member("until", end: until) }
        writer.member("autoRenewStatus", change.autoRenewStatus)
        if change.kind == .nextProduct {
            writer.key("nextProductId")
            if let next = change.nextProductId { writer.value(next) } else { writer.value(rawJSON: "null") }
        }
        if let seats = change.seats {
            writer.member("from", Int64(seats.before))
            writer.member("to", Int64(seats.now))
        }
        writer.member("reason", change.reason)
        writer.key("customer")
        writer.object { writer in
            customer.keys.write(to: &writer)
            writer.member("more", customer.hasMoreKeys ? true : nil)
            writer.key("entitlements")
            writer.array(customer.entitlements) { $1.write(at: instant, to: &$0) }
        }
    }
}
