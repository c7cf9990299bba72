import Encoding
import EventLog
import Readers
import Subscriptions

extension Timeline {
    private static let lanes = ["access", "purchases", "renewal", "events"]
    private static let top = 26.0
    static var height: Double { top + lane * Double(lanes.count) + 14 }

    private func y(_ lane: Int) -> Double { Self.top + Self.lane * Double(lane) }

    /// - Parameters:
    ///   - frame: For the addresses of events.
    ///   - page: The page to which a period and a joined mark lead, with its filters.
    ///   - number: Distinguishes the pictures of a page.
    func write(in frame: PageFrame, page: Address, number: Int, to html: inout HTMLWriter) {
        let title = "timeline-\(number)"
        let attributes: [Attribute] = [
            .text(.viewBox, "0 0 \(Int(Self.width)) \(Int(Self.height))"), .text(.role, "group"),
            .text(.labelledby, title), .text(.xmlns, "http://www.w3.org/2000/svg"),
        ]
        html.element("div", [.class("draw")]) { html in
            html.element("svg", attributes) { html in
                html.element("title", [.text(.id, title)], text: "Timeline of \(subscription.originalTransactionId)")
                html.element("desc", text: "The tables below hold the same periods, purchases and events.")
                // The pictures of a page share them: an id is unique.
                if number == 0 { Self.writePatterns(to: &html) }
                writeAxis(to: &html)
                for (index, lane) in Self.lanes.enumerated() {
                    html.element(
                        "text", [.number(.x, 6), .number(.y, y(index) + 18), .class("small")], text: lane)
                }
                writeAccess(page, to: &html)
                writePurchases(frame, page, to: &html)
                writeRenewal(to: &html)
                writeEvents(frame, page, to: &html)
                writeClocks(frame.now, to: &html)
            }
        }
    }

    static func writePatterns(to html: inout HTMLWriter) {
        html.element("defs") { html in
            for (id, path, size, kind) in [
                ("dots", "M0 0L6 6M-1 5L1 7M5 -1L7 1", "6", "pattern"), ("bars", "M3 0V6", "6", "pattern"),
                ("later", "M0 8L8 0M-2 2L2 -2M6 10L10 6", "8", "later-line"),
            ] {
                let attributes: [Attribute] = [
                    .text(.id, id), .text(.width, size), .text(.height, size), .text(.patternUnits, "userSpaceOnUse"),
                ]
                html.element("pattern", attributes) { html in
                    html.element("path", [.text(.d, path), .class(kind)]) { _ in }
                }
            }
        }
    }

    private func writeAxis(to html: inout HTMLWriter) {
        for tick in ticks {
            html.element(
                "path",
                [
                    .text(.d, "M\(Self.text(x(tick))) \(Self.text(Self.top))V\(Self.text(Self.height - 12))"),
                    .class("axis"),
                ]
            ) { _ in }
            html.element(
                "text", [.number(.x, x(tick)), .number(.y, 16), .text(.anchor, "middle"), .class("small")],
                text: label(of: tick))
        }
    }

    /// Five to nine instants at whole minutes, hours, days or months.
    private var ticks: [Instant] {
        let length = span.lowerBound.duration(to: span.upperBound).milliseconds
        let steps: [Int64] = [
            60_000, 300_000, 900_000, 3_600_000, 4 * 3_600_000, 12 * 3_600_000, 86_400_000, 3 * 86_400_000,
            7 * 86_400_000, 14 * 86_400_000, 30 * 86_400_000, 61 * 86_400_000, 122 * 86_400_000, 365 * 86_400_000,
        ]
        let step = steps.first { length / $0 <= 8 } ?? length / 6
        var ticks: [Instant] = []
        var next = (span.lowerBound.milliseconds / step + 1) * step
        while next < span.upperBound.milliseconds, ticks.count < 10 {
            if let tick = Instant(milliseconds: next), x(tick) < Self.width - 40 { ticks.append(tick) }
            next += step
        }
        return ticks
    }

    private func label(of tick: Instant) -> String {
        let length = span.lowerBound.duration(to: span.upperBound).milliseconds
        if length > 3 * 86_400_000 { return tick.dayText }
        return String(tick.shortText.dropFirst(5).prefix(11))
    }

