import Subscriptions

/// What analysts ask about a run, worked out from the store's books: the scripted purchases and the storyteller's own
/// record of access. Nothing that is told goes into it.
///
/// A figure is named by its view, its dates in UTC, what else tells it apart, and its column, with spaces between:
/// `movements 2025-03-01 com.example.app.plus.monthly starts`. Counts are counts, amounts are in thousandths of the
/// currency's unit. What is 0 has no figure.
package struct Figures: Sendable, Hashable {
    package private(set) var values: [String: Int64] = [:]

    /// Balances are drawn up at 00:00 UTC of these days.
    private static let balanceDays: [Instant] = (0..<18).compactMap {
        Instant(year: 2025 + $0 / 12, month: $0 % 12 + 1, day: 1, hour: 0, minute: 0, second: 0)
    }
    /// Anniversaries that every subscription of a run has behind it half a year after the last story.
    private static let anniversariesMax = 6

    package init() {}

    private mutating func add(_ value: Int64 = 1, _ words: String...) {
        guard value != 0 else { return }
        values[words.joined(separator: " "), default: 0] += value
    }

    private static func day(_ instant: Instant) -> String { String(instant.description.prefix(10)) }
    private static func month(_ instant: Instant) -> String { "\(instant.description.prefix(7))-01" }
}

extension Simulation {
    /// The right figures, as if everything were delivered.
    package var figures: Figures {
        var figures = Figures()
        for index in 0..<settings.subscriptions {
            for line in storyteller.story(at: index).lines { figures.add(line) }
        }
        return figures
    }
}

// MARK: - A line

extension Figures {
    package mutating func add(_ line: ToldLine) {
        addRefunds(line)
        guard line.purchases.contains(where: { $0.expiresDate != nil }) else { return }
        addBalances(line)
        guard !line.customer.isFamilyMember else { return }
        addMovements(line)
        addRenewalsAndPlanChanges(line)
        addTrials(line)
        for failure in line.failures {
            let outcome =
                switch failure.recovery {
                case .inGrace: "recovered_in_grace"
                case .later: "recovered_later"
                case nil: "lost"
                }
            add(1, "billing_retries", Self.month(failure.due), failure.product.id, outcome)
        }
    }

    private mutating func addRefunds(_ line: ToldLine) {
        for purchase in line.purchases {
            guard let revocation = purchase.revocation, revocation.kind != .family else { continue }
            let key = "\(Self.month(revocation.date)) \(purchase.product.id) \(line.customer.storefront.currency)"
            add(1, "refunds", key, revocation.kind == .full ? "in_full" : "in_part")
            let amount = Self.quotient(purchase.price * Int64(revocation.percentage ?? 0), 100_000)
            add(amount, "refunds", key, "amount")
        }
    }

    /// Where the line stands on the days of the balances.
    private mutating func addBalances(_ line: ToldLine) {
        for day in Self.balanceDays {
            guard let (purchase, isGrace) = line.holder(at: day) else { continue }
            let isTrial = purchase.offer?.isFree ?? false
            let standing =
                line.customer.isFamilyMember ? "family" : isGrace ? "in_grace" : isTrial ? "in_trial" : "paying"
            add(1, "active_subscribers", Self.day(day), purchase.product.id, standing)
            guard standing == "paying" else { continue }
            let currency = line.customer.storefront.currency
            add(1, "mrr", Self.day(day), currency, "subscriptions")
            add(Self.monthly(purchase), "mrr", Self.day(day), currency, "mrr")
        }
    }

    /// What the purchase comes to a month.
    private static func monthly(_ purchase: Purchase) -> Int64 {
        let isPaidUpFront = purchase.offer?.discountType == "PAY_UP_FRONT"
        guard let length = isPaidUpFront ? purchase.offer?.period : purchase.product.duration else { return 0 }
        if length.months > 0 { return quotient(purchase.price, Int64(length.months)) }
        // A year has 52 weeks.
        return quotient(purchase.price * 52 * 7, 12 * Int64(length.days))
    }

    /// Rounded, halves up.
    private static func quotient(_ dividend: Int64, _ divisor: Int64) -> Int64 {
        (2 * dividend + divisor) / (2 * divisor)
    }

    /// When access begins and ends, and how much of it lies ahead of the beginning.
    private mutating func addMovements(_ line: ToldLine) {
        var started: Instant?
        var wasActive = false
        for boundary in line.access.boundaries.sorted() where line.access.isActive(at: boundary) != wasActive {
            wasActive.toggle()
            let inside = wasActive ? boundary : boundary.advanced(byMilliseconds: -1)
            let product = line.holder(at: inside)?.purchase.product.id ?? ""
            let movement = wasActive ? (started == nil ? "starts" : "reactivations") : "churned"
            add(1, "movements", Self.month(boundary), product, movement)
            started = started ?? boundary
        }
        guard let started else { return }
        for months in 0...Self.anniversariesMax {
            let anniversary = months == 0 ? started : started.advanced(by: fixedDuration("P\(months)M"))
            guard line.access.isActive(at: anniversary) else { continue }
            add(1, "retention", Self.month(started), String(months), "active")
        }
    }

    private mutating func addRenewalsAndPlanChanges(_ line: ToldLine) {
        let standing = line.purchases.filter { $0.revocation?.kind != .full }
        for (index, purchase) in standing.enumerated() {
            let start = purchase.purchaseDate
            guard index > 0, line.access.isActive(at: start.advanced(byMilliseconds: -1)) else { continue }
            let previous = standing[index - 1]
            if purchase.reason == .renewal { add(1, "movements", Self.month(start), purchase.product.id, "renewals") }
            guard previous.product != purchase.product else { continue }
            add(
                1, "plan_changes", Self.month(start), previous.product.id, purchase.product.id,
                previous.upgradedAt == start ? "up" : "down")
        }
    }

    private mutating func addTrials(_ line: ToldLine) {
        for (index, trial) in line.purchases.enumerated() where trial.offer?.isFree ?? false {
            let later = line.purchases[(index + 1)...]
            let isConverted = later.contains { $0.revocation?.kind != .full && !($0.offer?.isFree ?? false) }
            let outcome = isConverted ? "converted" : "lost"
            add(1, "trials", Self.month(trial.purchaseDate), trial.product.id, outcome)
        }
    }
}

extension ToldLine {
    /// The purchase by which the line gives access at the instant: what is paid comes before grace.
    fileprivate func holder(at instant: Instant) -> (purchase: Purchase, isGrace: Bool)? {
        for isGrace in [false, true] {
            if let id = access.holder(at: instant, grace: isGrace),
                let purchase = purchases.first(where: { $0.transactionId == id })
            {
                return (purchase, isGrace)
            }
        }
        return nil
    }
}
