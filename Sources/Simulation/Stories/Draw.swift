import Encoding
import Subscriptions

/// The random choices of one story, drawn from the seed.
struct Draw {
    var random: SplitMix64
    let seed: UInt64
    let index: Int
    /// The bundle id, the prefix of product ids.
    let app: String
    /// Decides who owns a subscription at the end of a story. No random choice depends on it.
    let ownership: OwnershipPolicy
    /// All events of the story lie in it.
    let window: StoryWindow
    /// Starts early and uses weekly periods, so that every story ends within ``window``.
    let isCompressed: Bool

    static let dayMilliseconds: Int64 = 86_400_000

    mutating func count(_ range: ClosedRange<Int>) -> Int {
        Int.random(in: range, using: &random)
    }

    mutating func one<Element>(of elements: [Element]) -> Element {
        elements[Int.random(in: elements.indices, using: &random)]
    }

    /// The `appAccountToken` of a purchase.
    enum Token {
        case sometimes, given
        /// The app sets none.
        case unset
        /// The token of another customer.
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
            case .unset: nil
            case .of(let other): other.appAccountToken
            }
        return Customer(
            storefront: one(of: Storefront.all), appAccountToken: given,
            appTransactionId: identifiers.appTransactionId(), isFamilyMember: isFamilyMember)
    }

    /// A subscription on an Apple Account of its own.
    mutating func life(
        subscription: Int = 0, isFamilyMember: Bool = false, token: Token = .sometimes
    ) -> SubscriptionLife {
        let identifiers = Identifiers(seed: seed, index: index, subscription: subscription)
        let customer = customer(isFamilyMember: isFamilyMember, token: token, identifiers)
        return SubscriptionLife(
            customer: customer, identifiers: identifiers, signingLagMilliseconds: lag())
    }

    /// A subscription of an existing customer.
    mutating func life(subscription: Int, customer: Customer) -> SubscriptionLife {
        SubscriptionLife(
            customer: customer, identifiers: Identifiers(seed: seed, index: index, subscription: subscription),
            signingLagMilliseconds: lag())
    }

    mutating func lag() -> Int64 { Int64.random(in: 200...9000, using: &random) }

    mutating func start() -> Instant {
        let days = isCompressed ? 1 : window.startDays(400)
        return later(0, than: window.start, upTo: days * Self.dayMilliseconds)
    }

    mutating func period() -> Period {
        if isCompressed { return .weekly }
        return one(of: [.weekly, .weekly, .weekly, .monthly, .monthly, .monthly, .monthly, .monthly, .yearly])
    }

    func product(_ tier: Product.Tier, _ period: Period) -> Product {
        .subscription(tier, period, of: app)
    }

    /// The length of a grace period, in days: one of Apple's settings, shorter for weekly plans.
    mutating func graceDays(_ period: Period) -> Int {
        one(of: period == .weekly ? [3, 6] : [3, 16, 28])
    }

    /// A whole second between the two instants, at least a twentieth of the interval from each.
    mutating func between(_ start: Instant, _ end: Instant) -> Instant {
        let length = end.milliseconds - start.milliseconds
        return later(length / 20, than: start, upTo: length - length / 20)
    }

    /// An instant in the current period.
    mutating func within(_ life: SubscriptionLife) -> Instant {
        between(life.current.purchaseDate, life.expiry)
    }

    /// A whole second, at least `least` and at most `most` milliseconds later.
    private mutating func later(_ least: Int64, than instant: Instant, upTo most: Int64) -> Instant {
        let seconds = (instant.milliseconds + Int64.random(in: least...most, using: &random)) / 1000
        return instant.advanced(byMilliseconds: seconds * 1000 - instant.milliseconds)
    }
}
