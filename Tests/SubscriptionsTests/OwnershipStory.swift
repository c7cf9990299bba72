import Encoding
import Subscriptions

let tokenA = "aaaaaaaa-0000-4000-8000-000000000001"
let tokenB = "bbbbbbbb-0000-4000-8000-000000000002"
let yearly = "com.example.magazine.yearly"

/// The customers of the stories.
extension CustomerKey {
    static let a = CustomerKey(.account, tokenA)
    static let b = CustomerKey(.account, tokenB)
    static let u1 = CustomerKey(.link, "u-1")
    static let u2 = CustomerKey(.link, "u-2")
}

/// A story about who owns which purchases: reports of the store, statements of the backend, and who has access when.
struct OwnershipStory: Sendable, CustomStringConvertible {
    let name: String
    let reports: [Told]
    var statements: [LinkStatement] = []
    /// The access of every customer that has any, by policy.
    let access: [OwnershipPolicy: [CustomerKey: [Span]]]

    var description: String { name }
}

/// A signed row of a purchase that starts on its purchase date.
func bought(
    _ id: String, _ start: String, _ end: String, token: String? = nil, product: String = monthly,
    subscription: String = testSubscription, store: String? = nil, reason: String = "PURCHASE", isFamily: Bool = false
) -> Told {
    var transaction = row(id, start, end, product: product, subscription: subscription)
    transaction.appAccountToken = token
    transaction.appTransactionId = store
    transaction.transactionReason = reason
    transaction.inAppOwnershipType = isFamily ? "FAMILY_SHARED" : "PURCHASED"
    transaction.signedDate = day(start)
    return Told(start, [transaction])
}

func linked(_ customer: String, _ keys: CustomerKey..., basis: LinkStatement.Basis = .statement) -> LinkStatement {
    LinkStatement(backendCustomerId: customer, links: keys, basis: basis)
}

/// A purchase that was handed in for a customer.
func handedIn(_ customer: String, _ keys: CustomerKey..., basis: LinkStatement.Basis = .purchase) -> LinkStatement {
    LinkStatement(backendCustomerId: customer, links: keys, isComplete: false, basis: basis)
}

/// One answer under all policies.
func everyPolicy(_ access: [CustomerKey: [Span]]) -> [OwnershipPolicy: [CustomerKey: [Span]]] {
    [.latestBuyer: access, .firstBuyer: access, .shared: access]
}

/// The customers computed from reports and statements that arrived in some order.
struct OwnershipRun {
    let customers: Customers
    let subscriptions: [Subscription]

    /// - Parameter statements: By position.
    init(_ reports: [Told], _ statements: [Int64: LinkStatement], _ policy: OwnershipPolicy) {
        let facts = [String: SubscriptionFacts](arriving: reports)
        subscriptions = facts.values.map { Subscription($0) }
        customers = Customers(
            of: facts.values.map { $0.ownershipEvidence() }, links: CustomerLinks(statements), policy: policy)
    }

    /// In the order given, with the statements after the reports.
    init(_ story: OwnershipStory, _ policy: OwnershipPolicy) {
        let positions = story.statements.enumerated().map { (Int64(story.reports.count + 1 + $0.offset), $0.element) }
        self.init(story.reports, Dictionary(uniqueKeysWithValues: positions), policy)
    }

    func owned(by customer: CustomerKey) -> [Subscription] {
        customers.subscriptions(of: customer, among: subscriptions)
    }

    /// The access of every customer that has any.
    var access: [CustomerKey: [Span]] {
        var access: [CustomerKey: [Span]] = [:]
        for customer in Set(customers.ownership.map(\.owner)) {
            let spans = Span.union(owned(by: customer).flatMap(\.spans))
            if !spans.isEmpty { access[customer] = spans }
        }
        return access
    }

    /// The owners of a subscription at an instant.
    func owners(of subscription: String, at instant: Instant) -> Set<CustomerKey> {
        Set(
            customers.ownership.filter {
                $0.originalTransactionId.text == subscription && $0.interval.contains(instant)
            }.map(\.owner))
    }
}

// MARK: - The stories

extension OwnershipStory {
    static let otherSubscription = "1000000000000002"
    static let stories = [
        sharedDevice, upgradeByAnother, lateToken, twoSubscriptions, family, linkedTwice, linkedPastTheToken,
    ]

