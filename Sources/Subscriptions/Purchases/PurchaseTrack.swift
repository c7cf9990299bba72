import Encoding

/// The periods of one product of a purchase, as the answers about it say in order of time.
struct PurchaseTrack {
    /// A time that is paid for, or free as part of an offer.
    struct Period: Hashable {
        /// The order that paid for it; nil if Google names none.
        var orderId: String?
        var start: Instant
        var end: Instant
        /// The end before the subscription ended early; nil if it did not.
        var endBeforeCut: Instant?
        /// Where the price, the phase and the base plan come from.
        var item: PurchaseSnapshot.Item
        var region: String?
        /// True if it is as long as the gap between what was known before and what the answer shows: it may have been
        /// several periods.
        var coversGap = false
        /// The position of the event that first reported it.
        var position: Int64
        /// The position of the event that reported the early end; nil if it has none.
        var cutPosition: Int64?
        /// The ends that later answers replaced, oldest first.
        var moves: [Move] = []
    }

    /// A later answer about a period that has another end.
    struct Move: Hashable {
        let from: Instant
        let to: Instant
        /// The answer takes back an early end.
        let isRestored: Bool
        let statedAt: Instant
        let position: Int64
    }

    struct Grace: Hashable {
        var start: Instant
        var end: Instant
        /// True if the customer or Google ended renewal during it.
        var isCut = false
        /// The end before it was cut; nil if it was not.
        var endBeforeCut: Instant?
        var position: Int64
        /// The position of the event that reported the early end; nil if it has none.
        var cutPosition: Int64?
    }

    /// What an answer states as a period although it has no length.
    struct WithoutDuration: Hashable {
        let orderId: String?
        let productKey: String
        let start: Instant
        let position: Int64
    }

    let productId: String
    /// Oldest first.
    private(set) var withoutDuration: [WithoutDuration] = []
    private(set) var periods: [Period] = []
    private(set) var graces: [Grace] = []
    /// Since when access is suspended by account hold or a pause, or has ended. The next period begins later.
    private(set) var interruptedSince: Instant?

    init(productId: String) {
        self.productId = productId
    }

    /// The end of the last period, without grace.
    var paidEnd: Instant? { periods.last?.end }

    /// What an answer says about the product, and what else is known of the purchase.
    struct Report {
        let snapshot: PurchaseSnapshot
        let item: PurchaseSnapshot.Item
        let statedAt: Instant
        let position: Int64
        /// The orders of the purchase, by id.
        let orders: [String: PurchaseOrder]
        /// When the purchase came out of account hold or a pause, ascending.
        let recoveries: [Instant]
        /// Where the first period starts.
        let firstStart: Instant

        func order(_ orderId: String?) -> PurchaseOrder.Item? {
            orderId.flatMap { orders[$0] }?.items.first { $0.productId == item.productId }
        }
    }

    mutating func add(_ report: Report) {
        switch report.snapshot.state {
        case .active, .canceled, nil: addPaid(report)
        case .inGracePeriod: addGrace(report)
        case .onHold: suspend(report, from: report.item.expiryTime)
        // The expiry of a paused subscription is documented nowhere.
        case .paused: suspend(report, from: nil)
        case .expired: end(report)
        case .pending, .pendingPurchaseCanceled, .purchased, .cancelled: break
        }
    }

    // MARK: States

    private mutating func addPaid(_ report: Report) {
        guard let expiry = report.item.expiryTime else { return }
        guard let index = index(of: report.item.orderId) else {
            let isOlder =
                PurchaseOrder.number(of: report.item.orderId) < PurchaseOrder.number(of: periods.last?.orderId)
            append(report, end: expiry)
            if !isOlder { limit(to: expiry, report) }
            return
        }
        // An older order is one of an answer that was late.
        guard index == periods.count - 1 else { return }
        let cutPosition = periods[index].cutPosition
        // The same order with another expiry: the developer moved the date.
        periods[index].move(to: max(expiry, periods[index].start), report)
        // What ended the last period ended the earlier ones that reached further.
        for earlier in periods.indices.dropLast()
        where cutPosition != nil && periods[earlier].cutPosition == cutPosition {
            guard let end = periods[earlier].endBeforeCut else { continue }
            periods[earlier].move(to: end, report)
        }
        limit(to: expiry, report)
        // One that is over is an answer that was late: it says nothing about a suspension since then.
        if expiry > report.statedAt { interruptedSince = nil }
        complete(index, report)
    }

