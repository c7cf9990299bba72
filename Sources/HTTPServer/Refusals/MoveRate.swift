/// A customer of the backend of an app.
struct CustomerOfApp: Hashable {
    let app: String
    let customerId: String

    init(_ app: String, _ customerId: String) {
        self.app = app
        self.customerId = customerId
    }
}

/// Limits how many purchases of a customer change hands by hand-ins: a move writes all purchases of the former owner anew, and
/// the projector of the app does nothing else meanwhile. Two devices could take thousands of them from each other for ever.
final class MoveRate: Sendable {
    private let buckets = KeyedBuckets<CustomerOfApp>(
        perSecond: Limits.movedPurchasesPerSecond, capacity: Limits.movedPurchaseBurstMax,
        keysMax: Limits.handInCustomersMax)

    /// Counts a move for both customers, so that no third one goes on at once.
    ///
    /// - Parameter purchases: What the owner has, at least one.
    /// - Throws: ``Problem`` with status 429.
    func admit(
        _ purchases: Int, of owner: String, to customerId: String, _ app: String, at now: ContinuousClock.Instant = .now
    ) throws(Problem) {
        let count = min(purchases, Limits.movedPurchaseBurstMax)
        for id in [owner, customerId] where !buckets.admit(CustomerOfApp(app, id), as: count, at: now) {
            throw Problem(
                .tooManyRequests,
                "the purchases changed hands a moment ago: of a customer, at most \(Limits.movedPurchasesPerSecond) move per second",
                field: "customerId", headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
        }
    }
}
