import Encoding
import Subscriptions

/// One situation in which a rule decides, or is among the reasons.
struct ExplanationExample: Sendable, CustomStringConvertible {
    /// Where the explanation names the rule.
    enum Place: Sendable {
        /// The first reason: without the rule, the answer would be another one.
        case decisive
        case because, against, couldChange
    }

    let rule: ExplanationRule
    var reports: [Told]
    var statements: [LinkStatement] = []
    var policy = OwnershipPolicy.standard
    var sharedTokens: Set<CustomerKey> = []
    var products = ProductCatalog.empty
    var entitlements: [String: [String]] = [:]
    var skipped: [ExplainedCustomers.SkippedEvent] = []
    var entitlement = monthly
    var customer = CustomerKey(.subscription, testSubscription)
    let at: String
    let active: Bool
    var place = Place.decisive
    /// The events that are the evidence of the rule.
    let positions: [Int64]

    var description: String { "\(rule.rawValue), \(place)" }

    var explained: ExplainedCustomers {
        let facts = [String: SubscriptionFacts](arriving: reports)
        let first = Int64(reports.count + 1)
        let links = Dictionary(uniqueKeysWithValues: zip(first..., statements))
        return ExplainedCustomers(
            facts.values, links: CustomerLinks(links), policy: policy, sharedTokens: sharedTokens, products: products,
            entitlements: entitlements, skipped: skipped)
    }

    var explanation: Explanation {
        explained.explanation(of: entitlement, for: customer, at: day(at))
    }
}

extension ExplanationExample {
    private static let rowA = row("11", "2026-01-01", "2026-02-01")
    private static let rowB = row("12", "2026-02-01", "2026-03-01")

