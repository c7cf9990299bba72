import Encoding

/// The expected figures of the analyst views, computed from the books of both stores and the simulator's own record of
/// access. They are independent of the notifications and answers.
///
/// The name of a figure is its view, its dates in UTC, its other keys and its column, separated by spaces:
/// `movements 2025-03-01 com.example.app.plus.monthly new`. Amounts are in thousandths of the currency's unit.
/// Figures of 0 are omitted.
package struct Figures: Sendable, Hashable {
    /// All figures but those of ``proceeds``.
    private var sums: [String: Int64] = [:]
    /// By the keys of the view `proceeds`, separated by spaces.
    var proceeds: [String: Proceeds] = [:]

    package var values: [String: Int64] {
        proceeds.reduce(into: sums) { values, row in
            for (column, value) in row.value.columns where value != 0 {
                values["proceeds \(row.key) \(column)"] = value
            }
        }
    }

    /// What happens later is not known yet.
    let asOf: Instant
    /// Balances are computed at 00:00 UTC on these days, the first ones of months.
    let balanceDays: [Instant]
    /// The monthly anniversaries that every subscription of a run has passed half a year after the last story.
    private static let anniversariesMax = 6

    /// - Parameters:
    ///   - window: The window of the stories.
    ///   - asOf: The instant of the figures.
    package init(_ window: StoryWindow = .standard, asOf: Instant = .latest) {
        self.asOf = asOf
        let first = window.start.calendarDate
        let last = window.goesOn ? asOf : window.end
        balanceDays = (0...19).compactMap { month in
            let months = first.month - 1 + month
            return Instant(
                year: first.year + months / 12, month: months % 12 + 1, day: 1, hour: 0, minute: 0, second: 0)
        }.filter { $0 <= last }
    }

    mutating func add(_ value: Int64 = 1, _ words: String...) {
        let name = words.joined(separator: " ")
        let sum = (sums[name] ?? 0) + value
        sums[name] = sum == 0 ? nil : sum
    }

    /// Euros for one unit of each currency, on every day: made up, so that no amount needs rounding.
    package static let euroRates: [(currency: String, euros: Int64)] = [
        ("USD", 2), ("GBP", 4), ("JPY", 5), ("BRL", 10),
    ]

    static func euros(_ currency: String) -> Int64 {
        euroRates.first { $0.currency == currency }?.euros ?? 1
    }

    static func day(_ instant: Instant) -> String { String(instant.description.prefix(10)) }
    static func month(_ instant: Instant) -> String { "\(instant.description.prefix(7))-01" }
}

extension Simulation {
    /// The expected figures after all notifications and link statements are delivered.
    package var figures: Figures { figures(asOf: settings.window.goesOn ? settings.window.end : .latest) }

    /// The figures at an instant after all of that. Of stories that are all over, they do not depend on it.
    package func figures(asOf instant: Instant) -> Figures {
        var figures = Figures(settings.window, asOf: instant)
        for index in 0..<settings.subscriptions {
            let rendered = storyteller.story(at: index)
            let counted = rendered.subscriptions.map { CountedSubscription($0, asOf: instant) }
            for subscription in counted { figures.add(subscription) }
            for customer in rendered.customers {
                figures.addCustomer(customer.subscriptions.map { counted[$0] }, owned: customer.owns)
            }
        }
        return figures
    }
}

// MARK: - Figures of one subscription

extension Figures {
    package mutating func add(_ subscription: SimulatedSubscription) {
        add(CountedSubscription(subscription, asOf: asOf))
    }

    package mutating func add(_ life: PlayLife) { add(CountedSubscription(life, asOf: asOf)) }

    package mutating func add(_ life: PlayOneTimeLife) { add(CountedSubscription(life)) }

    mutating func add(_ subscription: CountedSubscription) {
        addRefunds(subscription)
        addRefundRequests(subscription)
        if !subscription.isOfMember {
            addPurchases(subscription)
            addRevenue(subscription)
            addProceeds(subscription)
        }
        guard subscription.purchases.contains(where: \.isOfRenewing) else { return }
        addBalances(subscription)
        guard !subscription.isOfMember else { return }
        addMovements(subscription)
        addRenewalsAndPlanChanges(subscription)
        addTrials(subscription)
        addOffers(subscription)
        addPrices(subscription)
        addRenewalRuns(subscription)
        addOutlook(subscription)
        for failure in subscription.failures {
            let outcome =
                switch failure.recovery {
                case .inGrace: "recovered_in_grace"
                case .later: "recovered_later"
                case nil: "lost"
                }
            add(1, "billing_retries", Self.month(failure.due), failure.product.id, outcome)
        }
    }

