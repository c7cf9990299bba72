import Encoding

/// A base plan of a subscription in the simulated app's Play Console.
package struct PlayPlan: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case autoRenewing
        /// Each top-up has a token of its own.
        case prepaid
        /// The number of monthly payments that the customer commits to.
        case installments(Int)
    }

    package let tier: Product.Tier
    package let period: Period
    package let kind: Kind

    package init(_ tier: Product.Tier, _ period: Period, _ kind: Kind = .autoRenewing) {
        self.tier = tier
        self.period = period
        self.kind = kind
    }

    /// Google's `productId`. Unlike Apple's, it is unique in the app only, and has a base plan for each period.
    package var productId: String { tier.rawValue }

    package var basePlanId: String {
        switch kind {
        case .autoRenewing: period.rawValue
        case .prepaid: "\(period.rawValue)-prepaid"
        case .installments: "\(period.rawValue)-installments"
        }
    }

    /// The product in the records of access. Its id is `productId:basePlanId`.
    package var product: Product {
        Product(
            id: "\(productId):\(basePlanId)", kind: .autoRenewable, tier: tier, duration: period.duration,
            basePrice: Product.subscription(tier, period, of: "").basePrice)
    }

    package var isRenewing: Bool { kind != .prepaid }
}

/// A discounted phase at the start of a subscription.
package struct PlayOffer: Sendable, Hashable {
    package let offerId: String
    package let phase: PlayPhase
    package let period: CalendarDuration

    package static func freeTrial(_ period: Period) -> PlayOffer {
        PlayOffer(offerId: "free-trial", phase: .freeTrial, period: period.duration)
    }

    package static func introductoryPrice(_ period: Period) -> PlayOffer {
        PlayOffer(offerId: "welcome", phase: .introductoryPrice, period: period.duration)
    }
}

/// The pricing phase of a period. The raw values are the member names in Google's `offerPhase`.
package enum PlayPhase: String, Sendable, Hashable {
    case basePrice, freeTrial, introductoryPrice, prorationPeriod
}

/// The time limits of a subscription.
package struct PlayTerms: Sendable, Hashable {
    /// A license tester's purchase, whose periods last minutes.
    package let isTest: Bool
    /// The base plan's setting; zero if it has no grace period.
    package let grace: Duration
    package let hold: Duration

    /// - Parameter graceDays: 0 to 30, and not more than the period.
    package init(graceDays: Int = 7) {
        isTest = false
        grace = .seconds(86_400 * graceDays)
        hold = .seconds(86_400 * (60 - graceDays))
    }

    private init(testGrace: Duration, testHold: Duration) {
        isTest = true
        grace = testGrace
        hold = testHold
    }

    package static let test = PlayTerms(testGrace: .seconds(300), testHold: .seconds(600))

    /// A charge of a base plan without grace is tried again for this long before the hold begins.
    var silentDay: Duration { isTest ? .seconds(60) : .seconds(86_400) }

    /// The end of a period that is counted from an instant.
    func end(_ plan: PlayPlan, from start: Instant, _ offer: PlayOffer? = nil) -> Instant {
        if isTest { return start.advanced(by: .seconds(plan.period == .yearly ? 1800 : 300)) }
        if let offer { return start.advanced(by: offer.period) }
        // Installments of a yearly plan are charged each month.
        if case .installments = plan.kind { return start.advanced(by: Period.monthly.duration) }
        return start.advanced(by: plan.period.duration)
    }

    /// The last instant at which a purchase can be acknowledged.
    func deadline(_ plan: PlayPlan, purchased: Instant, end: Instant) -> Instant {
        if isTest { return purchased.advanced(by: .seconds(301)) }
        let length = purchased.duration(to: end)
        if plan.kind == .prepaid, length < .seconds(7 * 86_400) { return purchased.advanced(by: length / 2) }
        return purchased.advanced(by: .seconds(3 * 86_400))
    }
}
