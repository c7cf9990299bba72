/// What a verification checked, and the first bad row.
package struct VerificationOutcome: Sendable {
    /// Nil if everything is valid.
    package var finding: Finding?
    package var streams = 0
    package var events: Int64 = 0
    package var subscriptions: Int64 = 0

    package init() {}
}