    private mutating func addGrace(_ report: Report) {
        guard let end = report.item.expiryTime else { return }
        if index(of: report.item.orderId) == nil || periods.isEmpty {
            // The payment that failed is the next one. When it was due follows from the order, or from the answer.
            append(report, end: min(report.order(report.item.orderId)?.periodEnd ?? report.statedAt, end))
        }
        limit(to: end, report)
        guard let start = paidEnd, start < end else { return }
        setGrace(from: start, to: end, report.position)
    }

    /// - Parameter end: When access ended; nil if the answer does not say it. It ended before the answer in any case.
    private mutating func suspend(_ report: Report, from end: Instant?) {
        let boundary = min(end ?? report.statedAt, report.statedAt)
        if let end, index(of: report.item.orderId) == nil || periods.isEmpty {
            append(report, end: min(report.order(report.item.orderId)?.periodEnd ?? end, boundary))
        }
        for index in periods.indices.dropLast() where boundary < periods[index].end {
            periods[index].end = max(boundary, periods[index].start)
        }
        if let last = periods.indices.last {
            if boundary < periods[last].end {
                periods[last].end = max(boundary, periods[last].start)
                graces.removeAll { $0.start >= periods[last].end }
            } else if end != nil, interruptedSince == nil {
                // Grace that no answer showed, or that ended now.
                setGrace(from: periods[last].end, to: boundary, report.position)
            } else {
                for index in graces.indices where graces[index].end > boundary { graces[index].end = boundary }
            }
        }
        interruptedSince = interruptedSince ?? max(accessEnd ?? boundary, periods.last?.start ?? boundary)
    }

    private mutating func end(_ report: Report) {
        guard let stated = report.item.expiryTime, stated <= report.statedAt else {
            // It contradicts the state: access ends with the answer at the latest.
            if let stated = report.item.expiryTime, index(of: report.item.orderId) == nil {
                append(report, end: min(stated, report.statedAt))
            }
            close(at: report.statedAt, report.position)
            interruptedSince = interruptedSince ?? min(accessEnd ?? report.statedAt, report.statedAt)
            return
        }
        if index(of: report.item.orderId) == nil || periods.isEmpty {
            let known = periods.count
            append(report, end: stated)
            if periods.count > known { periods[known].coversGap = true }
            limit(to: stated, report)
        } else if let last = periods.indices.last {
            if !limit(to: stated, report), interruptedSince == nil, let grace = graces.indices.last,
                stated < graces[grace].end
            {
                graces[grace].cut(to: max(stated, graces[grace].start), report.position)
                graces[grace].isCut = true
            }
            // A later expiry is the end of account hold, which was not paid for.
            complete(last, report)
        }
        interruptedSince = interruptedSince ?? accessEnd
    }

    /// Ends every period at the end that an answer states for the whole purchase: also those before the newest one, which
    /// reach further if the newest one was charged early.
    ///
    /// - Returns: Whether a period was cut.
    @discardableResult
    private mutating func limit(to end: Instant, _ report: Report) -> Bool {
        var isCut = false
        for index in periods.indices where periods[index].end > end {
            periods[index].cut(to: end, report.position)
            isCut = true
        }
        if isCut { graces.removeAll { $0.start >= end } }
        return isCut
    }

    /// Ends access at the time of an answer that says that the purchase has ended, but not when.
    mutating func close(at instant: Instant, _ position: Int64) {
        for index in periods.indices where periods[index].end > instant {
            guard periods[index].start < instant else {
                periods[index].cut(to: instant, position)
                continue
            }
            periods[index].moves.append(
                Move(
                    from: periods[index].end, to: instant, isRestored: false, statedAt: instant, position: position))
            periods[index].end = instant
        }
        graces.removeAll { $0.start >= instant }
        for index in graces.indices where graces[index].end > instant { graces[index].cut(to: instant, position) }
    }

    // MARK: Periods

    private var accessEnd: Instant? {
        [periods.last?.end, graces.last?.end].compactMap(\.self).max()
    }

