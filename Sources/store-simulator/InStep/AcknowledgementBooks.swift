import Encoding
import Simulation

/// Compares the acknowledgements of a run with what Google Play itself recorded about its purchases: each purchase is
/// acknowledged within minutes after the server knew it, and none before it was granted.
struct AcknowledgementBooks: Sendable {
    /// Each purchase as one line; empty if all are right.
    let differences: [String]
    let description: String

    private enum Limits {
        /// A purchase must be acknowledged this long after the server could know it.
        static let wait = Duration.seconds(15 * 60)
        /// Longer if requests fail at random: an outage of the API lasts ten minutes, and several may follow each other.
        static let waitWithFaults = Duration.seconds(2 * 3600)
    }

    /// A purchase that must be acknowledged.
    private struct Purchase {
        let token: String
        let story: PlayStory
        let paidAt: Instant
        /// When it ended, or was replaced; nil if it did not.
        let endedAt: Instant?
        /// By the server; nil if it never was.
        let acknowledgedAt: Instant?
    }

    /// - Parameters:
    ///   - granted: When the server stored the first answer that shows a purchase as paid, by purchase token.
    ///   - outages: When the API was away, or the server was.
    ///   - lost: What the server received then it does not know, and the reasons for what it did then are not in the
    ///     log.
    init(
        _ play: SimulatedPlay, granted: [String: Instant], outages: [Range<Instant>], hasFaults: Bool, lost: LostTime?
    ) {
        func isLost(_ instant: Instant) -> Bool { lost?.contains(instant) ?? false }
        let wait = hasFaults ? Limits.waitWithFaults : Limits.wait
        let handIns = (0..<play.storyCount).flatMap { play.story($0).handIns }
        var known = Dictionary(handIns.map { ($0.purchaseToken, $0.at) }) { min($0, $1) }
        for push in play.deliveries where push.isAcknowledged && !push.purchaseToken.isEmpty && !isLost(push.at) {
            known[push.purchaseToken] = min(known[push.purchaseToken] ?? push.at, push.at)
        }
        /// The end of the outage in which something begins or ends; itself without one.
        func afterOutages(_ start: Instant, _ end: Instant) -> Instant {
            outages.filter { $0.lowerBound <= end && start < $0.upperBound }.map(\.upperBound).max() ?? start
        }
        var differences: [String] = []
        var (acknowledged, delayed, oldest) = (0, 0, Duration.zero)
        for purchase in (0..<play.storyCount).flatMap({ Self.purchases(of: play, story: $0) }) {
            let name = "\(purchase.token) (\(purchase.story.name))"
            if let at = purchase.acknowledgedAt {
                acknowledged += 1
                if !isLost(at), granted[purchase.token].map({ at < $0 }) ?? true {
                    differences.append(
                        "\(name): acknowledged at \(at), granted \(granted[purchase.token].map { "at \($0)" } ?? "never")"
                    )
                }
            }
            // One that was pending when the server heard of it is known to be paid when an answer says so.
            let learned = known[purchase.token].map { $0 < purchase.paidAt ? granted[purchase.token] : $0 } ?? nil
            guard let learned = learned ?? granted[purchase.token] else { continue }
            let start = max(learned, purchase.paidAt)
            let from = afterOutages(start, start.advanced(by: wait))
            let deadline = from.advanced(by: wait)
            if let ended = purchase.endedAt, ended <= deadline { continue }
            if let at = purchase.acknowledgedAt {
                oldest = max(oldest, from.duration(to: at))
                if start < from { delayed += 1 }
            }
            guard purchase.acknowledgedAt.map({ deadline < $0 }) ?? true else { continue }
            differences.append(
                "\(name): known at \(start), acknowledged \(purchase.acknowledgedAt.map { "at \($0)" } ?? "never")")
        }
        self.differences = differences
        description =
            "acknowledged \(acknowledged) purchases, \(delayed) after an outage, the last one \(oldest / .seconds(1)) s after it was known, "
            + "differences: \(differences.count)"
    }

    private static func purchases(of play: SimulatedPlay, story: Int) -> [Purchase] {
        let rendered = play.story(story)
        let acknowledged = play.acknowledged[story] ?? [:]
        let ofSubscriptions = rendered.subscriptions.flatMap(\.tokens).compactMap { purchase -> Purchase? in
            let valid: Set<PlayState> = [.active, .canceled, .inGracePeriod]
            // Pending at the instant of the purchase comes before active at the same instant.
            let fromPaid = purchase.history.drop { !valid.contains($0.book.state) }
            guard let paid = fromPaid.first else { return nil }
            return Purchase(
                token: purchase.token, story: rendered.story, paidAt: paid.at,
                endedAt: fromPaid.first { !valid.contains($0.book.state) }?.at,
                acknowledgedAt: acknowledged[purchase.token])
        }
        let oneTime = rendered.oneTimePurchases.compactMap { life -> Purchase? in
            let fromPaid = life.history.drop { $0.book.state != .purchased }
            guard let paid = fromPaid.first else { return nil }
            // A consumption by the app acknowledges it.
            return Purchase(
                token: life.token, story: rendered.story, paidAt: paid.at,
                endedAt: fromPaid.first { $0.book.state != .purchased || $0.book.isConsumed }?.at,
                acknowledgedAt: acknowledged[life.token])
        }
        return ofSubscriptions + oneTime
    }
}
