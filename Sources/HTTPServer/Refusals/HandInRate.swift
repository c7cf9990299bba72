import Encoding

/// Limits how often a customer hands purchases in: what a backend passes on is chosen by the app's users, and each may cost
/// questions to a store and bytes on the disk. A request with many signed texts counts as several, since each text is verified
/// and stored by itself.
final class HandInRate: Sendable {
    private let buckets = KeyedBuckets<CustomerOfApp>(
        perSecond: Limits.handInsPerSecond, capacity: Limits.handInBurstMax, keysMax: Limits.handInCustomersMax)

    /// Counts a request of a customer. Requests without one are not limited.
    ///
    /// - Parameter body: Of the request.
    /// - Throws: ``Problem`` with status 429, and nothing is counted.
    func admit(
        _ customerId: String?, _ app: String, _ body: JSONValue, at now: ContinuousClock.Instant = .now
    ) throws(Problem) {
        guard let customerId else { return }
        guard !buckets.admit(CustomerOfApp(app, customerId), as: Self.count(of: body), at: now) else { return }
        throw Problem(
            .tooManyRequests, "too many hand-ins of this customer: at most \(Limits.handInsPerSecond) per second",
            field: "customerId", headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
    }

    /// As how many hand-ins a request counts: one, or one for each ten signed texts.
    static func count(of body: JSONValue) -> Int {
        var texts = 0
        for member: StaticString in ["signedTransaction", "signedRenewalInfo"] {
            guard let value = body[member] else { continue }
            // A longer list is refused, and no text of it is verified.
            texts += value.isArray ? value.elements(atMost: Limits.handInTextsCounted).count : 1
        }
        return max(1, (texts + Limits.handInTexts - 1) / Limits.handInTexts)
    }
}
