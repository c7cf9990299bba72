import Encoding

/// The simulator's own record of when one subscription gives access: half-open intervals, start included, end excluded.
///
/// The actions of a story write it directly. It is not derived from the notifications, so it can check code that is.
package struct AccessBook: Sendable, Hashable {
    fileprivate struct Interval: Sendable, Hashable {
        let transactionId: String
        let product: Product
        let start: Instant
        var end: Instant
        let isGrace: Bool
        /// When a refund removed the access of the whole interval.
        var takenBackAt: Instant?
        /// The end that the purchase had at first.
        var firstEnd: Instant
        /// Why it ends before its end; nil if it does not.
        var cut: AccessReason.Kind?
        /// Whether a refund was reversed.
        var wasGivenBack = false

        init(transactionId: String, product: Product, start: Instant, end: Instant, isGrace: Bool) {
            self.transactionId = transactionId
            self.product = product
            self.start = start
            self.end = end
            self.isGrace = isGrace
            firstEnd = end
        }

        var isTakenBack: Bool { takenBackAt != nil }
        /// The end as it seemed at the time: access until then, which a refund removed only later.
        var heldEnd: Instant { min(end, takenBackAt ?? end) }
    }

    private var intervals: [Interval] = []
    /// Every instant at which access began or ended, or was once due to end.
    package private(set) var boundaries: Set<Instant> = []

    package init() {}

    /// The access by several subscriptions together.
    package init(of books: [AccessBook]) {
        intervals = books.flatMap(\.intervals)
        boundaries = books.reduce(into: []) { $0.formUnion($1.boundaries) }
    }

    package func isActive(at instant: Instant) -> Bool {
        intervals.contains { !$0.isTakenBack && $0.start <= instant && instant < $0.end }
    }

    /// Whether a refund took the access of the instant back.
    package func isTakenBack(at instant: Instant) -> Bool {
        intervals.contains { $0.isTakenBack && $0.start <= instant && instant < $0.end }
    }

    /// The transaction id of the first purchase that gives access at the instant.
    ///
    /// - Parameter grace: Looks at grace periods instead of paid periods.
    package func holder(at instant: Instant, grace: Bool) -> String? {
        intervals.first {
            !$0.isTakenBack && $0.isGrace == grace && $0.start <= instant && instant < $0.end
        }?.transactionId
    }

    /// Whether the customer had access at the time, even if a later refund removed it.
    package func isHeld(at instant: Instant) -> Bool {
        intervals.contains { $0.start <= instant && instant < $0.heldEnd }
    }

    /// Like ``holder(at:grace:)``, for ``isHeld(at:)``.
    package func holderAtTheTime(_ instant: Instant, grace: Bool) -> String? {
        intervals.first { $0.isGrace == grace && $0.start <= instant && instant < $0.heldEnd }?.transactionId
    }

    /// The products and the intervals in which they give access, in the order of the purchases.
    package var spans: [(product: Product, span: Range<Instant>)] {
        intervals.filter { !$0.isTakenBack && $0.start < $0.end }.map { ($0.product, $0.start..<$0.end) }
    }

    /// The end of the uninterrupted access at an instant: ``Instant/latest`` if it has no end, nil if there is none.
    package func unbrokenEnd(at instant: Instant) -> Instant? {
        guard isActive(at: instant) else { return nil }
        var end = instant
        for span in spans.map(\.span).sorted(by: { $0.lowerBound < $1.lowerBound }) where span.lowerBound <= end {
            end = max(end, span.upperBound)
        }
        return end
    }

    /// The product in force at an instant: a paid one counts before grace, then the one that began last. Nil if there is
    /// none, or if several began at once.
    package func product(at instant: Instant) -> Product? {
        let current = intervals.filter { !$0.isTakenBack && $0.start <= instant && instant < $0.end }
        let paid = current.filter { !$0.isGrace }
        let counted = paid.isEmpty ? current : paid
        guard let start = counted.map(\.start).max() else { return nil }
        let products = Set(counted.filter { $0.start == start }.map(\.product))
        return products.count == 1 ? products.first : nil
    }

    /// The products of all purchases, also of refunded ones.
    package var products: Set<Product> { Set(intervals.map(\.product)) }

    /// Adds the period of a purchase. Without an end the product is owned forever.
    mutating func pay(_ transactionId: String, for product: Product, from start: Instant, to end: Instant?) {
        add(
            Interval(
                transactionId: transactionId, product: product, start: start, end: end ?? .latest, isGrace: false))
    }

    /// Adds a grace period after the purchase whose renewal failed.
    mutating func grantGrace(after transactionId: String, from start: Instant, to end: Instant) {
        guard let failed = intervals.last(where: { $0.transactionId == transactionId }) else {
            preconditionFailure("unknown purchase")
        }
        add(
            Interval(
                transactionId: transactionId, product: failed.product, start: start, end: end, isGrace: true))
    }

    private mutating func add(_ interval: Interval) {
        intervals.append(interval)
        boundaries.formUnion([interval.start, interval.end])
    }

    /// Ends the period of the purchase at the instant; has no effect if it ended earlier.
    mutating func cut(_ transactionId: String, at instant: Instant, _ reason: AccessReason.Kind) {
        change(transactionId, grace: false) { $0.cut(at: instant, reason) }
        boundaries.insert(instant)
    }

    mutating func cutGrace(
        after transactionId: String, at instant: Instant, _ reason: AccessReason.Kind = .switchedOffInGrace
    ) {
        change(transactionId, grace: true) { $0.cut(at: instant, reason) }
        boundaries.insert(instant)
    }

    /// Ends grace at a payment, which makes up for the rest of it.
    mutating func payGrace(after transactionId: String, at instant: Instant) {
        change(transactionId, grace: true) {
            $0.end = min($0.end, instant)
            $0.firstEnd = $0.end
        }
        boundaries.insert(instant)
    }

    mutating func extend(_ transactionId: String, to end: Instant) {
        change(transactionId, grace: false) { $0.end = max($0.end, end) }
        boundaries.insert(end)
    }

    /// Removes all access of the purchase, including its grace period.
    mutating func takeBack(_ transactionId: String, at instant: Instant) {
        change(transactionId, grace: false) { $0.takenBackAt = instant }
        change(transactionId, grace: true) { $0.takenBackAt = instant }
        boundaries.insert(instant)
    }

    /// Restores the access that ``takeBack(_:at:)`` removed.
    mutating func giveBack(_ transactionId: String, at instant: Instant) {
        change(transactionId, grace: false) { $0.giveBack() }
        change(transactionId, grace: true) { $0.giveBack() }
        boundaries.insert(instant)
    }

    /// Moves all access of some purchases to the books of another subscription. Both keep the boundaries.
    mutating func move(_ transactionIds: Set<String>, to other: inout AccessBook) {
        other.intervals += intervals.filter { transactionIds.contains($0.transactionId) }
        intervals.removeAll { transactionIds.contains($0.transactionId) }
        other.boundaries.formUnion(boundaries)
    }

    private mutating func change(_ transactionId: String, grace: Bool, _ change: (inout Interval) -> Void) {
        for index in intervals.indices
        where intervals[index].transactionId == transactionId && intervals[index].isGrace == grace {
            change(&intervals[index])
        }
    }
}

