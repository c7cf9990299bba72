import Encoding
import TestSupport

/// A generated life of one subscription: what the App Store would send, one transaction at a time, and the access that
/// follows.
struct V2Story {
    /// The state of a transaction at the end of the story.
    struct Row {
        var id: String
        var product: String
        var start: Instant
        var end: Instant
        var reason = "RENEWAL"
        var replacedAt: Instant?
        var refundedAt: Instant?
        var isProrated = false

        var payload: JSON {
            let row = v2Row(id, start.description, end.description, product: product, reason: reason)
            guard let refundedAt else { return row }
            return row.refunded(refundedAt.description, type: isProrated ? "REFUND_PRORATED" : nil)
        }

        func covers(_ instant: Instant) -> Bool {
            if refundedAt != nil, !isProrated { return false }
            let ends = [end, replacedAt, refundedAt].compactMap { $0 }
            return start <= instant && ends.allSatisfy { instant < $0 }
        }
    }

    private(set) var bodies: [V2Body] = []
    private(set) var rows: [Row] = []
    private(set) var graces: [Span] = []

    private var generator: SeededGenerator
    private var clock: Instant
    private var phase = Phase.none
    private var isOn = true
    private var product = monthly
    private var next = monthly
    private var graceUntil: Instant?
    /// How their refund affects the grace is not documented.
    private var failedWithGrace: Set<String> = []
    /// Old copies of transactions, as signed at the time.
    private var signedOnce: [JSON] = []
    private var length: Int64

    private enum Phase {
        case none, running, retry, lapsed
    }

    private static let dayLength: Int64 = 86_400_000

    init(_ generator: SeededGenerator) {
        self.generator = generator
        length = [7, 30, 365][Int.random(in: 0..<3, using: &self.generator)] * Self.dayLength
        clock = day("2022-01-01").advanced(byMilliseconds: Int64.random(in: 0...length, using: &self.generator))
        for _ in 0..<Int.random(in: 2...12, using: &self.generator) { step() }
    }

    /// The rules of access, implemented a second time.
    func isEntitled(at instant: Instant) -> Bool {
        rows.contains { $0.covers(instant) } || graces.contains { $0.start <= instant && instant < $0.end }
    }

    /// Every instant at which access may change, and its neighbours.
    var probes: [Instant] {
        let ofRows = rows.flatMap { [$0.start, $0.end, $0.replacedAt, $0.refundedAt].compactMap { $0 } }
        let dates = ofRows + graces.flatMap { [$0.start, $0.end] }
        return Set(dates.flatMap { date in [-1, 0, 1].map { date.advanced(byMilliseconds: $0) } }).sorted()
    }

    var types: [String] {
        bodies.map {
            [$0.payload["notificationType"], $0.payload["subtype"]].compactMap { $0?.plain }.joined(separator: "/")
        }
    }

    // MARK: Notifications

    private var last: Row { rows[rows.count - 1] }
    private var renewal: JSON {
        let info = v2Renewal(autoRenew: isOn, next: next, current: product)
        return phase == .retry ? info.failing(graceUntil: graceUntil?.description) : info
    }

    private mutating func tell(_ type: String, _ subtype: String?, at instant: Instant, row: JSON, always: Bool = true)
    {
        clock = max(instant, clock.advanced(byMilliseconds: 1))
        signedOnce.append(row.with(["signedDate": .raw(String(clock.milliseconds))]))
        let renewal: JSON? = always || generator.chance(50) ? renewal : .none
        bodies.append(V2Body(type, subtype, at: clock.description, row, renewal))
    }

    private mutating func later(before limit: Instant) -> Instant {
        let room = limit.milliseconds - clock.milliseconds
        return room <= 2 ? limit : clock.advanced(byMilliseconds: Int64.random(in: 1..<(room - 1), using: &generator))
    }

    private mutating func add(_ start: Instant, _ end: Instant, reason: String) {
        product = next
        rows.append(
            Row(
                id: String(1_000_000_000_000_001 + rows.count), product: product, start: start, end: end, reason: reason
            ))
    }

    private mutating func step() {
        if !rows.isEmpty, generator.chance(30) { return changeThePast() }
        let coin = Int.random(in: 0..<100, using: &generator)
        switch phase {
        case .none, .lapsed: buy()
        case .running where clock >= last.end: isOn ? renewOrFail(coin) : lapse()
        case .running where coin < 15: changeSwitch()
        case .running where coin < 25: upgrade()
        case .running where coin < 35: choose()
        case .running where coin < 42: extend()
        case .running: isOn ? renewOrFail(coin) : lapse()
        case .retry where coin < 60: recover()
        case .retry: giveUp()
        }
    }

    // MARK: Steps

    private mutating func buy() {
        let latest = rows.map(\.end).reduce(clock, max)
        let start = latest.advanced(byMilliseconds: Int64.random(in: 1...Self.dayLength * 90, using: &generator))
        let subtype = rows.isEmpty ? "INITIAL_BUY" : "RESUBSCRIBE"
        isOn = true
        graceUntil = nil
        phase = .running
        add(start, start.advanced(byMilliseconds: length), reason: "PURCHASE")
        tell("SUBSCRIBED", subtype, at: start, row: last.payload)
    }

    private mutating func renewOrFail(_ coin: Int) {
        if coin < 75 { return renew() }
        let days = [0, 3, 16, 28].filter { Int64($0) * Self.dayLength < length }.randomElement(using: &generator)!
        phase = .retry
        graceUntil = nil
        if days > 0 {
            let grace = Span(last.end, last.end.advanced(byMilliseconds: Int64(days) * Self.dayLength))
            graces.append(grace)
            graceUntil = grace.end
            failedWithGrace.insert(last.id)
        }
        tell("DID_FAIL_TO_RENEW", days > 0 ? "GRACE_PERIOD" : nil, at: last.end, row: last.payload)
    }

