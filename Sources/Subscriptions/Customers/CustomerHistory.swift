import Encoding

/// An interval in which a customer owns a subscription, with the events that began and ended it.
package struct OwnedInterval: Sendable, Hashable {
    package let interval: Range<Instant>
    /// The first event that reported why the customer owns the subscription; nil if nothing says whose it is.
    package let position: Int64?
    /// The same for the next owner.
    package let nextPosition: Int64?
    /// Whether the customer has only a seat of the subscription, for which another one pays.
    package let isSeat: Bool
    /// The owner until the interval begins; nil for a seat, and if there is none or it was not looked up.
    package let previousOwner: CustomerKey?
    /// The owner since the interval ended; nil for a seat, and if there is none or it was not looked up.
    package let nextOwner: CustomerKey?

    package init(
        _ interval: Range<Instant>, position: Int64?, nextPosition: Int64?, isSeat: Bool = false,
        previousOwner: CustomerKey? = nil, nextOwner: CustomerKey? = nil
    ) {
        self.interval = interval
        self.isSeat = isSeat
        self.position = position
        self.nextPosition = nextPosition
        self.previousOwner = previousOwner
        self.nextOwner = nextOwner
    }
}

extension [OwnedInterval] {
    /// The intervals in order of time, with those that overlap or touch as one.
    package var united: [OwnedInterval] {
        sorted { $0.interval.lowerBound < $1.interval.lowerBound }.reduce(into: []) { united, next in
            guard let last = united.last, next.interval.lowerBound <= last.interval.upperBound else {
                united.append(next)
                return
            }
            guard next.interval.upperBound > last.interval.upperBound else { return }
            united[united.count - 1] = OwnedInterval(
                last.interval.lowerBound..<next.interval.upperBound, position: last.position,
                nextPosition: next.nextPosition, isSeat: last.isSeat && next.isSeat,
                previousOwner: last.previousOwner, nextOwner: next.nextOwner)
        }
    }
}

/// Something that a customer gained or lost.
package struct HistoryEntry: Sendable, Hashable {
    /// ``Change/Kind/customerChanged`` for the start or end of an interval of ownership; that of a ``CustomerNotice`` for
    /// what is about the customer; otherwise a change of access.
    package let kind: Change.Kind
    package let at: Instant
    /// Nil for what is about the customer and names no subscription.
    package let originalTransactionId: String?
    /// The product that gives access; for ``Change/Kind/closed``, the one that did. Nil for changes of ownership.
    package let productId: String?
    /// The end of the unbroken access; ``Instant/latest`` if it has none. Nil if there is no access.
    package let until: Instant?
    /// For changes of ownership: whether the customer gained the subscription.
    package let isGain: Bool?
    /// The event that reported it; nil if none did, as at the end of a period that only the clock ends.
    package let position: Int64?
    /// The app that has the subscription, if it is not the answer's but joined with it.
    package var joinedApp: String?
}

extension Subscription {
    /// Returns what a customer gained and lost by owning the subscription.
    ///
    /// - Parameters:
    ///   - intervals: The intervals in which the customer owns it.
    ///   - instant: Only entries up to and including this instant are returned.
    ///   - rules: Those of the fold of the subscription.
    package func history(
        ownedDuring intervals: [OwnedInterval], through instant: Instant, _ rules: [AppliedRule] = []
    ) -> [HistoryEntry] {
        let endings = Self.endings(rules)
        let access = owned(during: intervals.map(\.interval)).access
        var entries = SubscriptionSnapshot.clockChanges(
            of: originalTransactionId, access, after: .earliest, through: instant
        ).map { change -> HistoryEntry in
            let lost = intervals.first { $0.interval.upperBound == change.at }
            let position =
                change.kind == .closed
                ? lost?.nextPosition ?? endings[change.at]
                : (access.last { $0.contains(change.at) } ?? access.last { $0.end == change.at })?.position
            return HistoryEntry(
                kind: change.kind, at: change.at, originalTransactionId: originalTransactionId,
                productId: change.productId, until: change.until, isGain: nil, position: position)
        }
        for owned in intervals {
            if owned.interval.lowerBound > .earliest {
                entries.append(ownership(at: owned.interval.lowerBound, isGain: true, owned.position))
            }
            if owned.interval.upperBound < .latest {
                entries.append(ownership(at: owned.interval.upperBound, isGain: false, owned.nextPosition))
            }
        }
        return entries.filter { $0.at <= instant }
    }

    /// The first event that states each early end of a period, or the refund of a purchase, by the time from which it
    /// counts.
    private static func endings(_ rules: [AppliedRule]) -> [Instant: Int64] {
        var endings: [Instant: Int64] = [:]
        for rule in rules where rule.rule.effect == .cuts || rule.rule.effect == .removes {
            guard let at = rule.at, let position = rule.positions.first else { continue }
            endings[at] = min(endings[at] ?? .max, position)
        }
        return endings
    }

    private func ownership(at instant: Instant, isGain: Bool, _ position: Int64?) -> HistoryEntry {
        HistoryEntry(
            kind: .customerChanged, at: instant, originalTransactionId: originalTransactionId, productId: nil,
            until: nil, isGain: isGain, position: position)
    }
}

extension HistoryEntry {
    /// What an event says about the customer besides its facts.
    package init(_ notice: CustomerNotice) {
        self.init(
            kind: notice.kind.change, at: notice.at,
            originalTransactionId: notice.key.flatMap { $0.kind == .subscription ? $0.id.text : nil }, productId: nil,
            until: nil, isGain: nil, position: notice.position)
    }

    /// The order of a history, newest first. Entries of one instant have an order, too.
    package static func isNewer(_ left: HistoryEntry, _ right: HistoryEntry) -> Bool {
        (left.at, ByteString(left.originalTransactionId ?? ""), left.kind.rawValue)
            > (right.at, ByteString(right.originalTransactionId ?? ""), right.kind.rawValue)
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("at", at)
            writer.member("kind", kind.rawValue)
            writer.member("gained", isGain)
            writer.member("app", joinedApp)
            writer.member("originalTransactionId", originalTransactionId)
            writer.member("productId", productId)
            if let until { writer.member("until", end: until) }
            writer.member("position", position)
        }
    }
}
