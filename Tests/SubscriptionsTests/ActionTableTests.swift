import Subscriptions
import Testing

/// One row of the table of actions: events after a first purchase of [Feb 20, Mar 20), and the expected result.
struct Action: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var told: [Told]
    var spans: [Span]
    /// The instant at which the status, the renewal switch and the next product are read.
    var at: String
    var status: SubscriptionStatus
    var autoRenew: Bool?
    var next: String? = monthly

    init(
        _ name: String, _ told: [Told], _ spans: [Span], at: String, _ status: SubscriptionStatus, autoRenew: Bool?,
        next: String? = monthly
    ) {
        testDescription = name
        self.told = [Told("2018-02-20", [Self.rowA], [Self.on])] + told
        self.spans = spans
        self.at = at
        self.status = status
        self.autoRenew = autoRenew
        self.next = next
    }

    static let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    static let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")
    static let on = intention(autoRenew: true)

    static func off(_ date: String, intent: Int? = nil) -> RenewalInfo {
        intention(autoRenew: false) {
            $0.autoRenewStatusChangeDate = day(date)
            $0.expirationIntent = intent
        }
    }

    static func failed(grace: String?) -> RenewalInfo {
        intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.expirationIntent = 2
            $0.gracePeriodExpiresDate = grace.map(day)
        }
    }

    static let replacedA = row("1000000000000001", "2018-02-20", "2018-03-20") { $0.isUpgraded = true }
    static let upgraded = row("1000000000000002", "2018-03-01", "2018-04-01", product: premium)
    static let premiumOn = intention(autoRenew: true, next: premium, current: premium)
    static let toPremium = intention(autoRenew: true, next: premium)

    static let renewals: [Action] = [
        Action("first purchase", [], [Span("2018-02-20", "2018-03-20")], at: "2018-02-20", .active, autoRenew: true),
        Action(
            "renewal", [Told("2018-03-20", [rowA, rowB], [on])], [Span("2018-02-20", "2018-04-20")],
            at: "2018-03-20", .active, autoRenew: true),
        Action(
            "early charge, known a day before the expiry", [Told("2018-03-19", [rowA, rowB], [on])],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-19", .active, autoRenew: true),
        Action(
            "switch off", [Told("2018-03-01", [rowA], [off("2018-03-01")])], [Span("2018-02-20", "2018-03-20")],
            at: "2018-03-01", .activeWillEnd, autoRenew: false),
        Action(
            "switch on before expiry",
            [
                Told("2018-03-01", [rowA], [off("2018-03-01")]),
                Told(
                    "2018-03-05", [rowA],
                    [intention(autoRenew: true) { $0.autoRenewStatusChangeDate = day("2018-03-05") }]),
            ],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-05", .active, autoRenew: true),
        Action(
            "runs out after switch off", [Told("2018-03-01", [rowA], [off("2018-03-01")])],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-20", .expired, autoRenew: false),
        Action(
            "resubscribe, same product",
            [
                Told("2018-03-01", [rowA], [off("2018-03-01")]),
                Told("2018-05-01", [rowA, row("1000000000000003", "2018-05-01", "2018-06-01")], [on]),
            ],
            [Span("2018-02-20", "2018-03-20"), Span("2018-05-01", "2018-06-01")], at: "2018-05-01", .active,
            autoRenew: true),
        Action(
            "resubscribe, other product of the group",
            [
                Told(
                    "2018-05-01", [rowA, row("1000000000000003", "2018-05-01", "2018-06-01", product: premium)],
                    [premiumOn])
            ],
            [Span("2018-02-20", "2018-03-20"), Span("2018-05-01", "2018-06-01")], at: "2018-05-01", .active,
            autoRenew: true, next: premium),
        Action(
            "extension by the developer",
            [Told("2018-03-10", [row("1000000000000001", "2018-02-20", "2018-04-03")], [on])],
            [Span("2018-02-20", "2018-04-03")], at: "2018-03-25", .active, autoRenew: true),
        Action(
            "restore on another device",
            [
                Told(
                    "2018-03-01",
                    [
                        rowA,
                        row("2000000000000001", "2018-02-20", "2018-03-20") {
                            $0.webOrderLineItemId = rowA.webOrderLineItemId
                        },
                    ],
                    [on])
            ],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-01", .active, autoRenew: true),
    ]

    static let plans: [Action] = [
        Action(
            "downgrade", [Told("2018-03-01", [rowA], [toPremium])], [Span("2018-02-20", "2018-03-20")],
            at: "2018-03-01", .active, autoRenew: true, next: premium),
        Action(
            "downgrade takes effect",
            [
                Told("2018-03-01", [rowA], [toPremium]),
                Told(
                    "2018-03-20", [rowA, row("1000000000000002", "2018-03-20", "2018-04-20", product: premium)],
                    [premiumOn]),
            ],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-20", .active, autoRenew: true, next: premium),
        Action(
            "downgrade withdrawn", [Told("2018-03-01", [rowA], [toPremium]), Told("2018-03-02", [rowA], [on])],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-02", .active, autoRenew: true),
        Action(
            "upgrade", [Told("2018-03-01", [replacedA, upgraded], [premiumOn])], [Span("2018-02-20", "2018-04-01")],
            at: "2018-03-01", .active, autoRenew: true, next: premium),
        Action(
            "price increase pending consent",
            [Told("2018-03-01", [rowA], [intention(autoRenew: true) { $0.priceIncreaseStatus = 0 }])],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-01", .active, autoRenew: true),
        Action(
            "price increase ignored", [Told("2018-03-20", [rowA], [off("2018-03-20", intent: 3)])],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-20", .expired, autoRenew: false),
    ]

    static let failures: [Action] = [
        Action(
            "billing failure without grace", [Told("2018-03-20", [rowA], [failed(grace: nil)])],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-20", .retry, autoRenew: true),
        Action(
            "billing failure with grace", [Told("2018-03-20", [rowA], [failed(grace: "2018-04-05")])],
            [Span("2018-02-20", "2018-04-05")], at: "2018-03-20", .grace, autoRenew: true),
        Action(
            "grace over", [Told("2018-03-20", [rowA], [failed(grace: "2018-04-05")])],
            [Span("2018-02-20", "2018-04-05")], at: "2018-04-05", .retry, autoRenew: true),
        Action(
            "recovery inside grace",
            [Told("2018-03-20", [rowA], [failed(grace: "2018-04-05")]), Told("2018-03-30", [rowA, rowB], [on])],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-30", .active, autoRenew: true),
        Action(
            "recovery later",
            [
                Told("2018-03-20", [rowA], [failed(grace: nil)]),
                Told("2018-03-30", [rowA, row("1000000000000002", "2018-03-30", "2018-04-30")], [on]),
            ],
            [Span("2018-02-20", "2018-03-20"), Span("2018-03-30", "2018-04-30")], at: "2018-03-30", .active,
            autoRenew: true),
        Action(
            "switch off in grace",
            [
                Told("2018-03-20", [rowA], [failed(grace: "2018-04-05")]),
                Told("2018-03-25", [rowA], [off("2018-03-25", intent: 1)]),
            ],
            [Span("2018-02-20", "2018-03-25")], at: "2018-03-25", .expired, autoRenew: false),
        Action(
            "switch off in retry",
            [
                Told("2018-03-20", [rowA], [failed(grace: nil)]),
                Told("2018-03-25", [rowA], [off("2018-03-25", intent: 1)]),
            ],
            [Span("2018-02-20", "2018-03-20")], at: "2018-03-25", .expired, autoRenew: false),
        Action(
            "retry exhausted",
            [
                Told("2018-03-20", [rowA], [failed(grace: nil)]),
                Told("2018-05-19", [rowA], [off("2018-05-19", intent: 2)]),
            ],
            [Span("2018-02-20", "2018-03-20")], at: "2018-05-19", .expired, autoRenew: false),
    ]

    static let refunds: [Action] = [
        Action(
            "refund, full", [Told("2018-03-01", [rowA.refunded("2018-03-01")], [off("2018-03-01")])], [],
            at: "2018-03-01", .refunded, autoRenew: false),
        Action(
            "refund of an old row",
            [
                Told("2018-03-20", [rowA, rowB], [on]),
                Told("2018-03-25", [rowA.refunded("2018-03-25"), rowB], [on]),
            ],
            [Span("2018-03-20", "2018-04-20")], at: "2018-03-25", .active, autoRenew: true),
        Action(
            "consumption request", [Told("2018-03-01", [], [])], [Span("2018-02-20", "2018-03-20")],
            at: "2018-03-01", .active, autoRenew: true),
        Action(
            "family member loses access",
            [
                Told(
                    "2018-03-01",
                    [
                        row("1000000000000001", "2018-02-20", "2018-03-20") {
                            $0.inAppOwnershipType = "FAMILY_SHARED"
                            $0.revocationDate = day("2018-03-01")
                        }
                    ])
            ],
            [Span("2018-02-20", "2018-03-01")], at: "2018-03-01", .revoked, autoRenew: true),
    ]

    static let all = renewals + plans + failures + refunds
}

@Suite("Table of actions")
struct ActionTableTests {
    @Test("an action gives the result in the table for any order of arrival", arguments: Action.all, Arrival.allCases)
    func result(action: Action, arrival: Arrival) {
        let subscription = Subscription(arriving: arrival.arrange(action.told))

        #expect(subscription.spans == action.spans)
        #expect(subscription.status(at: day(action.at)) == action.status)
        #expect(subscription.renewal(at: day(action.at)).autoRenewStatus == action.autoRenew)
        #expect(subscription.renewal(at: day(action.at)).autoRenewProductId == action.next)
    }

    @Test("a refund is reversed by a later statement, unless that arrived before it", arguments: Arrival.allCases)
    func refundReversed(arrival: Arrival) {
        let refund = Told("2018-03-01", [Action.rowA.refunded("2018-03-01")], [Action.on])
        let reversal = Told("2018-03-05", [Action.rowA], [Action.on])
        let told = arrival.arrange([Told("2018-02-20", [Action.rowA], [Action.on]), refund, reversal])

        let subscription = Subscription(arriving: told)

        let isReversed = told.takesBack(refund, by: reversal)
        #expect(subscription.spans == (isReversed ? [Span("2018-02-20", "2018-03-20")] : []))
        #expect(subscription.status(at: day("2018-03-05")) == (isReversed ? .active : .refunded))
    }

    @Test("a trial is an ordinary period with the trial flag")
    func trial() {
        let trial = row("1000000000000001", "2018-02-20", "2018-02-27") { $0.isTrialPeriod = true }

        let subscription = Subscription(arriving: [Told("2018-02-20", [trial], [Action.on])])

        #expect(subscription.spans == [Span("2018-02-20", "2018-02-27")])
        #expect(subscription.transactions.first?.transaction.isTrialPeriod == true)
    }

    @Test("the consent to a price increase is reported with the renewal")
    func priceConsent() {
        let asked = intention(autoRenew: true) { $0.priceIncreaseStatus = 0 }
        let agreed = intention(autoRenew: true) { $0.priceIncreaseStatus = 1 }

        let subscription = Subscription(arriving: [
            Told("2018-02-20", [Action.rowA], [Action.on]), Told("2018-03-01", [Action.rowA], [asked]),
            Told("2018-03-03", [Action.rowA], [agreed]),
        ])

        #expect(subscription.renewal(at: day("2018-02-28")).priceIncreaseStatus == nil)
        #expect(subscription.renewal(at: day("2018-03-01")).priceIncreaseStatus == 0)
        #expect(subscription.renewal(at: day("2018-03-03")).priceIncreaseStatus == 1)
    }

    @Test("the product of a period is the one bought, and the new one from the upgrade on")
    func products() {
        let subscription = Subscription(arriving: [
            Told("2018-02-20", [Action.rowA], [Action.on]),
            Told("2018-03-01", [Action.replacedA, Action.upgraded], [Action.premiumOn]),
        ])

        #expect(subscription.period(at: day("2018-02-28T23:59:59.999Z"))?.productId == monthly)
        #expect(subscription.period(at: day("2018-03-01"))?.productId == premium)
        #expect(subscription.access.first?.cut == .upgraded)
    }
}