    /// A purchase of seats whose members the app invites.
    private static func seats(_ quantity: Int) -> Transaction {
        changed(rowA) {
            $0.quantity = quantity
            $0.additional = (try? JSONDocument(Array(#"{"multiSeatInfo":{"invitationManagement":"DEVELOPER"}}"#.utf8)))
                .map { CanonicalJSON($0.root) }
        }
    }

    /// A seat that a backend gives or takes back.
    private static func seat(_ customer: String, _ at: String, isClaimed: Bool = true) -> Told {
        var told = Told(at, [])
        told.facts.seat = SeatStatement(
            originalTransactionId: testSubscription, customerId: customer, isClaimed: isClaimed)
        return told
    }

    /// An answer of Google about a one-time purchase.
    private static func answer(_ at: String, change: (inout PurchaseSnapshot.Item) -> Void) -> Told {
        var snapshot = PurchaseSnapshot(purchaseToken: testSubscription, kind: .product, stateName: "PURCHASED")
        snapshot.startTime = day("2026-01-01")
        var item = PurchaseSnapshot.Item(productId: "atlas")
        item.orderId = "GPA.1"
        change(&item)
        snapshot.items = [item]
        var told = Told(at, [])
        told.facts.purchases = [.snapshot(snapshot)]
        return told
    }

    private static func refund(_ at: String, of amount: Int64) -> Told {
        var order = PurchaseOrder(orderId: "GPA.1", purchaseToken: testSubscription, stateName: "PARTIALLY_REFUNDED")
        (order.total, order.currency) = (9990, "EUR")
        order.refunds = [PurchaseOrder.Refund(at: day(at), amount: amount)]
        var told = Told(at, [])
        told.facts.purchases = [.order(order)]
        return told
    }

    private static func grace(_ end: String, autoRenew: Bool? = true, at date: String? = nil) -> RenewalInfo {
        intention(autoRenew: autoRenew) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day(end)
            $0.autoRenewStatusChangeDate = date.map { day($0) }
        }
    }

    private static func oneTime(_ product: String, _ type: String) -> Told {
        var transaction = Transaction(transactionId: testSubscription, originalTransactionId: testSubscription)
        transaction.productId = product
        transaction.type = type
        transaction.purchaseDate = day("2026-01-01")
        return Told("2026-01-01", [transaction])
    }

    /// One example at least for each rule.
    static let all: [ExplanationExample] = periods + cuts + removals + statements + products + ownership + answers

    private static let periods = [
        ExplanationExample(
            rule: .paid, reports: [Told("2026-01-01", [rowA])], at: "2026-01-15", active: true, positions: [1]),
        ExplanationExample(
            rule: .owned, reports: [oneTime("atlas", "Non-Consumable")], entitlement: "atlas", at: "2030-01-01",
            active: true, positions: [1]),
        ExplanationExample(
            rule: .granted,
            reports: [Told("2026-01-01", [changed(rowA) { $0.inAppOwnershipType = Transaction.granted }])],
            at: "2026-01-15", active: true, positions: [1]),
        ExplanationExample(
            rule: .nonRenewingDuration, reports: [oneTime("season", "Non-Renewing Subscription")],
            products: ProductCatalog(["season": .nonRenewing(CalendarDuration(iso8601: "P3M")!)]),
            entitlement: "season", at: "2026-03-31", active: true, positions: [1]),
        ExplanationExample(
            rule: .extended,
            reports: [Told("2026-01-01", [rowA]), Told("2026-01-20", [row("11", "2026-01-01", "2026-02-11")])],
            at: "2026-02-05", active: true, positions: [2]),
        ExplanationExample(
            rule: .extended,
            reports: [Told("2026-01-01", [rowA]), Told("2026-01-20", [row("11", "2026-01-01", "2026-02-11")])],
            at: "2026-01-05", active: true, place: .because, positions: [2]),
        ExplanationExample(
            rule: .graceGranted,
            reports: [Told("2026-01-01", [rowA]), Told("2026-02-01", [rowA], [grace("2026-02-17")])],
            at: "2026-02-10", active: true, positions: [2]),
    ]

    private static let cuts = [
        ExplanationExample(
            rule: .replacedByUpgrade,
            reports: [
                bought("11", "2026-01-01", "2026-02-01"),
                bought("12", "2026-01-10", "2026-02-10", product: premium),
            ], at: "2026-01-20", active: false, positions: [2]),
        ExplanationExample(
            rule: .replacedByUpgrade,
            reports: [
                bought("11", "2026-01-01", "2026-02-01"),
                bought("12", "2026-01-10", "2026-02-10", product: premium),
            ], at: "2026-01-05", active: true, place: .couldChange, positions: []),
        ExplanationExample(
            rule: .refundedPart,
            reports: [
                Told("2026-01-01", [rowA]),
                Told("2026-01-10", [changed(rowA.refunded("2026-01-10")) { $0.revocationType = "REFUND_PRORATED" }]),
            ], at: "2026-01-20", active: false, positions: [2]),
        ExplanationExample(
            rule: .familyRevoked,
            reports: [
                Told("2026-01-01", [rowA]),
                Told("2026-01-10", [changed(rowA.refunded("2026-01-10")) { $0.revocationType = "FAMILY_REVOKE" }]),
            ], at: "2026-01-20", active: false, positions: [2]),
        ExplanationExample(
            rule: .assignmentRevoked,
            reports: [
                Told("2026-01-01", [rowA]),
                Told("2026-01-10", [changed(rowA.refunded("2026-01-10")) { $0.revocationType = "ASSIGNMENT_REVOKE" }]),
            ], at: "2026-01-20", active: false, positions: [2]),
        ExplanationExample(
            rule: .unknownRevocation,
            reports: [
                Told("2026-01-01", [rowA]),
                Told("2026-01-10", [changed(rowA.refunded("2026-01-10")) { $0.revocationType = "NEWER_REVOKE" }]),
            ], at: "2026-01-20", active: false, positions: [2]),
        ExplanationExample(
            rule: .revoked,
            reports: [
                Told("2026-01-01", [rowA]),
                Told("2026-01-10", [changed(rowA.refunded("2026-01-10")) { $0.revocationType = "REVOKED" }]),
            ], at: "2026-01-20", active: false, positions: [2]),
        // Another plan of the group was bought in grace.
        ExplanationExample(
            rule: .replacedByUpgrade,
            reports: [
                Told("2026-02-01", [rowA], [grace("2026-02-17")]),
                Told("2026-02-04", [row("12", "2026-02-04", "2026-03-04", product: premium)]),
            ], at: "2026-02-10", active: false, positions: [2]),
        ExplanationExample(
            rule: .graceCutSwitchOff,
            reports: [
                Told("2026-02-01", [rowA], [grace("2026-02-17")]),
                Told("2026-02-05", [rowA], [grace("2026-02-17", autoRenew: false, at: "2026-02-05")]),
            ], at: "2026-02-10", active: false, positions: [2]),
        ExplanationExample(
            rule: .endedByStatus,
            reports: [
                Told("2026-01-01", [signed(rowA, "2026-01-01")]),
                Told(
                    "2026-01-10", [signed(rowA, "2026-01-10")],
                    [
                        intention(autoRenew: true) {
                            $0.signedDate = day("2026-01-10")
                            $0.endedStatus = 2
                        }
                    ]),
            ], at: "2026-01-20", active: false, positions: [2]),
    ]

    private static let removals = [
        ExplanationExample(
            rule: .refundedWhole,
            reports: [Told("2026-01-01", [rowA]), Told("2026-01-10", [rowA.refunded("2026-01-10")])],
            at: "2026-01-20", active: false, positions: [2]),
        // The refund of an earlier period does not take back the current one.
        ExplanationExample(
            rule: .refundedWhole,
            reports: [
                Told("2026-01-01", [rowA]), Told("2026-02-01", [rowB]),
                Told("2026-02-10", [rowA.refunded("2026-02-10")]),
            ], at: "2026-02-20", active: true, place: .against, positions: [3]),
        ExplanationExample(
            rule: .refundedWithCopy,
            reports: [
                Told("2026-01-01", [rowA]),
                Told(
                    "2026-01-10",
                    [
                        row("19", "2026-01-05", "2026-02-01") { $0.webOrderLineItemId = rowA.webOrderLineItemId }
                            .refunded("2026-01-10")
                    ]),
            ], at: "2026-01-03", active: false, positions: [2]),
        ExplanationExample(
            rule: .accountDeleted, reports: [Told("2026-01-01", [rowA]), Told(deletionAt: "2026-01-10")],
            at: "2026-01-20", active: false, positions: [2]),
        ExplanationExample(
            rule: .graceTakenBack,
            reports: [
                Told("2026-01-01", [rowA]), Told("2026-02-01", [rowA], [grace("2026-02-17")]),
                Told("2026-02-05", [rowA.refunded("2026-02-05")]),
            ], at: "2026-02-10", active: false, positions: [3]),
        ExplanationExample(
            rule: .noAccessKind, reports: [oneTime("coins", "Consumable")], entitlement: "coins", at: "2026-01-20",
            active: false, positions: [1]),
        ExplanationExample(
            rule: .notConfigured, reports: [oneTime("season", "Non-Renewing Subscription")], entitlement: "season",
            at: "2026-01-20", active: false, positions: [1]),
        ExplanationExample(
            rule: .consumed, reports: [answer("2026-01-01") { $0.isConsumed = true }], entitlement: "atlas",
            at: "2026-01-20", active: false, positions: [1]),
        ExplanationExample(
            rule: .unitsRefunded,
            reports: [answer("2026-01-01") { _ in }, answer("2026-01-10") { $0.refundableQuantity = 0 }],
            entitlement: "atlas", at: "2026-01-20", active: true, place: .because, positions: [2]),
        ExplanationExample(
            rule: .amountRefunded, reports: [answer("2026-01-01") { _ in }, refund("2026-01-10", of: 4000)],
            entitlement: "atlas", at: "2026-01-20", active: true, place: .because, positions: [2]),
        ExplanationExample(
            rule: .notConfigured, reports: [oneTime("pack", "Bundle")], entitlement: "pack", at: "2026-01-20",
            active: false, positions: [1]),
        ExplanationExample(
            rule: .noDuration, reports: [Told("2026-01-01", [row("11", "2026-01-01", "2026-01-01")])],
            at: "2026-01-20", active: false, positions: [1]),
        ExplanationExample(
            rule: .noPurchaseDate,
            reports: [Told("2026-01-10", [changed(rowA.refunded("2026-01-10")) { $0.purchaseDate = nil }])],
            at: "2026-01-20", active: false, positions: [1]),
        // Bought again under the id of an earlier subscription, and moved to another one, which another customer has.
        ExplanationExample(
            rule: .movedTo,
            reports: [
                Told(
                    "2026-01-01",
                    [
                        row("1", "2025-06-01", "2025-07-01", product: premium) { $0.appAccountToken = tokenA },
                        signed(rowA, "2026-01-01"),
                    ]),
                Told(
                    "2026-01-10",
                    [signed(row("11", "2026-01-01", "2026-02-01", subscription: "1000000000000009"), "2026-01-10")]),
            ],
            statements: [linked("u-1", CustomerKey(.subscription, "1000000000000009"))], customer: .a, at: "2026-01-20",
            active: false, positions: [2]),
    ]

    private static let statements = [
        // A refund that was reversed, by a repeat of what the first event stated.
        ExplanationExample(
            rule: .laterStatementWins,
            reports: [
                Told("2026-01-01", [rowA]), Told("2026-01-10", [rowA.refunded("2026-01-10")]),
                Told("2026-01-12", [rowA]),
            ], at: "2026-01-20", active: true, place: .because, positions: []),
        // The same with another content, whose event is known.
        ExplanationExample(
            rule: .laterStatementWins,
            reports: [
                Told("2026-01-01", [rowA]), Told("2026-01-10", [rowA.refunded("2026-01-10")]),
                Told("2026-01-12", [changed(rowA) { $0.price = 990 }]),
            ], at: "2026-01-20", active: true, place: .because, positions: [3]),
        ExplanationExample(
            rule: .tieTakesBack,
            reports: [
                Told("2026-01-10", [signed(rowA, "2026-01-10")]),
                Told("2026-01-10", [signed(rowA.refunded("2026-01-09"), "2026-01-10")]),
            ], at: "2026-01-20", active: false, place: .because, positions: [2]),
    ]

    private static let products = [
        ExplanationExample(
            rule: .mapped, reports: [Told("2026-01-01", [rowA])], entitlements: [monthly: ["plus"]],
            entitlement: "plus", at: "2026-01-15", active: true, place: .because, positions: []),
        ExplanationExample(
            rule: .ownName, reports: [Told("2026-01-01", [rowA])], at: "2026-01-15", active: true, place: .because,
            positions: []),
    ]

    private static let ownership = [
        ExplanationExample(
            rule: .tiedByLink, reports: [bought("11", "2026-01-01", "2026-02-01")],
            statements: [linked("u-1", CustomerKey(.subscription, testSubscription))], customer: .u1, at: "2026-01-15",
            active: true, place: .because, positions: [2]),
        ExplanationExample(
            rule: .tiedByAccountToken, reports: [bought("11", "2026-01-01", "2026-02-01", token: tokenA)],
            customer: .a, at: "2026-01-15", active: true, place: .because, positions: [1]),
        ExplanationExample(
            rule: .tiedByStoreAccount,
            reports: [
                bought("11", "2026-01-01", "2026-02-01", store: "7001"),
                bought(
                    "21", "2026-01-01", "2026-02-01", token: tokenA, product: premium,
                    subscription: OwnershipStory.otherSubscription, store: "7001"),
            ], customer: .a, at: "2026-01-15", active: true, place: .because, positions: [2]),
        ExplanationExample(
            rule: .unclaimed, reports: [bought("11", "2026-01-01", "2026-02-01")], at: "2026-01-15", active: true,
            place: .because, positions: []),
        ExplanationExample(
            rule: .tiedBySeat, reports: [Told("2026-01-01", [seats(2)]), seat("u-1", "2026-01-05")],
            statements: [
                SeatStatement(originalTransactionId: testSubscription, customerId: "u-1", isClaimed: true).link
            ],
            customer: .u1, at: "2026-01-15", active: true, place: .because, positions: [2]),
        ExplanationExample(
            rule: .seatEnded,
            reports: [
                Told("2026-01-01", [seats(2)]), seat("u-1", "2026-01-05"),
                seat("u-1", "2026-01-10", isClaimed: false),
            ],
            statements: [
                SeatStatement(originalTransactionId: testSubscription, customerId: "u-1", isClaimed: true).link
            ],
            customer: .u1, at: "2026-01-15", active: false, positions: [3]),
        ExplanationExample(
            rule: .latestBuyer, reports: OwnershipStory.upgradeByAnother.reports,
            entitlements: [monthly: ["plus"], yearly: ["plus"]], entitlement: "plus", customer: .a, at: "2026-03-20",
            active: false, positions: [3]),
        // Access had ended before another customer bought.
        ExplanationExample(
            rule: .clock, reports: OwnershipStory.sharedDevice.reports, customer: .a, at: "2026-05-20",
            active: false, positions: []),
        ExplanationExample(
            rule: .latestBuyer, reports: OwnershipStory.sharedDevice.reports, customer: .a, at: "2026-05-20",
            active: false, place: .because, positions: [4]),
        ExplanationExample(
            rule: .firstBuyer, reports: OwnershipStory.sharedDevice.reports, policy: .firstBuyer, customer: .a,
            at: "2026-05-20", active: true, place: .because, positions: [4]),
        ExplanationExample(
            rule: .sharedOwnership, reports: OwnershipStory.sharedDevice.reports, policy: .shared, customer: .a,
            at: "2026-05-20", active: true, place: .because, positions: [1]),
        ExplanationExample(
            rule: .linkMoved, reports: OwnershipStory.linkedTwice.reports,
            statements: OwnershipStory.linkedTwice.statements, customer: .u1, at: "2026-01-15", active: false,
            positions: [3]),
        ExplanationExample(
            rule: .linkRefused, reports: OwnershipStory.linkedTwice.reports,
            statements: OwnershipStory.linkedTwice.statements, policy: .firstBuyer, customer: .u2, at: "2026-01-15",
            active: false, place: .because, positions: [3]),
        ExplanationExample(
            rule: .sharedAccountToken, reports: [bought("11", "2026-01-01", "2026-02-01", token: tokenA)],
            sharedTokens: [.a], at: "2026-01-15", active: true, place: .because, positions: [1]),
    ]

    private static let answers = [
        ExplanationExample(
            rule: .clock, reports: [Told("2026-01-01", [rowA])], at: "2026-02-01", active: false, positions: []),
        ExplanationExample(
            rule: .clock, reports: [Told("2026-01-01", [rowA])], at: "2025-12-31", active: false, positions: []),
        ExplanationExample(
            rule: .clock, reports: [Told("2026-01-01", [rowA])], at: "2026-01-15", active: true, place: .couldChange,
            positions: []),
        ExplanationExample(
            rule: .noPurchase, reports: [Told("2026-01-01", [rowA])], entitlement: "plus", at: "2026-01-15",
            active: false, positions: []),
        ExplanationExample(
            rule: .skipped, reports: [Told("2026-01-01", [rowA])],
            skipped: [
                ExplainedCustomers.SkippedEvent(
                    position: 9, originalTransactionId: testSubscription, skippedAt: day("2026-02-02"))
            ], at: "2026-02-03", active: false, place: .against, positions: [9]),
    ]
}
