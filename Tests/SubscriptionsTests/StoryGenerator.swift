import Encoding
import Subscriptions
import TestSupport

/// A generated life of one subscription: what the App Store would report, and the access that follows from the rules.
struct Story {
    enum StepKind: Hashable {
        case purchase, renewal, recovery, failure, autoRenew, switchOffInGrace, plan, upgrade, restore
        case refund, reversal
    }

    struct Step {
        var kind: StepKind
        var told: Told
        /// The expiry of the latest row when the step happens.
        var expiry: Instant
    }

    private(set) var steps: [Step] = []
    private(set) var rows: [Transaction] = []
    private(set) var graces: [Span] = []

    var told: [Told] { steps.map(\.told) }

    private var generator: SeededGenerator
    private var clock = day("2015-01-01")
    private var renewal = intention(autoRenew: true)
    private var phase = Phase.none
    /// Rows that failed to renew with grace; how their refund affects the grace is not documented.
    private var graceRows: Set<String> = []
    private let length: Int64
    private let allowed: Set<StepKind>

    private enum Phase {
        case none, running, retry, lapsed
    }

    private static let dayLength: Int64 = 86_400_000

    init(_ generator: SeededGenerator, allowing allowed: Set<StepKind> = [.restore, .refund, .reversal, .upgrade]) {
        self.generator = generator
        self.allowed = allowed
        length = [7, 30, 365][Int.random(in: 0..<3, using: &self.generator)] * Self.dayLength
        clock = clock.advanced(byMilliseconds: Int64.random(in: 0...Self.dayLength * 365, using: &self.generator))
        for _ in 0..<Int.random(in: 2...8, using: &self.generator) {
            step()
        }
    }

    // MARK: The rules of access, implemented a second time

    /// Whether the subscription gives access, from all that is known at the end of the story.
    func isEntitled(at instant: Instant) -> Bool {
        rows.contains { covers($0, instant) } || graces.contains { $0.start <= instant && instant < $0.end }
    }

    private func covers(_ row: Transaction, _ instant: Instant) -> Bool {
        guard let start = row.purchaseDate, var end = row.expiresDate else { return false }
        if row.isUpgraded {
            let replacement = rows.compactMap(\.purchaseDate).filter { $0 > start }.min()
            end = min(end, row.revocationDate ?? replacement ?? end)
        } else if row.revocationDate != nil {
            return false
        } else {
            // Another product overtakes it, also if that was refunded since: a refund never adds access.
            let overtaking = rows.filter { $0.productId != row.productId }
            end = min(end, overtaking.compactMap(\.purchaseDate).filter { $0 > start }.min() ?? end)
        }
        return start <= instant && instant < end
    }

    /// Every instant at which access may change, and its neighbours.
    var probes: [Instant] {
        let rowDates = rows.flatMap { [$0.purchaseDate, $0.expiresDate, $0.revocationDate].compactMap { $0 } }
        let dates = rowDates + graces.flatMap { [$0.start, $0.end] } + steps.map(\.told.occurredAt)
        return Set(dates.flatMap { date in [-1, 0, 1].map { date.advanced(byMilliseconds: $0) } }).sorted()
    }

    // MARK: Steps

    private var last: Transaction { rows[rows.count - 1] }
    private var expiry: Instant { rows.compactMap(\.expiresDate).max() ?? clock }

    private mutating func later(before limit: Instant) -> Instant {
        let room = limit.milliseconds - clock.milliseconds
        return room <= 2 ? limit : clock.advanced(byMilliseconds: Int64.random(in: 1..<(room - 1), using: &generator))
    }

    private mutating func tell(
        _ kind: StepKind, at instant: Instant, touching touched: Set<String> = [], alone: String? = nil
    ) {
        clock = max(instant, clock.advanced(byMilliseconds: 1))
        let newest = rows.last?.transactionId
        let isPartial = generator.chance(30)
        let stated = rows.filter {
            !isPartial || touched.contains($0.transactionId) || ($0.transactionId == newest && alone == nil)
        }
        let shuffled = stated.shuffled(using: &generator)
        steps.append(Step(kind: kind, told: Told(clock, shuffled, [renewal]), expiry: expiry))
    }

    private mutating func addRow(_ start: Instant, _ end: Instant) {
        let id = String(1_000_000_000_000_001 + rows.count)
        rows.append(row(id, start, end, product: renewal.autoRenewProductId ?? monthly))
    }

    private mutating func step() {
        let coin = Int.random(in: 0..<100, using: &generator)
        // Events before the expiry arrive on time, so that access computed then and now can be compared.
        let isSoonOver = phase == .running && clock.advanced(byMilliseconds: Self.dayLength) >= last.expiresDate!
        if !rows.isEmpty, coin < 30, phase != .retry, !isSoonOver, changeThePast() { return }
        switch phase {
        case .none, .lapsed: buy()
        case .running where renewal.autoRenewStatus == false: coin < 50 ? setAutoRenew(true) : lapse()
        case .running where coin < 60: renew()
        case .running where coin < 70: setAutoRenew(false)
        case .running where coin < 85: fail()
        case .running where coin < 93 && allowed.contains(.upgrade): upgrade()
        case .running: downgrade()
        case .retry where coin < 70: recover()
        case .retry: giveUp()
        }
    }