    private mutating func renew() {
        let end = last.end
        let early = generator.chance(30) ? Int64.random(in: 0...Self.dayLength / 2, using: &generator) : 0
        add(end, end.advanced(byMilliseconds: length), reason: "RENEWAL")
        tell("DID_RENEW", nil, at: end.advanced(byMilliseconds: -early), row: last.payload)
        clock = max(clock, end)
    }

    private mutating func lapse() {
        clock = max(clock, last.end)
        phase = .lapsed
        if generator.chance(50) { tell("EXPIRED", "VOLUNTARY", at: clock, row: last.payload) }
    }

    private mutating func changeSwitch() {
        let instant = later(before: last.end)
        guard instant < last.end else { return }
        isOn.toggle()
        if !isOn { cutGrace(at: instant) }
        tell(
            "DID_CHANGE_RENEWAL_STATUS", isOn ? "AUTO_RENEW_ENABLED" : "AUTO_RENEW_DISABLED", at: instant,
            row: last.payload)
    }

    /// A switch-off inside grace cuts the grace there, even if the subscription has recovered since.
    private mutating func cutGrace(at instant: Instant) {
        for index in graces.indices where graces[index].start <= instant && instant < graces[index].end {
            graces[index].end = instant
        }
    }

    private mutating func choose() {
        let instant = later(before: last.end)
        guard instant < last.end else { return }
        next = next == monthly ? premium : monthly
        tell("DID_CHANGE_RENEWAL_PREF", next == product ? nil : "DOWNGRADE", at: instant, row: last.payload)
    }

    private mutating func upgrade() {
        let instant = later(before: last.end)
        guard instant > last.start, instant < last.end, last.refundedAt == nil else { return }
        next = product == monthly ? premium : monthly
        rows[rows.count - 1].replacedAt = instant
        length = [7, 30, 365][Int.random(in: 0..<3, using: &generator)] * Self.dayLength
        add(instant, instant.advanced(byMilliseconds: length), reason: "PURCHASE")
        isOn = true
        tell("DID_CHANGE_RENEWAL_PREF", "UPGRADE", at: instant, row: last.payload)
    }

    private mutating func extend() {
        let instant = later(before: last.end)
        guard instant < last.end else { return }
        rows[rows.count - 1].end = last.end.advanced(byMilliseconds: Self.dayLength * 10)
        tell("RENEWAL_EXTENDED", nil, at: instant, row: last.payload)
    }

    private mutating func recover() {
        let end = last.end
        if let graceUntil, clock < graceUntil, generator.chance(50) {
            let payment = later(before: graceUntil)
            if payment < graceUntil {
                return paid(generator.chance(50) ? end : payment, end.advanced(byMilliseconds: length), at: payment)
            }
        }
        let border = [graceUntil, clock, end].compactMap { $0 }.reduce(end, max)
        if let graceUntil, generator.chance(50), clock < graceUntil {
            tell("GRACE_PERIOD_EXPIRED", nil, at: graceUntil, row: last.payload)
        }
        let payment = max(border, clock).advanced(byMilliseconds: Self.dayLength / 3)
        paid(payment, payment.advanced(byMilliseconds: length), at: payment)
    }

    private mutating func paid(_ start: Instant, _ end: Instant, at payment: Instant) {
        phase = .running
        graceUntil = nil
        add(start, end, reason: "RENEWAL")
        tell("DID_RENEW", "BILLING_RECOVERY", at: payment, row: last.payload)
    }

    private mutating func giveUp() {
        let sixtyDays = max(clock, last.end.advanced(byMilliseconds: 60 * Self.dayLength))
        let byCustomer = generator.chance(50)
        let instant =
            byCustomer ? max(clock.advanced(byMilliseconds: 1), later(before: graceUntil ?? sixtyDays)) : sixtyDays
        cutGrace(at: instant)
        isOn = false
        if generator.chance(50) { graceUntil = nil }
        if byCustomer { tell("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: instant, row: last.payload) }
        tell("EXPIRED", byCustomer ? "VOLUNTARY" : "BILLING_RETRY", at: instant, row: last.payload)
        phase = .lapsed
        graceUntil = nil
    }

    /// A refund of a transaction, a reversal, or an old copy in a new notification.
    private mutating func changeThePast() {
        clock = clock.advanced(byMilliseconds: Self.dayLength / 7)
        let index = Int.random(in: rows.indices, using: &generator)
        if generator.chance(25), let old = signedOnce.randomElement(using: &generator) {
            clock = clock.advanced(byMilliseconds: 1)
            bodies.append(V2Body("REFUND_DECLINED", at: clock.description, old))
        } else if rows[index].refundedAt != nil {
            rows[index].refundedAt = nil
            rows[index].isProrated = false
            tell("REFUND_REVERSED", nil, at: clock, row: rows[index].payload, always: false)
        } else if !failedWithGrace.contains(rows[index].id), rows[index].replacedAt == nil, rows[index].start < clock {
            rows[index].refundedAt = clock
            rows[index].isProrated = generator.chance(40)
            let isLast = index == rows.count - 1
            tell("REFUND", nil, at: clock, row: rows[index].payload, always: !isLast && generator.chance(50))
            if isLast { phase = .lapsed }
        }
    }
}