    /// The period of an order. An answer without an order is about the last period.
    private func index(of orderId: String?) -> Int? {
        guard let orderId else { return periods.indices.last }
        return periods.lastIndex { $0.orderId == orderId }
    }

    private mutating func append(_ report: Report, end: Instant) {
        let (start, coversGap) = start(of: report, end: end)
        guard start < end else {
            // Later answers say the same.
            if withoutDuration.last?.orderId != report.item.orderId || withoutDuration.isEmpty {
                withoutDuration.append(
                    WithoutDuration(
                        orderId: report.item.orderId, productKey: report.item.productKey, start: start,
                        position: report.position))
            }
            return
        }
        periods.append(
            Period(
                orderId: report.item.orderId, start: start, end: end, item: report.item, region: report.snapshot.region,
                coversGap: coversGap, position: report.position))
        interruptedSince = nil
    }

    /// Where a new period starts.
    ///
    /// The first one starts with the purchase. A renewal, also one that was paid during grace, starts where the last paid
    /// period ended. After account hold or a pause a new cycle starts: when the order says so, or the notification, or
    /// when an answer first shows it.
    private func start(of report: Report, end: Instant) -> (start: Instant, coversGap: Bool) {
        let stated = report.order(report.item.orderId)?.periodStart
        guard let last = periods.last else {
            if let interruptedSince {
                let start = stated ?? report.recoveries.last { $0 <= report.statedAt } ?? report.statedAt
                return (start < end ? start : interruptedSince, false)
            }
            let number = PurchaseOrder.number(of: report.item.orderId)
            guard number > 0 else { return (report.firstStart, false) }
            if let stated, stated < end { return (max(stated, report.firstStart), false) }
            return (report.firstStart, true)
        }
        let earliest = last.end
        let isMissing =
            PurchaseOrder.number(of: report.item.orderId) > PurchaseOrder.number(of: last.orderId) + 1
        let recovery = report.recoveries.last { earliest < $0 && $0 <= report.statedAt && $0 < end }
        if let interruptedSince {
            let start = stated ?? recovery ?? report.statedAt
            return (max(start < end ? start : interruptedSince, earliest), isMissing)
        }
        // An order is dated when it is processed, a moment after the end that it renews.
        let isLater = stated.map { earliest.advanced(byMilliseconds: Self.processingMilliseconds) < $0 } ?? false
        if let stated, isLater, stated < end { return (stated, isMissing) }
        if let recovery, !graces.contains(where: { $0.start <= recovery && recovery < $0.end }) {
            return (recovery, isMissing)
        }
        return (earliest, isMissing)
    }

    /// Fills in what earlier answers about the same period left out.
    private mutating func complete(_ index: Int, _ report: Report) {
        guard periods[index].orderId == report.item.orderId || report.item.orderId == nil else { return }
        periods[index].item.basePlanId = periods[index].item.basePlanId ?? report.item.basePlanId
        periods[index].item.phase = periods[index].item.phase ?? report.item.phase
    }

    private mutating func setGrace(from start: Instant, to end: Instant, _ position: Int64) {
        guard start < end else { return }
        if let last = graces.indices.last, graces[last].start == start {
            graces[last].end = end
            graces[last].isCut = false
            graces[last].endBeforeCut = nil
            graces[last].cutPosition = nil
        } else {
            graces.append(Grace(start: start, end: end, position: position))
        }
    }

    // MARK: Orders and ends

    /// Adds the periods of orders that no answer about the purchase named, because they were renewed again before.
    mutating func addMissing(
        _ orders: [(order: PurchaseOrder, item: PurchaseOrder.Item, position: Int64)]
    ) {
        for (order, item, position) in orders where order.isPaid && index(of: order.orderId) == nil {
            guard let start = item.periodStart, let stated = item.periodEnd, !periods.isEmpty else { continue }
            // Until the next known period. One of those covers the gap, if it was known before this one.
            let next = periods.firstIndex { $0.start > start || ($0.coversGap && $0.start <= start && start < $0.end) }
            let isInGap = next.map { periods[$0].coversGap } ?? false
            let end = next.map { isInGap ? min(stated, periods[$0].end) : min(stated, periods[$0].start) } ?? stated
            guard start < end, !periods.contains(where: { !$0.coversGap && $0.start <= start && start < $0.end }) else {
                continue
            }
            var sold = periods[next ?? periods.count - 1].item
            sold.orderId = order.orderId
            sold.basePlanId = item.basePlanId ?? sold.basePlanId
            sold.offerId = item.offerId
            sold.phase = item.phase
            if let next, isInGap { periods[next].start = max(periods[next].start, end) }
            periods.insert(
                Period(
                    orderId: order.orderId, start: start, end: end, item: sold, region: periods.first?.region,
                    position: position), at: next ?? periods.count)
        }
        periods.removeAll { $0.start >= $0.end }
    }

