import Encoding

/// Something that happened to a subscription while a customer owned it, in words.
package struct ChronicleEntry: Sendable, Hashable {
    package let at: Instant
    package var what: String
    package var productId: String?
    /// What the customer paid then, negative if it was paid back; nil if nothing was, or if it is not known.
    package var amount: AppliedRule.Amount?
    /// The end of the purchase that it is about, as far as it gives access.
    package var until: Instant?
    /// The first event that reported it; nil if none did, or if it is not known.
    package var position: Int64?
    /// Whether it is the end of a period, which needs no event. The event of ``position`` only says why none follows.
    package var isByClock = false
    /// Of a change of owner, the other customer, whose name continues ``what``; nil for other entries, and if none is
    /// known.
    package var other: CustomerKey?

    package init(
        at instant: Instant, what: String, productId: String? = nil, amount: AppliedRule.Amount? = nil,
        until: Instant? = nil, position: Int64? = nil, isByClock: Bool = false
    ) {
        at = instant
        self.what = what
        self.productId = productId
        self.amount = amount
        self.until = until
        self.position = position
        self.isByClock = isByClock
    }
}

/// What happened to a subscription: purchases, ends of access, refunds, the renewal switch and changes of owner.
struct Chronicle {
    private let subscription: Subscription
    private let transactions: [String: Transaction]
    private let intervals: [OwnedInterval]
    /// Those of the fold of the subscription.
    private let rules: [AppliedRule]
    private let instant: Instant

    /// - Parameters:
    ///   - intervals: Those in which the customer owns the subscription.
    ///   - instant: Only entries up to and including this instant are returned.
    init(
        of subscription: Subscription, ownedDuring intervals: [OwnedInterval], _ rules: [AppliedRule],
        through instant: Instant
    ) {
        self.subscription = subscription
        transactions = Dictionary(
            subscription.transactions.map { ($0.transaction.transactionId, $0.transaction) }
        ) { first, _ in first }
        self.intervals = intervals
        self.rules = rules
        self.instant = instant
    }

    /// In no particular order.
    var entries: [ChronicleEntry] {
        // What is stated at the end of an interval is the next owner's, such as the purchase that began it.
        let own = (purchases + ends + corrections + renewalSwitches + priceIncreases + suspensions).filter { entry in
            intervals.contains { $0.interval.contains(entry.at) }
        }
        return (own.map(withoutOthersMoney) + ownership).filter { $0.at <= instant }
    }

    /// Who has a seat pays nothing.
    private func withoutOthersMoney(_ entry: ChronicleEntry) -> ChronicleEntry {
        guard intervals.contains(where: { $0.isSeat && $0.interval.contains(entry.at) }) else { return entry }
        var entry = entry
        entry.amount = nil
        return entry
    }

    // MARK: - Purchases

    private var purchases: [ChronicleEntry] {
        let refunded = subscription.refunded.map { (period: $0, isRefunded: true) }
        let all = (refunded + subscription.access.map { (period: $0, isRefunded: false) })
            .sorted { ($0.period.start, $0.period.end) < ($1.period.start, $1.period.end) }
        var entries: [ChronicleEntry] = []
        var paid: Set<String> = []
        var previous: Previous?
        var previousOfProduct: [String: Previous] = [:]
        for (period, isRefunded) in all {
            let own = period.productId.flatMap { previousOfProduct[$0] }
            // Beside another product of the subscription, a period continues that of its own product.
            let isBeside = all.contains { other in
                other.period.productId != period.productId && other.period.cause != .grace
                    && other.period.start <= period.start && other.period.end > period.start
                    && other.period.transactionId != period.transactionId
            }
            let continued = own.map { $0.end >= period.start ? $0 : nil } ?? nil
            let before = continued ?? previous
            // A payment is one, however many periods it is for.
            let isPayment = !isCopy(period, of: before) && paid.insert(period.transactionId).inserted
            entries.append(
                ChronicleEntry(
                    at: period.start,
                    what: words(of: period, after: before, isBeside: isBeside)
                        + (isRefunded ? ", refunded later" : ""),
                    productId: period.productId, amount: isPayment ? price(of: period) : nil, until: period.end,
                    position: period.position))
            func next(after last: Previous?) -> Previous {
                Previous(
                    start: period.start, end: max(last?.end ?? .earliest, period.end), productId: period.productId,
                    isGrace: period.cause == .grace)
            }
            previous = next(after: previous)
            if let product = period.productId { previousOfProduct[product] = next(after: own) }
        }
        return entries
    }