    private mutating func changeThePast() -> Bool {
        let indices = rows.indices
        guard let index = indices.randomElement(using: &generator), !rows[index].isUpgraded else { return false }
        let item = rows[index].webOrderLineItemId
        let copies = indices.filter { rows[$0].webOrderLineItemId == item }
        let ids = Set(copies.map { rows[$0].transactionId })
        if rows[index].revocationDate != nil {
            guard allowed.contains(.reversal) else { return false }
            copies.forEach { rows[$0].revocationDate = nil }
            // The notification may be about only one of the copies.
            let id = rows[index].transactionId
            tell(.reversal, at: clock.advanced(byMilliseconds: Self.dayLength / 3), touching: [id], alone: id)
        } else if generator.chance(70) {
            guard allowed.contains(.refund), graceRows.isDisjoint(with: ids) else { return false }
            let instant = clock.advanced(byMilliseconds: Self.dayLength / 5)
            copies.forEach { rows[$0].revocationDate = instant }
            if copies.contains(rows.count - 1) { phase = .lapsed }
            tell(.refund, at: instant, touching: ids)
        } else {
            guard allowed.contains(.restore) else { return false }
            var copy = rows[index]
            copy.transactionId = String(2_000_000_000_000_001 + rows.count)
            rows.insert(copy, at: 0)
            tell(.restore, at: clock.advanced(byMilliseconds: Self.dayLength / 7), touching: [copy.transactionId])
        }
        return true
    }

    private mutating func buy() {
        let isFirst = rows.isEmpty
        let start = clock.advanced(byMilliseconds: Int64.random(in: 1...Self.dayLength * 40, using: &generator))
        renewal = intention(autoRenew: true) { if !isFirst { $0.autoRenewStatusChangeDate = start } }
        addRow(start, start.advanced(byMilliseconds: length))
        phase = .running
        tell(.purchase, at: start)
    }

    private mutating func renew() {
        let end = last.expiresDate!
        let early = Int64.random(in: 0...Self.dayLength, using: &generator)
        addRow(end, end.advanced(byMilliseconds: length))
        tell(.renewal, at: end.advanced(byMilliseconds: generator.chance(30) ? -early : 0))
        clock = max(clock, end)
    }

    private mutating func setAutoRenew(_ on: Bool) {
        let instant = later(before: last.expiresDate!)
        guard instant < last.expiresDate! else { return }
        renewal.autoRenewStatus = on
        renewal.autoRenewStatusChangeDate = instant
        if !on { cutGrace(at: instant) }
        tell(.autoRenew, at: instant)
    }

    /// A switch-off dated inside grace cuts the grace there, even if the subscription has recovered since.
    private mutating func cutGrace(at instant: Instant) {
        for index in graces.indices where graces[index].start <= instant && instant < graces[index].end {
            graces[index].end = instant
        }
    }

    private mutating func lapse() {
        clock = max(clock, last.expiresDate!)
        phase = .lapsed
    }

    private mutating func downgrade() {
        renewal.autoRenewProductId = renewal.autoRenewProductId == monthly ? premium : monthly
        let instant = later(before: last.expiresDate!)
        if instant < last.expiresDate! { tell(.plan, at: instant) }
    }

    private mutating func upgrade() {
        let instant = later(before: last.expiresDate!)
        guard instant > last.purchaseDate!, instant < last.expiresDate! else { return }
        let item = last.webOrderLineItemId
        let carriesDate = generator.chance(50)
        for index in rows.indices where rows[index].webOrderLineItemId == item {
            rows[index].isUpgraded = true
            rows[index].revocationDate = carriesDate ? instant : nil
        }
        let ids = Set(rows.filter(\.isUpgraded).map(\.transactionId))
        renewal.productId = premium
        renewal.autoRenewProductId = premium
        addRow(instant, instant.advanced(byMilliseconds: length))
        tell(.upgrade, at: instant, touching: ids)
    }

    private mutating func fail() {
        let end = last.expiresDate!
        let days = [0, 3, 16, 28].filter { Int64($0) * Self.dayLength < length }.randomElement(using: &generator)!
        renewal.isInBillingRetryPeriod = true
        renewal.expirationIntent = 2
        if days > 0 {
            let grace = Span(end, end.advanced(byMilliseconds: Int64(days) * Self.dayLength))
            renewal.gracePeriodExpiresDate = grace.end
            graces.append(grace)
            graceRows.formUnion(rows.filter { $0.expiresDate == end }.map(\.transactionId))
        }
        phase = .retry
        tell(.failure, at: end)
    }

    private mutating func recover() {
        let end = last.expiresDate!
        let payment = later(before: end.advanced(byMilliseconds: 60 * Self.dayLength))
        let grace = renewal.gracePeriodExpiresDate
        renewal.isInBillingRetryPeriod = nil
        renewal.expirationIntent = nil
        renewal.gracePeriodExpiresDate = nil
        if let grace, payment < grace {
            addRow(generator.chance(50) ? end : payment, end.advanced(byMilliseconds: length))
        } else {
            addRow(payment, payment.advanced(byMilliseconds: length))
        }
        phase = .running
        tell(.recovery, at: payment)
    }

    /// The customer switches renewal off, which ends grace at once, or sixty days pass without a payment.
    private mutating func giveUp() {
        let end = last.expiresDate!
        let byCustomer = generator.chance(50)
        let sixtyDays = end.advanced(byMilliseconds: 60 * Self.dayLength)
        let grace = renewal.gracePeriodExpiresDate
        let instant = byCustomer ? later(before: generator.chance(70) ? grace ?? sixtyDays : sixtyDays) : sixtyDays
        cutGrace(at: instant)
        renewal.autoRenewStatus = false
        renewal.autoRenewStatusChangeDate = instant
        renewal.isInBillingRetryPeriod = false
        renewal.expirationIntent = byCustomer ? 1 : 2
        if generator.chance(50) { renewal.gracePeriodExpiresDate = nil }
        phase = .lapsed
        tell(.switchOffInGrace, at: instant)
    }
}
