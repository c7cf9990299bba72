import Encoding

/// The links that a backend sets for one customer. They replace the customer's earlier links.
package struct SimulatedLinks: Sendable, Hashable {
    /// The backend's id of the customer.
    package let backendCustomerId: String
    package let sentAt: Instant
    package let links: [SimulatedLink]
    /// Whether the links may take what another customer owns.
    package var isTransfer = false
    /// Whether the ownership policy of the run refuses the statement.
    package var isRefused = false

    /// `{"links":[{"originalTransactionId":"…"},…]}`, with `"transfer":true` for a transfer.
    ///
    /// - Parameter format: The format of the notifications. A link by an id that the format does not contain uses the
    ///   original transaction id instead.
    package func body(_ format: Simulation.Format) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writeLinks(format, to: &$0) }
        return writer.bytes
    }

    /// Writes the member `links`, and `transfer` for a transfer.
    package func writeLinks(_ format: Simulation.Format, to writer: inout JSONWriter) {
        writer.key("links")
        writer.array(links) { writer, link in
            writer.object { link.write(format, to: &$0) }
        }
        if isTransfer { writer.member("transfer", true) }
    }
}

/// A link from a customer to a subscription, by one of Apple's ids.
package struct SimulatedLink: Sendable, Hashable {
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
        // Version 1 does not have it.
        case .appTransactionId where format != .v1: writer.member("appTransactionId", customer.appTransactionId)
        default: writer.member("originalTransactionId", originalTransactionId)
        }
    }
}