    /// Adds what was paid back, each time of several.
    private mutating func addRefunds(_ subscription: CountedSubscription) {
        for purchase in subscription.purchases {
            for refund in purchase.paidBack {
                let key = "\(Self.month(refund.at)) \(purchase.product.id) \(subscription.storefront.currency)"
                add(1, "refunds", key, refund.isWhole ? "in_full" : "in_part")
                add(refund.amount, "refunds", key, "amount")
            }
        }
    }

    /// Adds the purchases about which the store asked, with what became of them.
    private mutating func addRefundRequests(_ subscription: CountedSubscription) {
        for request in subscription.refundRequests {
            let key = "\(Self.month(request.at)) \(request.productId ?? "")"
            add(1, "refund_requests", key, "requests")
            add(1, "refund_requests", key, request.isGranted ? "granted" : "declined")
        }
    }

    /// Adds the paid purchases, and those of them that stand refunded, by the month of the purchase.
    private mutating func addPurchases(_ subscription: CountedSubscription) {
        for purchase in subscription.purchases where purchase.isPayment {
            let key =
                "\(Self.month(purchase.purchaseDate)) \(purchase.product.id) \(subscription.storefront.currency)"
            add(1, "refund_rate", key, "purchases")
            add(purchase.paid, "refund_rate", key, "amount")
            guard !purchase.paidBack.isEmpty else { continue }
            add(1, "refund_rate", key, "refunded")
            add(purchase.refunded, "refund_rate", key, "refunded_amount")
        }
    }

    /// Adds the state of the subscription on the days of the balances.
    private mutating func addBalances(_ subscription: CountedSubscription) {
        for day in balanceDays {
            guard let (purchase, isGrace) = subscription.holder(at: day) else { continue }
            let payerState =
                subscription.isOfMember
                ? "family" : isGrace ? "in_grace" : purchase.isTrial ? "in_trial" : "paying"
            add(1, "active_subscriptions", Self.day(day), purchase.product.id, payerState)
            if payerState == "paying" || payerState == "in_grace" {
                add(1, "churn_rate", Self.day(day), purchase.product.id, "subscriptions")
            }
            addMonthlyValue(of: purchase, payerState, subscription, on: day)
        }
    }

    private mutating func addMonthlyValue(
        of purchase: Purchase, _ payerState: String, _ subscription: CountedSubscription, on day: Instant
    ) {
        // Money ignores what was refunded in full.
        guard subscription.access.isActive(at: day) else { return }
        let currency = subscription.storefront.currency
        let value = subscription.monthlyValue(at: day)
        if payerState == "in_grace" { add(value, "mrr_in_grace", Self.day(day), currency) }
        guard payerState == "paying" else { return }
        add(1, "mrr", Self.day(day), currency, "subscriptions")
        add(value, "mrr", Self.day(day), currency, "mrr")
        add(value * Self.euros(currency), "mrr_in", Self.day(day), "mrr")
        let mix = "\(Self.day(day)) \(purchase.product.id) \(subscription.storefront.country)"
        add(1, "plan_mix", mix, currency, "subscriptions")
        add(value, "plan_mix", mix, currency, "mrr")
    }

    /// The monthly price of the period of a purchase.
    static func monthly(_ purchase: Purchase, paid: Int64) -> Int64 {
        let covered: CalendarDuration? =
            if let offer = purchase.offer, offer.discountType == "PAY_UP_FRONT" {
                offer.period
            } else if purchase.billingPlan == .monthly {
                Period.monthly.duration
            } else {
                purchase.product.duration
            }
        guard let length = covered else { return 0 }
        if length.months > 0 { return quotient(paid, Int64(length.months)) }
        // A year has 52 weeks.
        return quotient(paid * 52 * 7, 12 * Int64(length.days))
    }

    /// The quotient, rounded to the nearest integer, halves up.
    static func quotient(_ dividend: Int64, _ divisor: Int64) -> Int64 {
        (2 * dividend + divisor) / (2 * divisor)
    }

