import Encoding

/// The times until which the kinds of sources report on a subscription: until the last notification of the kind in its
/// stream, since notifications arrive for all subscriptions, or until the last answer about the subscription itself.
struct SourceCoverage: Sendable {
    private var lastUnsigned: Instant?
    private var lastSigned: Instant?

    /// Until this instant, both kinds of sources report what happens; nil if one of them never does.
    var end: Instant? {
        guard let lastUnsigned, let lastSigned else { return nil }
        return min(lastUnsigned, lastSigned)
    }

    /// Events after this instant are not compared: only one kind of source reports what they do. Refunds change periods
    /// that lie in the past.
    var lastEventMax: Instant? { end?.advanced(by: Limits.sourceLagMax) }

    mutating func add(_ statedAt: Instant, isSigned: Bool) {
        if isSigned {
            lastSigned = max(lastSigned ?? statedAt, statedAt)
        } else {
            lastUnsigned = max(lastUnsigned ?? statedAt, statedAt)
        }
    }
}
