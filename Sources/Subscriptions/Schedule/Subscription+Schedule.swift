import Encoding

extension Subscription {
    /// The next check of the subscription; nil if no answer could change anything, or no more is expected.
    ///
    /// Computed from the state alone, so equal facts give equal schedules. A report that states what a check would have
    /// found replaces it, because it is the later one.
    ///
    /// If only signed reports are known, the App Store Server API is asked, and lost notifications are fetched the day
    /// after. Then nothing is asked within grace, because access ends by the clock, and less often after it.
    ///
    /// Soon after a report that contradicts a cancellation, the App Store is asked which of them is right: its answer is
    /// later than both.
    ///
    /// After an erasure, nothing is asked until the store reports something by itself.
    ///
    /// Google is asked about the current purchase alone, see ``PlaySchedule``.
    ///
    /// - Parameter last: When the state was last confirmed: by the latest report (``reports``), or by a later check
    ///   that changed nothing. The next check is later than that.
    package func nextCheck(after last: Instant?, policy: CheckPolicy) -> StoreCheck? {
        if reports.isErased { return nil }
        if let purchase = currentPurchase {
            return PlaySchedule(purchase: purchase, isOfSandbox: policy.isOfSandbox).next(after: last ?? .earliest)
        }
        let regular = nextRegularCheck(after: last, policy: policy)
        let settled = contradictionChecks.filter { $0 > last ?? .earliest }.min()
        guard let settled, settled < regular?.dueAt ?? .latest else { return regular }
        return StoreCheck(dueAt: settled, reason: .end)
    }

    /// When the App Store is asked because its reports contradict each other, or the latest one itself: that again, since
    /// the next answer may do it, too.
    private var contradictionChecks: [Instant] {
        let first = reports.contradictedAt.map { [$0.advanced(byMilliseconds: CheckRhythm.contradictionMilliseconds)] }
        let ended = reports.endedByStatusAt.map { at in
            CheckRhythm.endedByStatusMilliseconds.map { at.advanced(byMilliseconds: $0) }
        }
        return (first ?? []) + (ended ?? [])
    }

    private func nextRegularCheck(after last: Instant?, policy: CheckPolicy) -> StoreCheck? {
        guard let period = periodToRenew else { return nil }
        let last = last ?? .earliest
        let end = period.end
        let paying = transactions.first { $0.transaction.transactionId == period.transactionId }?.transaction
        let rhythm = CheckRhythm(
            periodMilliseconds: end.milliseconds - period.start.milliseconds,
            retryMilliseconds: paying?.retryMilliseconds ?? Transaction.retryMilliseconds)
        let renewal = renewal(at: .latest)
        let isOff = isOff(afterEndAt: end) == true

        if last < end {
            if !isOff, !reports.hasSigned, policy.leadMinutes > 0 {
                let early = end.advanced(byMilliseconds: -60_000 * policy.leadMinutes)
                if early > last { return StoreCheck(dueAt: early, reason: .renewal) }
            }
            let dueAt = end.advanced(byMilliseconds: rhythm.delayMilliseconds)
            return dueAt > last ? StoreCheck(dueAt: dueAt, reason: isOff ? .end : .renewal) : nil
        }
        // Switching renewal off ends a retry, too. An intent is stated during retries, and then is not final.
        let hasEnded = isOff || (renewal.expirationIntent != nil && renewal.isInBillingRetryPeriod != true)
        guard !hasEnded else { return nil }
        var retry: CheckRhythm.Retry?
        if renewal.isInBillingRetryPeriod == true {
            retry = .unsigned
            if reports.hasSigned, !reports.hasUnsigned {
                let statedEnd = renewal.endedStatus == nil ? renewal.gracePeriodExpiresDate : nil
                let graceEnd = max(end, statedEnd ?? end)
                let dueAt = graceEnd.advanced(byMilliseconds: rhythm.delayMilliseconds)
                if graceEnd > end, dueAt > last { return StoreCheck(dueAt: dueAt, reason: .retry) }
                retry = .signed(lapsed: last.milliseconds - graceEnd.milliseconds)
            }
        }
        guard let step = rhythm.stepMilliseconds(after: last.milliseconds - end.milliseconds, retry) else { return nil }
        return StoreCheck(dueAt: last.advanced(byMilliseconds: step), reason: .retry)
    }

    /// The auto-renewable period that ends last, of those that were neither refunded, revoked nor replaced. Of copies of
    /// one period, the longest, since a copy may start when it was restored.
    private var periodToRenew: AccessPeriod? {
        var renewable: Set<String> = []
        for row in transactions
        where row.transaction.expiresDate != nil && !row.settled.isUpgraded && !isNonRenewing(row.transaction) {
            renewable.insert(row.transaction.transactionId)
        }
        return access.lazy.filter { $0.cause == .paid && $0.cut == nil && renewable.contains($0.transactionId) }
            .max { ($0.end, $1.start, $0.transactionId) < ($1.end, $0.start, $1.transactionId) }
    }
}

/// How often a period is checked after its end. Periods of the sandbox last minutes, so the length decides.
private struct CheckRhythm {
    let periodMilliseconds: Int64
    /// How long the App Store retries.
    let retryMilliseconds: Int64

    private static let minute: Int64 = 60_000
    private static let hour = 60 * minute
    private static let day = 24 * hour

    /// From the report that contradicts a cancellation to the check.
    static let contradictionMilliseconds = 5 * minute
    /// From a report that contradicts itself to the checks.
    static let endedByStatusMilliseconds = [5 * minute, hour, day]

    private var isShort: Bool { periodMilliseconds < Self.day }

    /// How a failed payment is reported.
    enum Retry {
        /// Only in signed reports; the milliseconds from the end of access to the check.
        case signed(lapsed: Int64)
        case unsigned
    }

    /// From the end of the period to its check: the App Store may report the renewal a little later.
    var delayMilliseconds: Int64 { isShort ? 2 * Self.minute : Self.hour }

    /// From a check to the next one; nil if the App Store has stopped retrying by then, see
    /// ``Transaction/retryMilliseconds``.
    ///
    /// A payment that fails is mostly repaired soon or not at all, so the steps become longer. A period that is over
    /// without a renewal, a failure or an end is probably an answer that is late, so the first steps are short.
    ///
    /// - Parameter retry: Nil if no failed payment is reported.
    func stepMilliseconds(after elapsed: Int64, _ retry: Retry?) -> Int64? {
        var step =
            switch (retry, elapsed) {
            case (nil, ..<Self.hour): Self.hour - elapsed
            case (nil, ..<(Self.hour + 10 * Self.minute)): 15 * Self.minute
            case (nil, ..<(2 * Self.hour + 10 * Self.minute)): Self.hour
            case (nil, ..<Self.day): 6 * Self.hour
            case (.unsigned, ..<Self.day): 3 * Self.hour
            case (.signed(let lapsed), _): lapsed < 3 * Self.day ? 6 * Self.hour : Self.day
            case (_, ..<(7 * Self.day)): 12 * Self.hour
            default: Self.day
            }
        if isShort { step = max(Self.minute, min(step, periodMilliseconds / 4)) }
        let horizon = isShort ? Self.day : retryMilliseconds
        return elapsed + step <= horizon ? step : nil
    }
}
