import Subscriptions

/// The storyteller's own record of when a line gives access: intervals that are paid for, cut, and taken back as the
/// story goes.
///
/// Kept by the actions themselves and not worked out from what is told about them, so that it is a second opinion on
/// those who do work it out. A start is included, an end is not.
package struct AccessBook: Sendable, Hashable {
    private struct Interval: Sendable, Hashable {
        let transactionId: String
        let product: Product
        let start: Instant
        var end: Instant
        let isGrace: Bool
        var isTakenBack = false
    }

    private var intervals: [Interval] = []
    /// Every instant at which access began, ended, or once was to end.
    package private(set) var boundaries: Set<Instant> = []

    package init() {}

    package func isActive(at instant: Instant) -> Bool {
        intervals.contains { !$0.isTakenBack && $0.start <= instant && instant < $0.end }
    }

    /// The purchase that gives access at the instant, by its own period or by grace after it; the first of several.
    package func holder(at instant: Instant, grace: Bool) -> String? {
        intervals.first {
            !$0.isTakenBack && $0.isGrace == grace && $0.start <= instant && instant < $0.end
        }?.transactionId
    }

    /// What gave access when, in the order of the purchases.
    package var spans: [(product: Product, span: Range<Instant>)] {
        intervals.filter { !$0.isTakenBack && $0.start < $0.end }.map { ($0.product, $0.start..<$0.end) }
    }

    /// A purchase pays for access to a product; without an end it is owned.
    mutating func pay(_ transactionId: String, for product: Product, from start: Instant, to end: Instant?) {
        add(
            Interval(
                transactionId: transactionId, product: product, start: start, end: end ?? .latest, isGrace: false))
    }

    /// The store lets access go on though the renewal after this purchase failed.
    mutating func grantGrace(after transactionId: String, from start: Instant, to end: Instant) {
        guard let failed = intervals.last(where: { $0.transactionId == transactionId }) else {
            preconditionFailure("there is no such purchase")
        }
        add(
            Interval(
                transactionId: transactionId, product: failed.product, start: start, end: end, isGrace: true))
    }

    private mutating func add(_ interval: Interval) {
        intervals.append(interval)
        boundaries.formUnion([interval.start, interval.end])
    }

    /// What the purchase pays for ends at the instant, if it had not before.
    mutating func cut(_ transactionId: String, at instant: Instant) {
        change(transactionId, grace: false) { $0.end = min($0.end, instant) }
        boundaries.insert(instant)
    }

    mutating func cutGrace(after transactionId: String, at instant: Instant) {
        change(transactionId, grace: true) { $0.end = min($0.end, instant) }
        boundaries.insert(instant)
    }

    mutating func extend(_ transactionId: String, to end: Instant) {
        change(transactionId, grace: false) { $0.end = max($0.end, end) }
        boundaries.insert(end)
    }

    /// As if the purchase had never been made.
    mutating func takeBack(_ transactionId: String, at instant: Instant) {
        change(transactionId, grace: false) { $0.isTakenBack = true }
        change(transactionId, grace: true) { $0.isTakenBack = true }
        boundaries.insert(instant)
    }

    /// As if it had never been taken back.
    mutating func giveBack(_ transactionId: String, at instant: Instant) {
        change(transactionId, grace: false) { $0.isTakenBack = false }
        change(transactionId, grace: true) { $0.isTakenBack = false }
        boundaries.insert(instant)
    }

    private mutating func change(_ transactionId: String, grace: Bool, _ change: (inout Interval) -> Void) {
        for index in intervals.indices
        where intervals[index].transactionId == transactionId && intervals[index].isGrace == grace {
            change(&intervals[index])
        }
    }
}