    /// Ends everything at an instant.
    ///
    /// - Parameters:
    ///   - isReplacement: Another purchase continues the subscription then. The answers end the replaced purchase some
    ///     tenths of a second earlier, which is no lapse.
    ///   - position: Of the event that says so.
    mutating func end(at instant: Instant, isReplacement: Bool, position: Int64) {
        for index in periods.indices {
            var period = periods[index]
            if isReplacement, period.end < instant,
                period.end.advanced(byMilliseconds: Self.replacementGapMilliseconds) >= instant,
                period.endBeforeCut != nil || period.coversGap
            {
                period.endBeforeCut = period.endBeforeCut ?? instant
                period.end = min(instant, period.endBeforeCut ?? instant)
                period.cutPosition = min(period.cutPosition ?? position, position)
            } else if period.end > instant {
                period.endBeforeCut = period.endBeforeCut ?? period.end
                period.end = instant
                period.cutPosition = position
            }
            periods[index] = period
        }
        for index in graces.indices {
            let gap = graces[index].end.advanced(byMilliseconds: Self.replacementGapMilliseconds)
            if graces[index].end > instant || (isReplacement && graces[index].isCut && gap >= instant) {
                graces[index].cut(to: instant, position)
            }
        }
        periods.removeAll { $0.start >= $0.end }
        graces.removeAll { $0.start >= $0.end }
    }

    /// Shorter than any account hold or pause, also of test purchases.
    private static let processingMilliseconds: Int64 = 60_000

    /// The answers show a tenth of a second.
    private static let replacementGapMilliseconds: Int64 = 2000
}

extension PurchaseTrack.Grace {
    /// - Parameter position: Of the event that says so.
    fileprivate mutating func cut(to instant: Instant, _ position: Int64) {
        endBeforeCut = endBeforeCut ?? end
        end = instant
        cutPosition = min(cutPosition ?? position, position)
    }
}

extension PurchaseTrack.Period {
    /// Ends early. A period that has not begun by then is left without any time.
    fileprivate mutating func cut(to instant: Instant, _ position: Int64) {
        endBeforeCut = endBeforeCut ?? end
        end = instant
        cutPosition = position
    }

    /// Ends at the instant that a later answer about the same order states, which also takes back an early end.
    fileprivate mutating func move(to instant: Instant, _ report: PurchaseTrack.Report) {
        if end != instant || endBeforeCut != nil {
            moves.append(
                PurchaseTrack.Move(
                    from: end, to: instant, isRestored: endBeforeCut != nil, statedAt: report.statedAt,
                    position: report.position))
        }
        end = instant
        endBeforeCut = nil
        cutPosition = nil
    }
}

extension PurchaseOrder {
    /// The id of the first order of an order's purchase.
    package static func base(of orderId: String) -> String {
        guard number(of: orderId) > 0, let dots = orderId.firstRange(of: "..") else { return orderId }
        return String(orderId[..<dots.lowerBound])
    }

    /// The number of the renewal in an order id such as `GPA.3345-1234-5678-90123..2`, from 1; 0 for the first order.
    static func number(of orderId: String?) -> Int {
        guard let orderId,
            let dots = orderId.utf8.indices.dropLast().last(where: {
                orderId.utf8[$0] == UInt8(ascii: ".")
                    && orderId.utf8[orderId.utf8.index(after: $0)] == UInt8(ascii: ".")
            })
        else { return 0 }
        let digits = orderId[orderId.utf8.index(dots, offsetBy: 2)...]
        return (Int(digits) ?? -1) + 1
    }
}