    // MARK: - Lanes

    /// A period, as it was known.
    private struct Bar {
        let period: AccessPeriod
        let kind: String
        /// What was learned later about it; empty if nothing was.
        var note = ""

        var isRemoved: Bool { kind == "removed" }
    }

    /// What was taken back later had not been taken back then.
    private var bars: [Bar] {
        let refunded = subscription.refunded.map { Bar(period: $0, kind: "removed") }
        let access = zip(subscription.access, Self.kinds(of: subscription.access, in: subscription)).map {
            Bar(period: $0, kind: $1)
        }
        guard let then = known?.subscription else { return refunded + access }
        func id(_ period: AccessPeriod) -> String { "\(period.cause.rawValue) \(period.transactionId)" }
        let today = Set(subscription.access.map(id))
        let refundedIDs = Set(subscription.refunded.map(\.transactionId))
        let kept = then.access.filter { !today.contains(id($0)) }
        let keptIDs = Set(kept.map(\.transactionId))
        return refunded.filter { !keptIDs.contains($0.period.transactionId) } + access
            + zip(kept, Self.kinds(of: kept, in: then)).map { period, kind -> Bar in
                let change = refundedIDs.contains(period.transactionId) ? "refunded" : "taken back"
                return Bar(period: period, kind: kind, note: ", \(change)\(Self.learnedLater)")
            }
    }

    /// What ended before the picture begins is not at its edge.
    private var shownBars: [Bar] {
        bars.filter {
            $0.period.end > span.lowerBound && $0.period.start < span.upperBound && isOwned($0.period.start)
        }
    }

    /// The kinds of periods in the picture.
    var barKinds: Set<String> { Set(shownBars.map(\.kind)) }

    private func writeAccess(_ page: Address, to html: inout HTMLWriter) {
        for group in joined(shownBars, { max($0.period.start, span.lowerBound) }) {
            guard let first = group.first, let last = group.last else { continue }
            let (start, end) = (x(first.period.start), x(group.map(\.period.end).max() ?? last.period.end))
            let width = max(end - start, 2)
            let place = [
                Attribute.number(.x, start), .number(.y, y(0) + 4), .number(.width, width), .number(.height, 20),
            ]
            let kind = first.kind
            let later = known.flatMap { self.later(first, than: $0) }
            let learned = later.map {
                $0.lowerBound > first.period.start ? ", its end learned later" : Self.learnedLater
            }
            let name =
                group.count == 1
                ? Self.words(first.period, kind) + first.note + (learned ?? "") : "\(group.count) periods"
            let address =
                group.count == 1
                ? page.with("at", first.period.start.description)
                : page.with("from", first.period.start.description).with("to", last.period.end.description)
            html.element("a", [.href(address), .text(.label, name)]) { html in
                html.element("title", text: name)
                html.element("rect", place + [.class("bar \(kind)")]) { _ in }
                if let pattern = Self.pattern(of: kind) {
                    html.element("rect", place + [.text(.fill, "url(#\(pattern))")]) { _ in }
                }
                let label = group.count == 1 ? Self.label(kind) : "×\(group.count)"
                let labelWidth = Double(label.count) * 7 + 6
                if first.isRemoved {
                    // On both sides of the label, not through it.
                    let part = width > labelWidth ? (width - labelWidth) / 2 : width
                    let rest = width > labelWidth ? "m\(Self.text(labelWidth)) 0h\(Self.text(part))" : ""
                    html.element(
                        "path",
                        [
                            .text(.d, "M\(Self.text(start)) \(Self.text(y(0) + 14))h\(Self.text(part))\(rest)"),
                            .class("strike"),
                        ]
                    ) { _ in }
                }
                if let later {
                    // Of an end that is earlier than the known one, the last piece is hatched.
                    let from = min(x(later.lowerBound), max(start, end - Self.laterMin))
                    html.element(
                        "rect",
                        [
                            .number(.x, from), .number(.y, y(0) + 4), .number(.width, max(end - from, 2)),
                            .number(.height, 20), .class("later"),
                        ]
                    ) { _ in }
                }
                if width > labelWidth {
                    html.element(
                        "text",
                        [
                            .number(.x, start + width / 2), .number(.y, y(0) + 18), .text(.anchor, "middle"),
                            .class("label on-\(kind)"),
                        ], text: label)
                }
            }
        }
    }

