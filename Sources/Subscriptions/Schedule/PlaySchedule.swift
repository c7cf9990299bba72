import Encoding

/// When Google is asked about a purchase although no notification came: around the times at which something may happen.
///
/// Google announces every change, so these questions find what was lost, and what the time alone decides. A purchase that
/// does not change is not asked about for ever.
///
/// - Source: `developers.google.com/android-publisher`: what the states of a purchase lead to, and when. That a purchase
///   whose end has passed stays active is not foreseen; it is asked about daily, until its token expires.
struct PlaySchedule: Sendable {
    let purchase: PlayPurchase
    /// Periods of test purchases last minutes.
    let isOfSandbox: Bool

    /// The next question; nil if no answer could change anything, or no more is expected.
    ///
    /// - Parameter last: When the state was last confirmed. The next question is later than that.
    func next(after last: Instant) -> StoreCheck? {
        guard !purchase.isGone, let (at, reason) = planned(after: last) else { return nil }
        return StoreCheck(dueAt: at.advanced(by: spread), reason: reason)
    }

    /// Spreads the questions about purchases that end at the same time. The same for a purchase each time.
    private var spread: Duration {
        let hash = purchase.purchaseToken.utf8.reduce(UInt32(2_166_136_261)) { ($0 ^ UInt32($1)) &* 16_777_619 }
        return (isOfSandbox ? .seconds(10) : .seconds(300)) * (Double(hash >> 8) / Double(1 << 24))
    }

    private func planned(after last: Instant) -> (Instant, StoreCheck.Reason)? {
        let end = purchase.expiryTime
        switch purchase.state {
        case .active:
            guard purchase.isSubscription, let end else { return nil }
            let steps: [Duration] =
                isOfSandbox ? [.seconds(30), .minutes(2), .minutes(5)] : [.minutes(5), .hours(1), .hours(6), .days(1)]
            let at = first(after: last, from: end, steps) ?? following(last, from: end)
            return at.map { ($0, last < end ? .renewal : .retry) }
        case .canceled:
            guard let end else { return nil }
            let steps: [Duration] = isOfSandbox ? [.seconds(30), .minutes(2), .minutes(5)] : [.minutes(5), .days(1)]
            return first(after: last, from: end, steps).map { ($0, .end) }
        case .inGracePeriod:
            let steps: [Duration] = isOfSandbox ? [.seconds(30), .minutes(2)] : [.minutes(5), .hours(1)]
            let start = end ?? purchase.answeredAt
            let following = following(last, every: isOfSandbox ? .minutes(1) : .days(1), from: start)
            return [first(after: last, from: start, steps), following].compactMap(\.self).min().map { ($0, .retry) }
        case .onHold:
            // Its expiry is the end of grace. An answer that says another one contradicts itself.
            let start = min(end ?? purchase.answeredAt, purchase.answeredAt)
            let days = Array(1...7) + stride(from: 10, through: 61, by: 3)
            let steps: [Duration] =
                isOfSandbox ? [.minutes(2), .minutes(5), .minutes(10), .minutes(15)] : days.map { .days($0) }
            return first(after: last, from: start, steps).map { ($0, .retry) }
        case .paused:
            let steps: [Duration] = isOfSandbox ? [.seconds(30), .minutes(5), .hours(1)] : [.minutes(5)]
            if let resume = purchase.autoResumeTime, let at = first(after: last, from: resume, steps) {
                return (at, last < resume ? .renewal : .retry)
            }
            return isOfSandbox ? nil : (last.advanced(by: .days(1)), .retry)
        case .pending:
            let start = purchase.suspensions.first { $0.status == .pending }?.start ?? purchase.answeredAt
            let age = start.duration(to: last)
            guard age < horizon else { return nil }
            let pause: Duration =
                isOfSandbox
                ? (age < .hours(1) ? .minutes(5) : .hours(1)) : (age < .days(1) ? .hours(1) : .days(1))
            return (last.advanced(by: pause), .retry)
        case .expired:
            // The next answer may say when it ended, or that it has not.
            let isContradictory = end.map { $0 > purchase.answeredAt } ?? true
            let steps: [Duration] =
                isContradictory ? [.minutes(5), .hours(1), .days(1)] : [isOfSandbox ? .minutes(5) : .days(1)]
            let start = isContradictory ? purchase.answeredAt : end ?? purchase.answeredAt
            return first(after: last, from: start, steps).map { ($0, .end) }
        // A state that this version does not know may lead anywhere.
        case nil: return (last.advanced(by: isOfSandbox ? .hours(1) : .days(1)), .retry)
        case .pendingPurchaseCanceled, .purchased, .cancelled: return nil
        }
    }

    /// For how long a purchase is asked about that should have changed: as long as Google answers about it.
    private var horizon: Duration { isOfSandbox ? .days(1) : .days(60) }

    private func first(after last: Instant, from start: Instant, _ steps: [Duration]) -> Instant? {
        steps.lazy.map { start.advanced(by: $0) }.first { $0 > last }
    }

    private func following(_ last: Instant, every pause: Duration? = nil, from start: Instant) -> Instant? {
        guard last < start.advanced(by: horizon) else { return nil }
        return last.advanced(by: pause ?? (isOfSandbox ? .minutes(5) : .days(1)))
    }
}

extension Duration {
    fileprivate static func minutes(_ count: Int) -> Duration { .seconds(60 * count) }
    fileprivate static func hours(_ count: Int) -> Duration { .seconds(3600 * count) }
    fileprivate static func days(_ count: Int) -> Duration { .seconds(86_400 * count) }
}
