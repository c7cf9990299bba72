import Subscriptions

/// The certificates of a stored body.
package enum SigningCertificates {
    /// The certificates in the first signature of a body, in DER, leaf first; empty if it is not signed or unreadable.
    /// Nothing is verified.
    package static func certificates(in body: [UInt8], source: EventSource) -> [[UInt8]] {
        let header: ArraySlice<UInt8>?
        switch source {
        case .appleV2, .appleHistory:
            guard case .v2(let notification)? = try? AppleNotification(decoding: body) else { return [] }
            header = notification.parts.first?.jws.header
        case .appleDevice, .appleAPI:
            guard let statement = try? SignedStatement(decoding: body, source: source) else { return [] }
            header = statement.parts.first?.jws.header
        // Nothing else is signed with certificates.
        default: return []
        }
        return header.flatMap { try? JWSHeader($0).certificates } ?? []
    }
}
