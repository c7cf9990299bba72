import Encoding

/// The random choices of one subscription or one-time purchase of a story on Google Play, drawn from the seed.
///
/// Each has choices of its own, so that what happens to one after a purchase was not acknowledged changes no other.
struct PlayDraw {
    var random: SplitMix64
    let settings: PlayStoryteller.Settings
    /// The number of the story in the run.
    let story: Int
    /// The number of the subscription in the story.
    let life: Int
    /// Whether the app itself acknowledges its purchases.
    let isAcknowledgedByApp: Bool
    /// When the app's server acknowledged purchases, by purchase token.
    let acknowledged: [String: Instant]
    /// The app user of the story's customer; nil to draw one.
    let accountId: String?
    /// Starts early and uses weekly periods, so that every story ends in the window.
    let isCompressed: Bool

    mutating func count(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

    mutating func one<Element>(of elements: [Element]) -> Element {
        elements[Int.random(in: elements.indices, using: &random)]
    }

    /// A customer of the app, whose purchases carry an app user unless `isNamed` is false.
    mutating func customer(isNamed: Bool = true) -> PlayCustomer {
        let own = userId()
        let hasProfile = random.chance(20)
        let account = PlayAccount(
            obfuscatedAccountId: isNamed ? accountId ?? own : nil,
            obfuscatedProfileId: isNamed && hasProfile ? "profile-\(story)" : nil)
        return PlayCustomer(storefront: one(of: Storefront.all), account: account)
    }

    /// A lower-case UUID of version 4.
    mutating func userId() -> String {
        let high = Hex.text((random.next() & ~0xF000) | 0x4000)
        let low = Hex.text((random.next() & ~(3 << 62)) | (2 << 62))
        return "\(high.prefix(8))-\(high.dropFirst(8).prefix(4))-\(high.suffix(4))-\(low.prefix(4))-" + low.suffix(12)
    }

    /// A subscription of the customer, before its first purchase.
    mutating func newLife(
        _ terms: PlayTerms = PlayTerms(), customer: PlayCustomer? = nil, part: Int = 0
    ) -> PlayLife {
        let customer = customer ?? self.customer()
        return PlayLife(
            customer: customer, identifiers: identifiers(part: part), terms: terms,
            isAcknowledgedByApp: isAcknowledgedByApp,
            acknowledged: acknowledged, lagSeed: random.next())
    }

    func identifiers(part: Int = 0) -> PlayIdentifiers {
        PlayIdentifiers(
            seed: settings.seed, story: story, life: life, part: part, tokenCharacters: settings.tokenCharacters)
    }

    var window: StoryWindow { settings.window }

    mutating func start() -> Instant {
        let days = isCompressed ? 1 : window.startDays(300)
        let offset = Int64.random(in: 0...days * 86_400, using: &random) * 1000
        return window.start.advanced(byMilliseconds: offset + Int64.random(in: 0..<1000, using: &random))
    }

    mutating func period() -> Period {
        isCompressed ? .weekly : one(of: [.weekly, .weekly, .monthly, .monthly, .monthly, .monthly])
    }

    mutating func plan() -> PlayPlan {
        let tier = one(of: [Product.Tier.plus, .premium])
        return PlayPlan(tier, period())
    }

    mutating func graceDays(_ period: Period) -> Int { one(of: period == .weekly ? [3, 7] : [3, 7, 14]) }

    /// An instant between the two, at least a twentieth of the interval from each.
    mutating func between(_ start: Instant, _ end: Instant) -> Instant {
        let length = max(20, end.milliseconds - start.milliseconds)
        return start.advanced(
            byMilliseconds: Int64.random(in: length / 20...length - length / 20, using: &random))
    }

    /// An instant in the last paid period, more than a minute after the last event.
    mutating func within(_ life: PlayLife) -> Instant { between(Self.next(life), life.paidEnd) }

    /// A minute after the last event: the books show a void of an older payment only in the list of voids.
    static func next(_ life: PlayLife) -> Instant {
        let events = [life.current.history.last?.at, life.voids.last?.voidedTime].compactMap(\.self)
        return (events.max() ?? life.paidEnd).advanced(byMilliseconds: 60_000)
    }

    /// Renews some times, sometimes early and sometimes two minutes late.
    mutating func renew(_ life: inout PlayLife, _ times: ClosedRange<Int>) {
        for _ in 0..<count(times) {
            let delay =
                random.chance(30)
                ? -Int64.random(in: 10_000...40_000_000, using: &random)
                : Int64.random(in: 2000...135_000, using: &random)
            let drift: Int64 = random.chance(30) ? Int64.random(in: 1000...5000, using: &random) : 0
            // An early charge does not precede what happened before.
            let earliest = Self.next(life).milliseconds - life.paidEnd.milliseconds
            life.renew(
                after: .milliseconds(life.terms.isTest ? 2000 : max(delay, earliest)), drift: .milliseconds(drift))
        }
    }

    /// Ends a subscription that would otherwise renew after the end of the story, or goes on with it until the window ends.
    ///
    /// - Parameter renewals: How often it renews at most until then.
    mutating func finish(_ life: inout PlayLife, renewals: Int = .max) {
        guard !life.isClosed, life.paidEnd < window.end else { return }
        if window.goesOn, life.isRenewing { return goOn(&life, renewals) }
        if life.book.state == .active, life.plan.isRenewing {
            life.cancel(reason: random.chance(50) ? "OTHERS" : nil, at: within(life))
        }
        if [.active, .canceled].contains(life.book.state) { life.expire() }
    }
}
