import Subscriptions

/// What one story leaves to chance, drawn from the seed.
struct Draw {
    var random: SplitMix64
    let seed: UInt64
    let index: Int
    /// The bundle id, which product ids begin with.
    let app: String
    /// Begins early and in weeks, so that every story ends in time.
    let isHasty: Bool

    /// All that happens lies within: in the past of whoever runs this.
    static let window = TestCertificates.validity("2025-01-01T00:00:00Z", "2026-06-30T23:59:59Z")

    static let dayMilliseconds: Int64 = 86_400_000

    mutating func count(_ range: ClosedRange<Int>) -> Int {
        Int.random(in: range, using: &random)
    }

    mutating func one<Element>(of elements: [Element]) -> Element {
        elements[Int.random(in: elements.indices, using: &random)]
    }

    /// Whether an app names its user when it sells, and as whom.
    enum Token {
        case sometimes, given
        /// As the user of another purchase.
        case of(Customer)
    }

    mutating func customer(
        isFamilyMember: Bool = false, token: Token = .sometimes, _ identifiers: Identifiers
    ) -> Customer {
        var tokens = identifiers
        let own = tokens.uuid()
        let isNamed = random.chance(70)
        let given: String? =
            switch token {
            case .sometimes: isNamed ? own : nil
            case .given: own
            case .of(let other): other.appAccountToken
            }
        return Customer(
            storefront: one(of: Storefront.all), appAccountToken: given,
            appTransactionId: identifiers.appTransactionId(), isFamilyMember: isFamilyMember)
    }

    /// A life on an Apple Account of its own.
    mutating func life(
        line: Int = 0, isFamilyMember: Bool = false, token: Token = .sometimes
    ) -> SubscriptionLife {
        let identifiers = Identifiers(seed: seed, index: index, line: line)
        let customer = customer(isFamilyMember: isFamilyMember, token: token, identifiers)
        return SubscriptionLife(
            customer: customer, identifiers: identifiers, signingLagMilliseconds: lag())
    }

    /// A life on the account of another line.
    mutating func life(line: Int, customer: Customer) -> SubscriptionLife {
        SubscriptionLife(
            customer: customer, identifiers: Identifiers(seed: seed, index: index, line: line),
            signingLagMilliseconds: lag())
    }

    mutating func lag() -> Int64 { Int64.random(in: 200...9000, using: &random) }

    mutating func start() -> Instant {
        let days: Int64 = isHasty ? 1 : 400
        return later(0, than: Self.window.lowerBound, upTo: days * Self.dayMilliseconds)
    }

    mutating func period() -> Period {
        if isHasty { return .weekly }
        return one(of: [.weekly, .weekly, .weekly, .monthly, .monthly, .monthly, .monthly, .monthly, .yearly])
    }

    func product(_ tier: Product.Tier, _ period: Period) -> Product {
        .subscription(tier, period, of: app)
    }

    /// How long the app lets access go on, in days: Apple's choices, with less for weeks.
    mutating func graceDays(_ period: Period) -> Int {
        one(of: period == .weekly ? [3, 6] : [3, 16, 28])
    }

    /// A whole second between the two, off both.
    mutating func between(_ start: Instant, _ end: Instant) -> Instant {
        let length = end.milliseconds - start.milliseconds
        return later(length / 20, than: start, upTo: length - length / 20)
    }

    /// In the period that runs.
    mutating func within(_ life: SubscriptionLife) -> Instant {
        between(life.current.purchaseDate, life.expiry)
    }

    /// A whole second, at least and at most so many milliseconds later.
    private mutating func later(_ least: Int64, than instant: Instant, upTo most: Int64) -> Instant {
        let seconds = (instant.milliseconds + Int64.random(in: least...most, using: &random)) / 1000
        return instant.advanced(byMilliseconds: seconds * 1000 - instant.milliseconds)
    }
}
