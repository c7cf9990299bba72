import Encoding
import Subscriptions

/// When a purchase is asked about although no notification came: around the times at which something may happen.
///
/// A purchase of one-time products that is paid for, and a subscription that ended, are not asked about for ever.
struct PurchaseSchedule: Sendable {
    let snapshot: PurchaseSnapshot
    let environment: Environment
    /// When the purchase was first named.
    let noticedAt: Instant
    /// From 0 up to but excluding 1, the same for a purchase each time: spreads the questions about purchases that end at
    /// the same time.
    let part: Double

    /// The earliest planned time after an answer; nil if there is none.
    func next(after answeredAt: Instant) -> Instant? {
        let planned = environment == .sandbox ? testTimes(answeredAt) : times(answeredAt)
        let spread = (environment == .sandbox ? Self.testSpread : Self.spread) * part
        return planned.filter { $0 > answeredAt }.min()?.advanced(by: spread)
    }

    /// The latest end of an item.
    private var end: Instant? { snapshot.items.compactMap(\.expiryTime).max() }

    private func times(_ now: Instant) -> [Instant] {
        switch snapshot.state {
        case .active, .canceled:
            return after(end, [.seconds(300), .seconds(3600), .seconds(6 * 3600), .seconds(Self.day)])
        case .inGracePeriod:
            return after(now, [.seconds(Self.day)]) + after(end, [.seconds(300), .seconds(3600)])
        case .onHold:
            let start = end ?? now
            let days = (1...7).map { $0 } + stride(from: 10, through: 61, by: 3)
            return after(start, days.map { .seconds(Int64($0) * Self.day) })
        case .paused:
            let resume = after(snapshot.autoResumeTime, [.seconds(300)])
            guard let planned = snapshot.autoResumeTime, planned > now else { return after(now, [.seconds(Self.day)]) }
            return resume
        case .pending:
            let age = noticedAt.duration(to: now)
            guard age < .seconds(60 * Self.day) else { return [] }
            return after(now, [age < .seconds(Self.day) ? .seconds(3600) : .seconds(Self.day)])
        case .expired: return after(end, [.seconds(Self.day)])
        // A state that this version does not know may lead anywhere.
        case nil: return after(now, [.seconds(Self.day)])
        case .pendingPurchaseCanceled, .purchased, .cancelled: return []
        }
    }

    /// Test subscriptions are renewed every few minutes.
    private func testTimes(_ now: Instant) -> [Instant] {
        switch snapshot.state {
        case .active, .canceled: return after(end, [.seconds(30), .seconds(120), .seconds(300)])
        case .inGracePeriod: return after(now, [.seconds(60)]) + after(end, [.seconds(30), .seconds(120)])
        case .onHold: return after(end, [.seconds(120), .seconds(300), .seconds(600), .seconds(900)])
        case .paused: return after(snapshot.autoResumeTime, [.seconds(30), .seconds(300), .seconds(3600)])
        case .pending:
            let age = noticedAt.duration(to: now)
            return age < .seconds(Self.day) ? after(now, [age < .seconds(3600) ? .seconds(300) : .seconds(3600)]) : []
        case .expired: return after(end, [.seconds(300)])
        case nil: return after(now, [.seconds(3600)])
        case .pendingPurchaseCanceled, .purchased, .cancelled: return []
        }
    }

    private func after(_ instant: Instant?, _ pauses: [Duration]) -> [Instant] {
        guard let instant else { return [] }
        return pauses.map { instant.advanced(by: $0) }
    }

    private static let day: Int64 = 86_400
    private static let spread = Duration.seconds(300)
    private static let testSpread = Duration.seconds(10)
}