    /// What the customer paid for a period; nil for grace, which nobody pays for, and for what another one pays.
    private func price(of period: AccessPeriod) -> AppliedRule.Amount? {
        guard period.cause != .grace, let transaction = transactions[period.transactionId],
            !transaction.isPaidByAnother, let price = transaction.price
        else { return nil }
        return AppliedRule.Amount(thousandths: price, currency: transaction.currency)
    }

    /// Whether a period is that of the same purchase under another id.
    private func isCopy(_ period: AccessPeriod, of previous: Previous?) -> Bool {
        guard let previous else { return false }
        return !previous.isGrace && previous.start == period.start && previous.productId == period.productId
    }

    /// The period before another one; its end is the latest so far.
    private struct Previous {
        let start: Instant
        let end: Instant
        let productId: String?
        let isGrace: Bool
    }

    private func words(of period: AccessPeriod, after previous: Previous?, isBeside: Bool) -> String {
        if isCopy(period, of: previous) { return "restored: the same purchase under another id" }
        let transaction = transactions[period.transactionId]
        switch transaction.map({ ReportingPeriod.payerState(period.cause, $0) }) {
        case .grace: return "the renewal failed: grace began"
        case .family: return "shared by a family member"
        case .assigned: return "assigned by an organization or a group"
        case .granted: return "given by hand"
        case .trial: return "free trial began"
        case .paying, nil: break
        }
        guard let previous else { return "bought" }
        let isRenewal = transaction?.transactionReason == "RENEWAL"
        guard previous.end >= period.start else { return isRenewal ? "renewed, after a gap" : "bought again" }
        guard previous.productId != period.productId else {
            return previous.isGrace ? "recovered: the failed renewal was paid" : "renewed"
        }
        if isBeside { return "also bought" }
        return "changed" + (previous.productId.map { " from \($0)" } ?? " to another product")
    }

    // MARK: - Ends

    /// The end of each unbroken access, with its reason.
    private var ends: [ChronicleEntry] {
        let access = subscription.owned(during: intervals.map(\.interval)).access
        let all = access.gaps.map(\.lowerBound) + [access.map(\.end).max()].compactMap(\.self)
        return all.compactMap { end -> ChronicleEntry? in
            // Another owner has it from then on.
            guard end < .latest, !intervals.contains(where: { $0.interval.upperBound == end }),
                let period = access.last(where: { $0.end == end }), !isContinued(at: end)
            else { return nil }
            return self.end(of: period)
        }
    }

    /// Whether the customer had access at the end of a purchase by another one that was refunded only later.
    private func isContinued(at end: Instant) -> Bool {
        subscription.refunded.contains { period in
            guard period.start <= end, end < period.end else { return false }
            let row = subscription.transactions.first { $0.transaction.transactionId == period.transactionId }
            return row?.settled.revocationDate ?? .latest > end
        }
    }

    /// How a grant was taken back, with the event that says so; nil if it was not, and for other purchases.
    private func takenBack(_ transactionId: String?) -> (what: String, position: Int64?)? {
        guard let row = subscription.transactions.first(where: { $0.transaction.transactionId == transactionId }),
            let revocation = GrantStatement.revocation(of: row.transaction)
        else { return nil }
        return (revocation.takenBackWords(), row.positions.max())
    }

