/// How revocation checks are performed.
package enum RevocationMode: String, Sendable, CaseIterable {
    /// No checks.
    case off
    /// Checks run asynchronously; notifications do not wait for them.
    case background
    /// A notification waits for the check of its chain.
    case required
}