    static let sharedDevice = OwnershipStory(
        name: "B resubscribes on the device of A",
        reports: [
            bought("11", "2026-01-01", "2026-02-01", token: tokenA, store: "7001"),
            bought("12", "2026-02-01", "2026-03-01", token: tokenA, store: "7001", reason: "RENEWAL"),
            bought("13", "2026-03-01", "2026-04-01", token: tokenA, store: "7001", reason: "RENEWAL"),
            bought("14", "2026-05-10", "2026-06-10", token: tokenB, store: "7001"),
            bought("15", "2026-06-10", "2026-07-10", token: tokenB, store: "7001", reason: "RENEWAL"),
        ],
        access: [
            .latestBuyer: [
                .a: [Span("2026-01-01", "2026-04-01")], .b: [Span("2026-05-10", "2026-07-10")],
            ],
            .firstBuyer: [.a: [Span("2026-01-01", "2026-04-01"), Span("2026-05-10", "2026-07-10")]],
            .shared: [
                .a: [Span("2026-01-01", "2026-04-01"), Span("2026-05-10", "2026-07-10")],
                .b: [Span("2026-01-01", "2026-04-01"), Span("2026-05-10", "2026-07-10")],
            ],
        ])

    static let upgradeByAnother = OwnershipStory(
        name: "B upgrades the monthly subscription of A",
        reports: [
            bought("21", "2026-02-01", "2026-03-01", token: tokenA, store: "7001"),
            bought("22", "2026-03-01", "2026-04-01", token: tokenA, store: "7001", reason: "RENEWAL"),
            bought("23", "2026-03-15", "2027-03-15", token: tokenB, product: yearly, store: "7001"),
        ],
        access: [
            .latestBuyer: [.a: [Span("2026-02-01", "2026-03-15")], .b: [Span("2026-03-15", "2027-03-15")]],
            .firstBuyer: [.a: [Span("2026-02-01", "2027-03-15")]],
            .shared: [.a: [Span("2026-02-01", "2027-03-15")], .b: [Span("2026-02-01", "2027-03-15")]],
        ])

    static let lateToken = OwnershipStory(
        name: "the app starts to set tokens after a year",
        reports: [
            bought("31", "2025-01-01", "2025-07-01", store: "7001"),
            bought("32", "2025-07-01", "2026-01-01", store: "7001", reason: "RENEWAL"),
            bought("33", "2026-01-01", "2026-07-01", token: tokenA, store: "7001", reason: "RENEWAL"),
        ],
        access: everyPolicy([.a: [Span("2025-01-01", "2026-07-01")]]))

    static let twoSubscriptions = OwnershipStory(
        name: "A and B have a subscription each with one Apple Account",
        reports: [
            bought("41", "2026-01-01", "2026-02-01", token: tokenA, store: "7001"),
            bought(
                "42", "2026-03-01", "2026-04-01", token: tokenB, product: premium, subscription: otherSubscription,
                store: "7001"),
        ],
        access: everyPolicy([.a: [Span("2026-01-01", "2026-02-01")], .b: [Span("2026-03-01", "2026-04-01")]]))

    static let family = OwnershipStory(
        name: "a family member has rows with the token of the buyer",
        reports: [
            bought("51", "2026-01-01", "2026-02-01", token: tokenA, store: "7001"),
            bought(
                "52", "2026-01-05", "2026-02-01", token: tokenA, subscription: otherSubscription, store: "7002",
                isFamily: true),
        ],
        access: everyPolicy([
            .a: [Span("2026-01-01", "2026-02-01")],
            CustomerKey(.subscription, otherSubscription): [Span("2026-01-05", "2026-02-01")],
        ]))

    static let linkedTwice = OwnershipStory(
        name: "u-2 links what u-1 has linked",
        reports: [bought("61", "2026-01-01", "2026-02-01")],
        statements: [
            linked("u-1", CustomerKey(.subscription, testSubscription)),
            linked("u-2", CustomerKey(.subscription, testSubscription)),
        ],
        access: [
            .latestBuyer: [.u2: [Span("2026-01-01", "2026-02-01")]],
            .firstBuyer: [.u1: [Span("2026-01-01", "2026-02-01")]],
            .shared: [.u1: [Span("2026-01-01", "2026-02-01")], .u2: [Span("2026-01-01", "2026-02-01")]],
        ])

    static let linkedPastTheToken = OwnershipStory(
        name: "u-2 links a subscription whose token u-1 has linked",
        reports: [
            bought("71", "2026-01-01", "2026-02-01", token: tokenA, store: "7001"),
            bought(
                "72", "2026-03-01", "2026-04-01", token: tokenA, product: premium, subscription: otherSubscription,
                store: "7001"),
        ],
        statements: [linked("u-1", .a), linked("u-2", CustomerKey(.subscription, testSubscription))],
        access: [
            .latestBuyer: [.u1: [Span("2026-03-01", "2026-04-01")], .u2: [Span("2026-01-01", "2026-02-01")]],
            .firstBuyer: [.u1: [Span("2026-01-01", "2026-02-01"), Span("2026-03-01", "2026-04-01")]],
            .shared: [
                .u1: [Span("2026-01-01", "2026-02-01"), Span("2026-03-01", "2026-04-01")],
                .u2: [Span("2026-01-01", "2026-02-01")],
            ],
        ])
}