    private func end(of period: AccessPeriod) -> ChronicleEntry {
        if let (what, position) = takenBack(period.transactionId) {
            return ChronicleEntry(at: period.end, what: what, productId: period.productId, position: position)
        }
        let cut = rules.first { $0.rule.effect == .cuts && $0.at == period.end }
        var entry = ChronicleEntry(
            at: period.end, what: "access ended", productId: period.productId, isByClock: cut == nil)
        var words: String?
        if let cut {
            words = Self.words(of: cut.rule)
            entry.position = cut.positions.first
        } else if let (lapse, positions) = reason(endOf: period) {
            words = lapse.words
            // Of several, the one that states the reason, and not the first failure.
            entry.position = positions.last(where: isReason) ?? positions.first
        }
        if let words { entry.what += ": \(words)" }
        return entry
    }

    /// Whether an event states why the subscription ended.
    private func isReason(_ position: Int64) -> Bool {
        subscription.renewals.contains { $0.position == position && $0.renewal.expirationIntent != nil }
    }

    private func reason(endOf period: AccessPeriod) -> (lapse: Lapse, positions: [Int64])? {
        if let reason = subscription.reasonOfEnd(of: period) { return reason }
        return period.end <= instant ? subscription.lapse(after: period, at: instant) : nil
    }

    /// What ended a purchase before its time; nil for other rules.
    private static func words(of rule: ExplanationRule) -> String? {
        switch rule {
        case .refundedWhole: "refunded"
        case .refundedPart: "the rest was refunded"
        case .familyRevoked: "Family Sharing was revoked"
        case .assignmentRevoked: "the seat was taken back"
        case .unknownRevocation: "revoked in a way that this version does not know"
        case .revoked: "the store ended the purchase before its time"
        case .graceCutSwitchOff: "renewal was switched off during grace"
        case .endedByStatus: "the store said that access was over, before the end that it stated itself"
        case .replacedByUpgrade: "replaced by another purchase"
        default: nil
        }
    }

    // MARK: - Corrections

    private var corrections: [ChronicleEntry] {
        let corrected = rules.compactMap { rule in
            rule.takenBack.map {
                ChronicleEntry(
                    at: $0.at, what: "\(Self.words(of: $0.rule) ?? "ended early"), taken back later",
                    productId: rule.productId, position: $0.position)
            }
        }
        return corrected
            + rules.compactMap { (rule) -> ChronicleEntry? in
                guard let at = rule.at else { return nil }
                let what: String
                var until: Instant?
                var amount: AppliedRule.Amount?
                switch rule.rule {
                case .refundedWhole, .refundedWithCopy:
                    what = "refunded: counts as never bought"
                    // The copy of a refunded purchase was not paid for.
                    if rule.rule == .refundedWhole { amount = refund(of: rule) }
                case .accountDeleted: what = "the store account was deleted: counts as never bought"
                case .unitsRefunded: what = Self.words(of: rule.units)
                case .amountRefunded:
                    amount = rule.amount?.negative ?? refund(of: rule)
                    what =
                        "\(rule.amount.map { "\($0.words) of the price" } ?? "the price") refunded, and the purchase kept"
                case .movedTo:
                    what = "transaction \(rule.transactionId ?? "") moved to subscription \(rule.key?.id.text ?? "")"
                case .extended: (what, until) = ("end moved to a later date", rule.period?.upperBound)
                case .laterStatementWins where takenBack(rule.transactionId) != nil:
                    // The end of its period says so, unless it was taken back before it began.
                    guard let revoked = takenBack(rule.transactionId),
                        !subscription.access.contains(where: { $0.transactionId == rule.transactionId })
                    else { return nil }
                    what = revoked.what
                case .laterStatementWins:
                    let expiry = rule.transactionId.flatMap { transactions[$0]?.expiresDate }
                    let isShorter = rule.period?.lowerBound == expiry
                    let ended = rule.takenBack.flatMap { Self.words(of: $0.rule) } ?? "refund"
                    what = isShorter ? "end moved to an earlier date" : "\(ended): taken back, counts again"
                    until = isShorter ? rule.period?.lowerBound : rule.period?.upperBound
                default: return nil
                }
                return ChronicleEntry(
                    at: at, what: what, productId: rule.productId, amount: amount, until: until,
                    position: rule.positions.first)
            }
    }