extension AccessBook.Interval {
    fileprivate mutating func cut(at instant: Instant, _ reason: AccessReason.Kind) {
        guard instant < end else { return }
        end = instant
        cut = reason
    }

    fileprivate mutating func giveBack() {
        takenBackAt = nil
        wasGivenBack = true
    }
}

// MARK: - Reasons

extension AccessBook {
    /// Why an entitlement is active at an instant or not, as known in these books.
    package func reason(for entitlement: String, at instant: Instant) -> AccessReason? {
        let granting = intervals.filter { $0.product.entitlements.contains(entitlement) && $0.start < $0.lastEnd }
        func reason(_ kind: AccessReason.Kind, _ interval: Interval) -> AccessReason {
            AccessReason(
                kind: kind, transactionId: interval.transactionId, productId: interval.product.id,
                wasGivenBack: interval.wasGivenBack)
        }
        // Of several at once, a paid one counts before grace, and the latest before earlier ones.
        func latest(_ isWanted: (Interval) -> Bool) -> Interval? {
            granting.filter(isWanted).max { left, right in
                (left.start, left.lastEnd, left.isGrace ? 0 : 1) < (right.start, right.lastEnd, right.isGrace ? 0 : 1)
            }
        }
        let isCurrent: (Interval) -> Bool = { !$0.isTakenBack && $0.start <= instant && instant < $0.end }
        if let current = latest({ isCurrent($0) && !$0.isGrace }) {
            if current.product.kind == .nonConsumable { return reason(.owned, current) }
            return reason(instant < current.firstEnd ? .paid : .extended, current)
        }
        if let grace = latest(isCurrent) { return reason(.grace, grace) }
        let covering = latest { ($0.isTakenBack || $0.cut != nil) && $0.start <= instant && instant < $0.lastEnd }
        guard let last = covering ?? latest({ $0.start <= instant }) else {
            return granting.min { $0.start < $1.start }.map { reason(.over, $0) }
        }
        if last.isTakenBack { return reason(last.isGrace ? .graceTakenBack : .refunded, last) }
        return reason(last.cut ?? .over, last)
    }
}

extension AccessBook.Interval {
    /// The end that it would have without a cut.
    fileprivate var lastEnd: Instant { max(firstEnd, end) }
}
