/// How much an owner wants of revocation checks.
package enum RevocationMode: String, Sendable, CaseIterable {
    /// Nobody is asked.
    case off
    /// Issuers are asked beside the notifications, none of which waits.
    case background
    /// A notification waits until its chain's issuers have answered.
    case required
}
