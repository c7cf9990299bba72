/// The revocation status of a chain.
package enum RevocationVerdict: String, Sendable, CaseIterable {
    /// Fresh, signed responses report both leaf and intermediate as good.
    case good
    /// A fresh, signed response reports the leaf or the intermediate as revoked.
    case revoked
    /// The status could not be determined: a responder was unavailable or sent an unusable response, or a certificate
    /// names no responder.
    case unknown
}
