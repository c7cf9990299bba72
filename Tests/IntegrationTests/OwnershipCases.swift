import Encoding
import Simulation
import Subscriptions

/// What the cases of ownership send to an app: the notifications of seven stories, and links of two customers.
///
/// The simulator renders the notifications. Who owns what is not computed here.
struct OwnershipCases {
    static let signer = JWSSigner(.standard)

    /// A statement of a backend's customer.
    struct Links: Sendable {
        let customer: String
        let body: String
    }

    let app: SimulatedApp
    private let seed: UInt64
    private let round: Int
    /// The ids of all cases by name: the number of the case and `A` or `B` for a token, `X` for a subscription, `member`
    /// for a family member's Apple Account, `u-1` or `u-2` for a backend's customer.
    private(set) var ids: [String: SimulatedId] = [:]
    /// The bodies that are sent before the second app user appears, in their order.
    private(set) var before: [[UInt8]] = []
    private(set) var after: [[UInt8]] = []

    /// - Parameter round: Keeps the ids of several rounds apart.
    init(_ policy: OwnershipPolicy, round: Int) {
        app = SimulatedApp(bundleId: Self.bundleId(policy))
        seed = UInt64(100 + (OwnershipPolicy.allCases.firstIndex(of: policy) ?? 0))
        self.round = round
        for number in 1...7 {
            for (letter, name) in [("a", "A"), ("b", "B")] {
                let digits = String(repeating: "0", count: 10) + "\(round)\(number)"
                ids["\(number) \(name)"] = SimulatedId(
                    .account, String(repeating: letter, count: 8) + "-0000-4000-8000-" + digits)
            }
            for name in ["u-1", "u-2"] {
                ids["\(number) \(name)"] = SimulatedId(.link, "\(name)-of-\(round)-\(number)")
            }
        }
        tellResubscription()
        tellUpgrade()
        tellLateToken()
        tellTwoSubscriptions()
        tellFamily()
        tellLinked()
    }

    static func bundleId(_ policy: OwnershipPolicy) -> String { "com.example.\(policy.rawValue)" }

