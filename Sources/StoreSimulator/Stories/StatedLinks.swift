import Subscriptions

/// What a backend states about one of its customers: all that belongs to the id, in place of what it stated before.
package struct StatedLinks: Sendable, Hashable {
    /// The backend's own id.
    package let customerId: String
    package let statedAt: Instant
    package let links: [StatedLink]

    /// `{"links":[{"originalTransactionId":"…"},…]}`
    ///
    /// - Parameter format: What the store speaks; links by an id that it never tells are made by the line's.
    package func body(_ format: Simulation.Format) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writeLinks(format, to: &$0) }
        return writer.bytes
    }

    /// The member `links`.
    package func writeLinks(_ format: Simulation.Format, to writer: inout JSONWriter) {
        writer.key("links")
        writer.array(links) { writer, link in
            writer.object { link.write(format, to: &$0) }
        }
    }
}

/// A line that belongs to a customer, by one of the ids that the store gives it.
package struct StatedLink: Sendable, Hashable {
    package enum Key: Sendable, CaseIterable {
        case originalTransactionId, appAccountToken, appTransactionId
    }

    let key: Key
    let originalTransactionId: String
    let customer: Customer

    fileprivate func write(_ format: Simulation.Format, to writer: inout JSONWriter) {
        switch key {
        case .appAccountToken where customer.appAccountToken != nil:
            writer.member("appAccountToken", customer.appAccountToken)
        // Version 1 does not know it.
        case .appTransactionId where format != .v1: writer.member("appTransactionId", customer.appTransactionId)
        default: writer.member("originalTransactionId", originalTransactionId)
        }
    }
}
