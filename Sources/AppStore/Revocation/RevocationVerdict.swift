/// What the issuers of a chain say of it.
package enum RevocationVerdict: String, Sendable, CaseIterable {
    /// Leaf and intermediate are both good by fresh, signed answers.
    case good
    /// A fresh, signed answer says that the leaf or the intermediate is revoked.
    case revoked
    /// Nobody could say: a responder was away or sent something unusable, or a certificate names no responder.
    case unknown
}