    /// Links of the first customer: case 6 the subscription, case 7 the token.
    var firstLinks: [Links] {
        [
            Links(customer: text("6 u-1"), body: #"{"links":[{"originalTransactionId":"\#(text("6 X"))"}]}"#),
            Links(customer: text("7 u-1"), body: #"{"links":[{"appAccountToken":"\#(text("7 A"))"}]}"#),
        ]
    }

    /// Links of the second customer on the subscription of the first one.
    func secondLinks(transfer: Bool = false) -> [Links] {
        [6, 7].map { number in
            let links = #"[{"originalTransactionId":"\#(text("\(number) X"))"}]"#
            return Links(
                customer: text("\(number) u-2"), body: #"{"links":\#(links)\#(transfer ? #","transfer":true"# : "")}"#)
        }
    }

    func text(_ name: String) -> String { ids[name]?.text ?? "" }

    // MARK: - Cases

    /// 1: A buys on January 1, renews, and switches off; B, on the same Apple Account, resubscribes on May 10.
    private mutating func tellResubscription() {
        var life = life(1, token: "1 A")
        life.subscribe(to: product(.plus, .monthly), at: Self.day("2025-01-01"))
        life.renew()
        life.renew()
        life.switchOff(at: Self.day("2025-03-20"))
        life.runOut()
        let count = life.notifications.count
        life.handOver(to: text("1 B"))
        life.resubscribe(to: product(.plus, .monthly), at: Self.day("2025-05-10"))
        tell(life, "1 X", before: count)
    }

    /// 2: A has a monthly plan from March 1; B upgrades it to a yearly one on March 15.
    private mutating func tellUpgrade() {
        var life = life(2, token: "2 A")
        life.subscribe(to: product(.plus, .monthly), at: Self.day("2025-03-01"))
        let count = life.notifications.count
        life.handOver(to: text("2 B"))
        life.upgrade(to: product(.premium, .yearly), at: Self.day("2025-03-15"))
        tell(life, "2 X", before: count)
    }

    /// 3: No token for a year, then the app's server sets A.
    private mutating func tellLateToken() {
        var life = life(3, token: nil)
        life.subscribe(to: product(.plus, .yearly), at: Self.day("2024-05-10"))
        let count = life.notifications.count
        life.setAccountToken(text("3 A"))
        life.renew()
        tell(life, "3 X", before: count)
    }

    /// 4: On one Apple Account A has a plan from May 1 and B another one from May 10.
    private mutating func tellTwoSubscriptions() {
        var first = life(4, token: "4 A")
        first.subscribe(to: product(.plus, .monthly), at: Self.day("2025-05-01"))
        tell(first, "4 X")
        var second = life(4, subscription: 1, account: 0, token: "4 B")
        second.subscribe(to: product(.audio, .monthly), at: Self.day("2025-05-10"))
        tell(second, "4 Y", before: 0)
    }

    /// 5: A and a family member, whose purchases have A's token; A's purchase is refunded on May 12.
    private mutating func tellFamily() {
        var buyer = life(5, token: "5 A")
        buyer.subscribe(to: product(.premium, .monthly), at: Self.day("2025-05-01"))
        let count = buyer.notifications.count
        buyer.refund(at: Self.day("2025-05-12"))
        tell(buyer, "5 X", before: count)
        var member = life(5, subscription: 1, token: "5 A", isFamilyMember: true)
        member.subscribe(to: product(.premium, .monthly), at: Self.day("2025-05-01"))
        tell(member, "5 Y")
        ids["5 member"] = SimulatedId(.appTransaction, member.customer.appTransactionId)
    }

    /// 6: A subscription without a token. 7: Two of token A, on two Apple Accounts.
    private mutating func tellLinked() {
        var unnamed = life(6, token: nil)
        unnamed.subscribe(to: product(.plus, .monthly), at: Self.day("2025-05-01"))
        tell(unnamed, "6 X")
        var taken = life(7, token: "7 A")
        taken.subscribe(to: product(.plus, .monthly), at: Self.day("2025-05-01"))
        tell(taken, "7 X")
        var kept = life(7, subscription: 1, token: "7 A")
        kept.subscribe(to: product(.audio, .monthly), at: Self.day("2025-05-02"))
        tell(kept, "7 Y")
    }

    // MARK: - Notifications

    /// - Parameter account: The number of the Apple Account in the case; nil for one of its own.
    private func life(
        _ number: Int, subscription: Int = 0, account: Int? = nil, token: String?, isFamilyMember: Bool = false
    ) -> SubscriptionLife {
        func identifiers(_ subscription: Int) -> Identifiers {
            Identifiers(seed: seed, index: round * 10 + number, subscription: subscription)
        }
        return SubscriptionLife(
            customer: Customer(
                storefront: Storefront.all[0], appAccountToken: token.map { text($0) },
                appTransactionId: identifiers(account ?? subscription).appTransactionId(),
                isFamilyMember: isFamilyMember), identifiers: identifiers(subscription))
    }

    private func product(_ tier: Product.Tier, _ period: Period) -> Product {
        .subscription(tier, period, of: app.bundleId)
    }

    /// - Parameter count: The number of notifications that are sent before the second app user appears; nil for all.
    private mutating func tell(_ life: SubscriptionLife, _ name: String, before count: Int? = nil) {
        ids[name] = SimulatedId(.subscription, life.originalTransactionId)
        for (number, notification) in life.notifications.enumerated() {
            // Version 1 has some notifications of its own.
            guard let signed = notification.version2Notification(app: app, customer: life.customer) else { continue }
            let body = signed.body(Self.signer)
            if number < count ?? .max { before.append(body) } else { after.append(body) }
        }
    }

    static func day(_ text: String) -> Instant {
        Instant(iso8601: text)!
    }
}