    /// The part of a period that was not known then; empty at its end if a later end was known, nil if it was known.
    private func later(_ bar: Bar, than known: Known) -> Range<Instant>? {
        let period = bar.period
        let periods = bar.isRemoved ? known.subscription?.refunded : known.subscription?.access
        let then = periods?.first { $0.transactionId == period.transactionId && $0.cause == period.cause }
        guard let then else { return period.start..<period.end }
        return then.end == period.end ? nil : min(then.end, period.end)..<period.end
    }

    /// Fewest units of width that are hatched.
    private static let laterMin = 6.0

    /// The kinds of some periods of a subscription, in their order.
    private static func kinds(of periods: [AccessPeriod], in subscription: Subscription) -> [String] {
        let rows = Dictionary(
            subscription.transactions.enumerated().map { ($1.transaction.transactionId, $0) }
        ) { first, _ in first }
        return periods.map { period in
            kind(of: period, rows[period.transactionId].map { subscription.transactions[$0].transaction })
        }
    }

    private static func kind(of period: AccessPeriod, _ transaction: Transaction?) -> String {
        if transaction?.isGranted == true { return "given" }
        switch period.cause {
        case .grace: return "grace"
        case .owned: return "owned"
        case .paid:
            return transaction?.isPaidByAnother == true ? "family" : transaction?.isFreeTrial == true ? "trial" : "paid"
        }
    }

    static func pattern(of kind: String) -> String? {
        switch kind {
        case "trial": "dots"
        case "grace": "bars"
        default: nil
        }
    }

    private static func label(_ kind: String) -> String { kind == "removed" ? "refunded" : kind }

    /// Said of marks that are hatched.
    private static let learnedLater = ", learned later"

    static func words(_ period: AccessPeriod, _ kind: String) -> String {
        let word = label(kind).capitalizedFirst
        let cut = period.cut.map { " (ended early: \($0.rawValue.replacing("_", with: " ")))" } ?? ""
        return "\(word) \(period.start.longText) to \(period.end.longText)\(cut), event \(period.position)"
    }

    private func writePurchases(_ frame: PageFrame, _ page: Address, to html: inout HTMLWriter) {
        // Above all purchases, of which the next one may be near.
        var refunds: [(at: Instant, isNew: Bool)] = []
        let dated = subscription.transactions.filter { $0.transaction.purchaseDate.map { isOwned($0) } ?? false }
        for group in joined(dated, { $0.transaction.purchaseDate ?? .earliest }) {
            guard let first = group.first, let date = first.transaction.purchaseDate else { continue }
            let isNew = group.count == 1 && isLearnedLater(first)
            let isRefundNew = first.settled.isRefunded && isRefundLearnedLater(first)
            let name =
                group.count == 1
                ? purchaseWords(first, date) + (isNew || isRefundNew ? Self.learnedLater : "")
                : "\(group.count) purchases from \(date.longText)"
            let last = group.last?.transaction.purchaseDate ?? date
            let address =
                group.count == 1
                ? frame.subscription(subscription.originalTransactionId).at("transactions-caption")
                : page.with("from", date.description).with("to", last.description)
            html.element("a", [.href(address), .text(.label, name)]) { html in
                html.element("title", text: name)
                let kind = first.settled.isRefunded && (isNew || !isRefundNew) ? "purchase refund" : "purchase"
                let place: [Attribute] = [.number(.cx, x(date)), .number(.cy, y(1) + 14), .number(.r, 7), .class(kind)]
                html.element("circle", place) { _ in }
                if isNew { html.element("circle", place.dropLast() + [.class("later")]) { _ in } }
                if group.count > 1 {
                    html.element(
                        "text", [.number(.x, x(date) + 9), .number(.y, y(1) + 18), .class("small")],
                        text: "×\(group.count)")
                } else if first.settled.isRefunded, let refunded = first.settled.revocationDate, contains(refunded),
                    isOwned(refunded)
                {
                    refunds.append((refunded, isRefundNew))
                }
            }
        }
        for (refund, isNew) in refunds {
            if isNew {
                html.element(
                    "rect",
                    [
                        .number(.x, x(refund) - 7), .number(.y, y(1) + 7), .number(.width, 14), .number(.height, 14),
                        .class("later"),
                    ]
                ) { _ in }
            }
            let path = "M\(Self.text(x(refund) - 5)) \(Self.text(y(1) + 9))l10 10m0 -10l-10 10"
            html.element("path", [.text(.d, path), .class("strike")]) { _ in }
        }
    }

