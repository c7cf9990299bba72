import Encoding

// When Google should be asked about a purchase again. Google announces every change, so these checks find what was lost,
// and what is decided by the time alone.

extension Subscription {
    /// The next check of the current purchase on Google Play; nil if no answer could change anything.
    ///
    /// - Parameters:
    ///   - purchase: The current one.
    ///   - last: When the state was last confirmed. The next check is later.
    func nextCheck(of purchase: PlayPurchase, after last: Instant) -> StoreCheck? {
        let rhythm = PurchaseRhythm(isShort: isShort)
        func steps(from start: Instant, _ reason: StoreCheck.Reason, _ all: [Int64], then every: Int64?) -> StoreCheck?
        {
            for step in all {
                let at = start.advanced(byMilliseconds: rhythm.scaled(step))
                if at > last { return StoreCheck(dueAt: at, reason: reason) }
            }
            guard let every, last < start.advanced(byMilliseconds: rhythm.horizon) else { return nil }
            return StoreCheck(dueAt: last.advanced(byMilliseconds: rhythm.scaled(every)), reason: reason)
        }
        typealias Time = PurchaseRhythm
        switch purchase.state {
        case .active, nil:
            guard purchase.isSubscription, let expiry = purchase.expiryTime else { return nil }
            return steps(
                from: expiry, last < expiry ? .renewal : .retry,
                [5 * Time.minute, Time.hour, 6 * Time.hour, Time.day], then: Time.day)
        case .canceled:
            return purchase.expiryTime.flatMap { steps(from: $0, .end, [5 * Time.minute, Time.day], then: nil) }
        case .inGracePeriod:
            guard let end = purchase.expiryTime else { return nil }
            let daily = last.advanced(byMilliseconds: rhythm.scaled(Time.day))
            if last < end { return StoreCheck(dueAt: min(daily, end), reason: .retry) }
            return steps(from: end, .retry, [5 * Time.minute, Time.hour], then: Time.day)
        case .onHold:
            let start = suspension(at: last)?.start ?? purchase.expiryTime ?? purchase.answeredAt
            let isEarly = last < start.advanced(byMilliseconds: rhythm.scaled(7 * Time.day))
            return steps(from: start, .retry, [], then: isEarly ? Time.day : 3 * Time.day)
        case .paused:
            let daily = StoreCheck(dueAt: last.advanced(byMilliseconds: rhythm.scaled(Time.day)), reason: .retry)
            guard let resume = purchase.autoResumeTime else { return daily }
            let after = resume.advanced(byMilliseconds: rhythm.scaled(5 * Time.minute))
            return after > last ? StoreCheck(dueAt: after, reason: .renewal) : daily
        case .pending:
            let start = suspension(at: last)?.start ?? purchase.answeredAt
            let isEarly = last < start.advanced(byMilliseconds: rhythm.scaled(Time.day))
            return steps(from: start, .retry, [], then: isEarly ? Time.hour : Time.day)
        case .expired:
            // The next answer may say when it ended, or that it has not.
            let isContradictory = purchase.expiryTime.map { $0 > purchase.answeredAt } ?? true
            return steps(
                from: purchase.answeredAt, .end, (isContradictory ? [5 * Time.minute, Time.hour] : []) + [Time.day],
                then: nil)
        case .pendingPurchaseCanceled, .purchased, .cancelled: return nil
        }
    }

    /// True for the accelerated periods of test purchases.
    private var isShort: Bool {
        guard let period = access.last(where: { $0.cause == .paid }) else { return false }
        return period.end.milliseconds - period.start.milliseconds < PurchaseRhythm.day
    }
}

/// How long the steps between checks are. Those of test purchases take minutes, as these do.
private struct PurchaseRhythm {
    let isShort: Bool

    static let minute: Int64 = 60_000
    static let hour = 60 * minute
    static let day = 24 * hour

    /// Until when a purchase is checked that does not change.
    var horizon: Int64 { isShort ? Self.day : 60 * Self.day }

    /// From 30 seconds to five minutes for test purchases.
    func scaled(_ step: Int64) -> Int64 {
        isShort ? min(max(step / 60, Self.minute / 2), 5 * Self.minute) : step
    }
}