    /// Adds the starts and ends of access, and the anniversaries of the first start on which access is active.
    private mutating func addMovements(_ subscription: CountedSubscription) {
        var started: Instant?
        var ended: Instant?
        for boundary in subscription.access.boundaries.filter({ $0 <= asOf }).sorted() {
            let isActive = subscription.access.isHeld(at: boundary)
            let before = boundary.advanced(byMilliseconds: -1)
            guard isActive != subscription.access.isHeld(at: before),
                let purchase = subscription.holder(at: isActive ? boundary : before)
            else { continue }
            let isTrial = !purchase.isGrace && purchase.purchase.isTrial
            let movement: String
            if !isActive {
                movement = isTrial ? "trials_lost" : "churned"
                addChurn(subscription, purchase.purchase, isTrial: isTrial, at: boundary)
                ended = boundary
            } else if let ended {
                let retried = SubscriptionLife.retryDays(purchase.purchase.billingPlan) * Draw.dayMilliseconds
                let isInTime = boundary.milliseconds - ended.milliseconds <= retried
                movement = purchase.purchase.reason == .renewal && isInTime ? "recovered" : "resubscribed"
            } else {
                movement = isTrial ? "trial_starts" : "new"
                started = boundary
            }
            add(1, "movements", Self.month(boundary), purchase.purchase.product.id, movement)
            add(isActive ? 1 : -1, "movements", Self.month(boundary), purchase.purchase.product.id, "net")
        }
        guard let started else { return }
        for months in 0...Self.anniversariesMax {
            let anniversary = months == 0 ? started : started.advanced(by: fixedDuration("P\(months)M"))
            guard anniversary < asOf, subscription.access.isHeld(at: anniversary) else { continue }
            add(1, "retention", Self.month(started), String(months), "active")
        }
    }

    private mutating func addChurn(
        _ subscription: CountedSubscription, _ purchase: Purchase, isTrial: Bool, at end: Instant
    ) {
        let (month, product) = (Self.month(end), purchase.product.id)
        let reason = subscription.reason(endOf: purchase, at: end)
        add(1, "churn", month, product, reason)
        guard !isTrial else { return }
        add(1, "churn_rate", month, product, "churned")
        switch reason {
        case "voluntary", "price": add(1, "churn_rate", month, product, "voluntary")
        case "billing": add(1, "churn_rate", month, product, "involuntary")
        default: break
        }
    }

    private mutating func addRenewalsAndPlanChanges(_ subscription: CountedSubscription) {
        let purchases = subscription.purchases.filter { !$0.isAddition }
        for (index, purchase) in purchases.enumerated() {
            let start = purchase.purchaseDate
            guard index > 0, subscription.access.isHeld(at: start.advanced(byMilliseconds: -1)) else { continue }
            let previous = purchases[index - 1]
            let isFirstPaid = !purchase.isTrial && purchases[..<index].allSatisfy(\.isTrial)
            if isFirstPaid || purchase.reason == .renewal {
                add(
                    1, "movements", Self.month(start), purchase.product.id, isFirstPaid ? "conversions" : "renewals")
            }
            guard previous.product != purchase.product,
                let direction = subscription.direction(from: previous, to: purchase)
            else { continue }
            add(1, "plan_changes", Self.month(start), previous.product.id, purchase.product.id, direction)
        }
    }

    private mutating func addTrials(_ subscription: CountedSubscription) {
        for (index, trial) in subscription.purchases.enumerated() where trial.isTrial {
            let later = subscription.purchases[(index + 1)...]
            let isConverted = later.contains { $0.revocation?.kind != .full && !$0.isTrial }
            let isRunning = trial.expiresDate.map { $0 > asOf } ?? false
            let outcome = isConverted ? "converted" : isRunning ? "undecided" : "lost"
            add(1, "trials", Self.month(trial.purchaseDate), trial.product.id, outcome)
        }
    }
}

extension Purchase {
    var isTrial: Bool { offer?.isFree ?? false }

    /// Whether it was bought in place of a cheaper plan of the same length.
    fileprivate func isBoughtForMore(than previous: Purchase) -> Bool {
        reason == .purchase && product.basePrice > previous.product.basePrice
    }
}

extension CountedSubscription {
    /// Whether a change of the plan is up or down; nil if it is neither.
    fileprivate func direction(from previous: Purchase, to next: Purchase) -> String? {
        switch store {
        case .apple:
            let isUp = previous.upgradedAt == next.purchaseDate || next.isBoughtForMore(than: previous)
            return isUp ? "up" : "down"
        case .google:
            // By the price of a month: any change can take effect at once.
            let (before, after) = (
                Figures.monthly(previous, paid: previous.paid), Figures.monthly(next, paid: next.paid)
            )
            return before == after ? nil : before < after ? "up" : "down"
        }
    }
}