    private func purchaseWords(_ row: Subscription.ResolvedTransaction, _ date: Instant) -> String {
        let refund = row.settled.isRefunded ? ", refunded" : ""
        if row.transaction.isGranted { return "Given \(date.longText)" }
        if row.transaction.isAssigned { return "Assigned \(date.longText)" }
        if row.transaction.isFamilyShared { return "Shared \(date.longText)\(refund)" }
        if subscription.isCopy(row) { return "Restored \(date.longText)\(refund)" }
        return "Bought \(date.longText)\(row.transaction.priceText.map { ", \($0)" } ?? "")\(refund)"
    }

    /// Whether the purchase was not known then, or only that its refund does not count.
    private func isLearnedLater(_ row: Subscription.ResolvedTransaction) -> Bool {
        guard let known else { return false }
        return then(row, known).map { $0.settled.isRefunded && !row.settled.isRefunded } ?? true
    }

    /// Whether its refund was not known then.
    private func isRefundLearnedLater(_ row: Subscription.ResolvedTransaction) -> Bool {
        guard let known else { return false }
        return then(row, known)?.settled.isRefunded != true
    }

    private func then(
        _ row: Subscription.ResolvedTransaction, _ known: Known
    ) -> Subscription.ResolvedTransaction? {
        known.subscription?.transactions.first { $0.transaction.transactionId == row.transaction.transactionId }
    }

    /// The renewal preference between its statements, in three kinds of line.
    private func writeRenewal(to html: inout HTMLWriter) {
        let first = subscription.transactions.compactMap(\.transaction.purchaseDate).min() ?? span.lowerBound
        let bought = max(first, owned?.map(\.lowerBound).min() ?? first)
        let shownUntil = min(at, owned?.map(\.upperBound).max() ?? at)
        let times =
            [bought] + subscription.renewals.map(\.statedAt).filter { contains($0) && $0 > bought && isOwned($0) }
        var segments: [(start: Instant, kind: String)] = []
        // Of several in one pixel, the last: each costs a look at all statements, of which there may be thousands.
        var byPixel: [Int: Instant] = [:]
        for time in times { byPixel[Int(x(time)), default: time] = max(byPixel[Int(x(time))] ?? time, time) }
        for time in byPixel.values.sorted() {
            let renewal = subscription.renewal(at: time)
            let kind =
                renewal.isInBillingRetryPeriod == true
                ? "in-retry" : subscription.isRenewing(at: time).map { $0 ? "on" : "off" } ?? "unknown"
            if segments.last?.kind != kind { segments.append((time, kind)) }
        }
        for (index, segment) in segments.enumerated() where segment.kind != "unknown" {
            let end =
                index + 1 < segments.count
                ? segments[index + 1].start : min(max(shownUntil, segment.start), span.upperBound)
            let (from, to) = (x(segment.start), x(end))
            let path = "M\(Self.text(from)) \(Self.text(y(2) + 14))H\(Self.text(max(to, from + 2)))"
            html.element("path", [.text(.d, path), .class(segment.kind)]) { _ in }
            let word = segment.kind == "in-retry" ? "retry" : segment.kind
            if to - from > Self.wordWidth {
                html.element(
                    "text", [.number(.x, from + 3), .number(.y, y(2) + 9), .class("small")], text: word)
            } else if index == segments.count - 1, to < Self.width - Self.wordWidth - Self.right {
                // What is in force is named in any case: beside a line that is too short for it.
                html.element(
                    "text", [.number(.x, max(to, from + 2) + 4), .number(.y, y(2) + 18), .class("small")], text: word)
            }
        }
    }

