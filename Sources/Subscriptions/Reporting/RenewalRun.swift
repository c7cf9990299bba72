import Encoding

/// Numbers the payments of a subscription and finds how the renewal after each of them went.
///
/// A run begins with a payment at the standard price. It ends when another product follows, or when access ends and the
/// customer buys again. Give it the periods in order, each as soon as it is the last of the list.
struct RenewalRun {
    /// The ends of grace by its start, which is the end of the period whose renewal failed.
    private let graceEnds: [Instant: Instant]
    /// The start of the run's first payment; nil before one at the standard price.
    private var start: Instant?
    private var payments = 0
    /// The index of the last period that was paid for or free.
    private var last: Int?

    init(_ periods: [AccessPeriod]) {
        graceEnds = Dictionary(
            periods.lazy.filter { $0.cause == .grace }.map { ($0.start, $0.end) }, uniquingKeysWith: max)
    }

    /// Sets the values of the last period, and the outcome of the renewal before it.
    ///
    /// - Parameters:
    ///   - hasOffer: Whether the last period was bought with an offer.
    ///   - lapse: Why access ended before the period; used if there is a gap.
    ///
    /// Seats that were added to the period of an earlier payment are no renewal: leave them out.
    mutating func extend(in periods: inout [ReportingPeriod], hasOffer: Bool, after lapse: ChurnReason?) {
        let index = periods.count - 1
        let next = periods[index]
        let nextStart = next.effectiveStart ?? next.period.start
        guard next.payerState == .paying || next.payerState == .trial,
            nextStart < next.effectiveEnd ?? next.period.end
        else { return }
        if let last {
            let previous = periods[last].period
            let isBoughtAgain = next.movement == .resubscribed
            let isOther = previous.productId != next.period.productId
            if periods[last].paymentNumber != nil {
                if isBoughtAgain {
                    periods[last].renewal = .lost(lapse?.kind ?? .unknown)
                } else if isOther {
                    periods[last].renewal = .changedPlan
                } else if let graceEnd = graceEnds[previous.end], nextStart <= graceEnd {
                    periods[last].renewal = .inGrace
                } else if previous.end < nextStart {
                    periods[last].renewal = .later
                }
            }
            if isBoughtAgain || isOther {
                start = nil
                payments = 0
            }
        }
        last = index
        guard next.payerState == .paying, start != nil || !hasOffer else { return }
        payments += 1
        start = start ?? nextStart
        periods[index].runStart = start
        periods[index].paymentNumber = payments
    }
}

extension ReportingPeriod {
    /// The outcome of the renewal that is due at the end of a payment's period, if it was not renewed on time.
    package enum Renewal: Sendable, Hashable {
        /// Charged within the grace period.
        case inGrace
        /// Charged after a time without access, while the App Store retried.
        case later
        /// Another product followed, at once or at the end of the period.
        case changedPlan
        /// Access ended, and the customer bought again later.
        case lost(ChurnReason.Kind)

        /// The stored name. A lost renewal has that of the reason.
        package var name: String {
            switch self {
            case .inGrace: "in_grace"
            case .later: "later"
            case .changedPlan: "changed_plan"
            case .lost(let reason): reason.rawValue
            }
        }
    }
}

extension Transaction {
    /// True if an offer of any type lowered the price.
    var hasOffer: Bool {
        offerType != nil || promotionalOfferId != nil || offerCodeRefName != nil || isInIntroOfferPeriod == true
    }
}