    /// The price of the purchase that a rule takes back, as what was paid back.
    private func refund(of rule: AppliedRule) -> AppliedRule.Amount? {
        guard let transaction = rule.transactionId.flatMap({ transactions[$0] }), !transaction.isPaidByAnother,
            let price = transaction.price
        else { return nil }
        return AppliedRule.Amount(thousandths: price, currency: transaction.currency).negative
    }

    private static func words(of units: AppliedRule.Units?) -> String {
        guard let units, units.bought > 1 else { return "refunded, and kept by the customer" }
        if units.left == 0 { return "refunded: no units are left" }
        return "refunded in part: \(units.left) of \(units.bought) units are left"
    }

    // MARK: - Renewal

    private var renewalSwitches: [ChronicleEntry] {
        var isOn = true
        var entries: [ChronicleEntry] = []
        for statement in subscription.renewals {
            guard let now = statement.isRenewing, now != isOn else { continue }
            isOn = now
            entries.append(
                ChronicleEntry(
                    at: statement.renewal.autoRenewStatusChangeDate ?? statement.statedAt,
                    what: Self.isByStore(statement.renewal)
                        ? "renewal reported as off, because the subscription has ended"
                        : "renewal switched \(now ? "on" : "off")"
                            + (statement.endsWithCommitment ? ", with effect from the end of the commitment" : ""),
                    productId: statement.renewal.productId, position: statement.position))
        }
        return entries
    }

    /// Of a subscription that has ended, the store reports renewal as off, whatever the customer chose.
    private static func isByStore(_ renewal: RenewalInfo) -> Bool {
        renewal.autoRenewStatus == false && renewal.expirationIntent ?? 1 != 1
    }

    private var priceIncreases: [ChronicleEntry] {
        var status: Int?
        var entries: [ChronicleEntry] = []
        for statement in subscription.renewals where !statement.renewal.isStatusAlone {
            defer { status = statement.renewal.priceIncreaseStatus }
            guard let now = statement.renewal.priceIncreaseStatus, now != status else { continue }
            entries.append(
                ChronicleEntry(
                    at: statement.statedAt,
                    what: now == 0
                        ? "price increase: the customer has not agreed yet" : "price increase: the customer agreed",
                    productId: statement.renewal.autoRenewProductId ?? statement.renewal.productId,
                    position: statement.position))
        }
        return entries
    }

    /// Google's account holds and pauses.
    private var suspensions: [ChronicleEntry] {
        subscription.purchases.flatMap(\.suspensions).compactMap { suspension in
            let what: String
            switch suspension.status {
            case .hold: what = "on hold: the store retries the failed renewal, without access"
            case .paused: what = "paused by the customer"
            default: return nil
            }
            return ChronicleEntry(
                at: suspension.start, what: what, until: suspension.end < .latest ? suspension.end : nil)
        }
    }

    // MARK: - Ownership

    private var ownership: [ChronicleEntry] {
        intervals.flatMap { owned in
            let gained = owned.previousOwner == nil ? "subscription gained" : "subscription gained from"
            let lost = owned.nextOwner == nil ? "subscription lost to another customer" : "subscription lost to"
            var (first, last) = (
                ChronicleEntry(
                    at: owned.interval.lowerBound, what: owned.isSeat ? "seat of the subscription gained" : gained,
                    position: owned.position),
                ChronicleEntry(
                    at: owned.interval.upperBound, what: owned.isSeat ? "seat of the subscription ended" : lost,
                    position: owned.nextPosition)
            )
            (first.other, last.other) = (owned.previousOwner, owned.nextOwner)
            return [first, last].filter { $0.at > .earliest && $0.at < .latest }
        }
    }
}