    /// The width of the name of a renewal's state.
    private static let wordWidth = 30.0

    private func writeEvents(_ frame: PageFrame, _ page: Address, to html: inout HTMLWriter) {
        // Many are the sign of an import or an outage: their lines would hide each other.
        let hasElbows = events.count { $0.lateText != nil } <= Self.elbowsMax
        for group in joined(events, { $0.occurredAt ?? $0.receivedAt }) {
            guard let first = group.first, let last = group.last else { continue }
            let time = first.occurredAt ?? first.receivedAt
            let late = first.lateText.map { ", \($0)" } ?? ""
            let name =
                group.count == 1
                ? "Event \(first.position), \(first.words), \(time.longText)\(late)"
                : "\(group.count) events, \(first.position) to \(last.position)"
            let isNew = known.map { first.receivedAt > $0.at } ?? false
            let lastTime = last.occurredAt ?? last.receivedAt
            let address =
                group.count == 1
                ? frame.event(first.position)
                : page.with("from", time.description).with("to", lastTime.description)
            let words = name + (isNew ? Self.learnedLater : "")
            html.element("a", [.href(address), .text(.label, words)]) { html in
                html.element("title", text: words)
                if hasElbows, group.count == 1, first.lateText != nil, contains(first.receivedAt) {
                    let path =
                        "M\(Self.text(x(time))) \(Self.text(y(3) + 14))v9H\(Self.text(x(first.receivedAt)))v-9"
                    html.element("path", [.text(.d, path), .class("elbow")]) { _ in }
                }
                let place: [Attribute] = [
                    .number(.x, x(time) - 4), .number(.y, y(3) + 6), .number(.width, 8), .number(.height, 16),
                ]
                html.element("rect", place + [.class("event")]) { _ in }
                if isNew { html.element("rect", place + [.class("later")]) { _ in } }
                if group.count > 1 {
                    html.element(
                        "text", [.number(.x, x(time) + 6), .number(.y, y(3) + 18), .class("small")],
                        text: "×\(group.count)")
                }
            }
        }
    }

    private func writeClocks(_ now: Instant, to html: inout HTMLWriter) {
        var clocks: [(Instant, String, String)] = []
        if contains(now) { clocks.append((now, "now", "now")) }
        if abs(at.milliseconds - now.milliseconds) > 60_000, contains(at) { clocks.append((at, "at", "at")) }
        if let known, contains(known.at) { clocks.append((known.at, "now", "known")) }
        var labels: [(x: Double, text: String)] = []
        for (time, kind, word) in clocks.sorted(by: { $0.0 < $1.0 }) {
            if let last = labels.last, x(time) - last.x < Self.clockWidth {
                labels[labels.count - 1].text = "\(last.text), \(word)"
            } else {
                labels.append((x(time), word))
            }
            let path = "M\(Self.text(x(time))) \(Self.text(Self.top - 2))V\(Self.text(Self.height - 12))"
            html.element("path", [.text(.d, path), .class(kind)]) { _ in }
        }
        for label in labels {
            html.element(
                "text",
                [.number(.x, label.x), .number(.y, Self.height - 2), .text(.anchor, "middle"), .class("small")],
                text: label.text)
        }
    }

    /// Labels of clocks that are nearer to each other become one.
    private static let clockWidth = 50.0

    static func text(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10).\(abs(tenths) % 10)"
    }
}

extension String {
    var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}

extension Transaction {
    /// `2.99 EUR`; nil without a price.
    var priceText: String? {
        guard let price else { return nil }
        return "\(price.amount(in: currency)) \(currency ?? "")"
    }
}

extension StoredEvent {
    /// `late 66 min`; nil if it was received within a minute.
    var lateText: String? {
        guard let occurredAt, receivedAt.milliseconds - occurredAt.milliseconds > 60_000 else { return nil }
        let minutes = (receivedAt.milliseconds - occurredAt.milliseconds) / 60_000
        if minutes < 120 { return "late \(minutes) min" }
        return minutes < 2880 ? "late \(minutes / 60) h" : "late \(minutes / 1440) days"
    }
}
