import AppStore
import Subscriptions
import Testing

/// One row of the table of actions: the bodies after a first purchase of [Feb 20, Mar 20), and the expected result.
struct V2Action: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var bodies: [V2Body]
    var spans: [Span]
    /// The instant at which the status, the renewal switch and the next product are read.
    var at: String
    var status: SubscriptionStatus
    var autoRenew: Bool?
    var next: String

    private init(
        _ name: String, _ bodies: [V2Body], _ spans: [Span], at: String, _ status: SubscriptionStatus,
        autoRenew: Bool? = true,
        next: String = monthly
    ) {
        testDescription = name
        self.bodies = [V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", Self.rowA, Self.on)] + bodies
        self.spans = spans
        self.at = at
        self.status = status
        self.autoRenew = autoRenew
        self.next = next
    }

    static let rowA = v2Row("1000000000000001", "2018-02-20", "2018-03-20")
    static let rowB = v2Row("1000000000000002", "2018-03-20", "2018-04-20")
    static let upgradeRow = v2Row(
        "1000000000000002", "2018-03-01", "2018-04-01", product: premium, reason: "PURCHASE")
    static let on = v2Renewal()
    static let off = v2Renewal(autoRenew: false)
    static let premiumOn = v2Renewal(next: premium, current: premium)
    static let inGrace = v2Renewal().failing(graceUntil: "2018-04-05")
    static let base = [Span("2018-02-20", "2018-03-20")]

    static let disabled = V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-01", rowA, off)
    static let renewed = V2Body("DID_RENEW", at: "2018-03-20", rowB, on)
    static let upgraded = V2Body("DID_CHANGE_RENEWAL_PREF", "UPGRADE", at: "2018-03-01", upgradeRow, premiumOn)
    static let failed = V2Body("DID_FAIL_TO_RENEW", at: "2018-03-20", rowA, v2Renewal().failing())
    static let failedInGrace = V2Body("DID_FAIL_TO_RENEW", "GRACE_PERIOD", at: "2018-03-20", rowA, inGrace)

    private static func expired(_ subtype: String?, _ intent: Int, at date: String, _ renewal: JSON) -> V2Body {
        V2Body("EXPIRED", subtype, at: date, rowA, renewal.with(["expirationIntent": .raw(String(intent))]))
    }

    static let renewals: [V2Action] = [
        V2Action("first purchase", [], base, at: "2018-02-20", .active),
        V2Action("renewal", [renewed], [Span("2018-02-20", "2018-04-20")], at: "2018-03-20", .active),
        V2Action(
            "early charge", [V2Body("DID_RENEW", at: "2018-03-19T06:00:00Z", rowB, on)],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-19T07:00:00Z", .active),
        V2Action(
            "early charge with the time of the charge",
            [
                V2Body(
                    "DID_RENEW", at: "2018-03-19T06:00:00Z",
                    v2Row("1000000000000002", "2018-03-19T06:00:00Z", "2018-04-20"), on)
            ],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-19T07:00:00Z", .active),
        V2Action("switch off", [disabled], base, at: "2018-03-01", .activeWillEnd, autoRenew: false),
        V2Action(
            "switch off without a subtype",
            [V2Body("DID_CHANGE_RENEWAL_STATUS", at: "2018-03-01", rowA, off)], base, at: "2018-03-01", .activeWillEnd,
            autoRenew: false),
        V2Action(
            "switch on before expiry",
            [disabled, V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", at: "2018-03-05", rowA, on)], base,
            at: "2018-03-05", .active),
        V2Action("runs out, and nothing is sent", [disabled], base, at: "2018-03-20", .expired, autoRenew: false),
        V2Action(
            "runs out", [disabled, expired("VOLUNTARY", 1, at: "2018-03-20", off)], base, at: "2018-03-20", .expired,
            autoRenew: false),
        V2Action(
            "resubscribe, same product",
            [
                disabled, expired("VOLUNTARY", 1, at: "2018-03-20", off),
                V2Body(
                    "SUBSCRIBED", "RESUBSCRIBE", at: "2018-05-01",
                    v2Row("1000000000000003", "2018-05-01", "2018-06-01", reason: "PURCHASE"), on),
            ],
            base + [Span("2018-05-01", "2018-06-01")], at: "2018-05-01", .active),
        V2Action(
            "resubscribe, other product of the group",
            [
                V2Body(
                    "SUBSCRIBED", "RESUBSCRIBE", at: "2018-05-01",
                    v2Row("1000000000000003", "2018-05-01", "2018-06-01", product: premium, reason: "PURCHASE"),
                    premiumOn)
            ],
            base + [Span("2018-05-01", "2018-06-01")], at: "2018-05-01", .active, next: premium),
        V2Action(
            "extension by the developer",
            [V2Body("RENEWAL_EXTENDED", at: "2018-03-10", v2Row("1000000000000001", "2018-02-20", "2018-04-03"), on)],
            [Span("2018-02-20", "2018-04-03")], at: "2018-03-25", .active),
        V2Action(
            "failed extension", [V2Body("RENEWAL_EXTENSION", "FAILURE", at: "2018-03-10", rowA, on)], base,
            at: "2018-03-10", .active),
        V2Action(
            "price increase pending consent",
            [V2Body("PRICE_INCREASE", "PENDING", at: "2018-03-01", rowA, on.with(["priceIncreaseStatus": 0]))], base,
            at: "2018-03-01", .active),
        V2Action(
            "price increase ignored", [expired("PRICE_INCREASE", 3, at: "2018-03-20", off)], base, at: "2018-03-20",
            .expired, autoRenew: false),
        V2Action(
            "product taken off sale", [expired("PRODUCT_NOT_FOR_SALE", 4, at: "2018-03-20", on)], base,
            at: "2018-03-20", .expired),
    ]

    static let plans: [V2Action] = [
        V2Action(
            "downgrade",
            [V2Body("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", at: "2018-03-01", rowA, v2Renewal(next: premium))], base,
            at: "2018-03-01", .active, next: premium),
        V2Action(
            "downgrade takes effect",
            [
                V2Body("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", at: "2018-03-01", rowA, v2Renewal(next: premium)),
                V2Body("DID_RENEW", at: "2018-03-20", rowB.with(["productId": .text(premium)]), premiumOn),
            ],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-20", .active, next: premium),
        V2Action(
            "downgrade withdrawn",
            [
                V2Body("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", at: "2018-03-01", rowA, v2Renewal(next: premium)),
                V2Body("DID_CHANGE_RENEWAL_PREF", at: "2018-03-02", rowA, on),
            ],
            base, at: "2018-03-02", .active),
        V2Action("upgrade", [upgraded], [Span("2018-02-20", "2018-04-01")], at: "2018-03-01", .active, next: premium),
        V2Action(
            "upgrade, with the old transaction reported later",
            [
                upgraded,
                V2Body(
                    "REFUND_DECLINED", at: "2018-03-02",
                    rowA.refunded("2018-03-01", type: "REFUND_PRORATED").with(["isUpgraded": true]), premiumOn),
            ],
            [Span("2018-02-20", "2018-04-01")], at: "2018-03-02", .active, next: premium),
        V2Action(
            "refund of an upgrade", [upgraded, V2Body("REFUND", at: "2018-03-10", upgradeRow.refunded("2018-03-10"))],
            [Span("2018-02-20", "2018-03-01")], at: "2018-03-10", .refunded, next: premium),
        V2Action(
            "refund of an upgrade as reported before June 2023, without transaction reasons",
            [
                V2Body(
                    "DID_CHANGE_RENEWAL_PREF", "UPGRADE", at: "2018-03-01", upgradeRow.without("transactionReason"),
                    premiumOn),
                V2Body("REFUND", at: "2018-03-10", upgradeRow.without("transactionReason").refunded("2018-03-10")),
            ],
            [Span("2018-02-20", "2018-03-01")], at: "2018-03-10", .refunded, next: premium),
        V2Action(
            "refund of an upgrade, reversed",
            [
                upgraded, V2Body("REFUND", at: "2018-03-10", upgradeRow.refunded("2018-03-10")),
                V2Body("REFUND_REVERSED", at: "2018-03-12", upgradeRow),
            ],
            [Span("2018-02-20", "2018-04-01")], at: "2018-03-12", .active, next: premium),
        V2Action(
            "offer that upgrades", [V2Body("OFFER_REDEEMED", "UPGRADE", at: "2018-03-01", upgradeRow, premiumOn)],
            [Span("2018-02-20", "2018-04-01")], at: "2018-03-01", .active, next: premium),
        V2Action(
            "offer for the next renewal",
            [V2Body("OFFER_REDEEMED", at: "2018-03-01", rowA, on.with(["offerType": 3, "offerIdentifier": "a"]))], base,
            at: "2018-03-01", .active),
    ]

    static let failures: [V2Action] = [
        V2Action("billing failure without grace", [failed], base, at: "2018-03-20", .retry),
        V2Action(
            "billing failure with grace", [failedInGrace], [Span("2018-02-20", "2018-04-05")], at: "2018-03-20", .grace),
        V2Action(
            "grace over, without a notification", [failedInGrace], [Span("2018-02-20", "2018-04-05")], at: "2018-04-05",
            .retry),
        V2Action(
            "grace over",
            [failedInGrace, V2Body("GRACE_PERIOD_EXPIRED", at: "2018-04-05", rowA, v2Renewal().failing())],
            [Span("2018-02-20", "2018-04-05")], at: "2018-04-05", .retry),
        V2Action(
            "recovery inside grace",
            [failedInGrace, V2Body("DID_RENEW", "BILLING_RECOVERY", at: "2018-03-30", rowB, on)],
            [Span("2018-02-20", "2018-04-20")], at: "2018-03-30", .active),
        V2Action(
            "recovery later",
            [
                failed,
                V2Body(
                    "DID_RENEW", "BILLING_RECOVERY", at: "2018-03-30",
                    v2Row("1000000000000002", "2018-03-30", "2018-04-30"), on),
            ],
            base + [Span("2018-03-30", "2018-04-30")], at: "2018-03-30", .active),
        V2Action(
            "switch off in grace",
            [failedInGrace, V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-25", rowA, off)],
            [Span("2018-02-20", "2018-03-25")], at: "2018-03-25", .expired, autoRenew: false),
        V2Action(
            "switch off in grace, with grace still in the renewal info, and an expiry",
            [
                failedInGrace,
                V2Body(
                    "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-25", rowA,
                    off.failing(graceUntil: "2018-04-05")),
                expired("VOLUNTARY", 1, at: "2018-03-25T00:00:01Z", off),
            ],
            [Span("2018-02-20", "2018-03-25")], at: "2018-03-26", .expired, autoRenew: false),
        V2Action(
            "switch off after a recovery inside grace",
            [
                failedInGrace, V2Body("DID_RENEW", "BILLING_RECOVERY", at: "2018-03-28", rowB, on),
                V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-04-02", rowB, off),
            ],
            [Span("2018-02-20", "2018-04-20")], at: "2018-04-02", .activeWillEnd, autoRenew: false),
        V2Action(
            "switch off in retry",
            [failed, V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-25", rowA, off)], base,
            at: "2018-03-25", .expired, autoRenew: false),
        V2Action(
            "retry exhausted", [failed, expired("BILLING_RETRY", 2, at: "2018-05-19", off)], base, at: "2018-05-19",
            .expired, autoRenew: false),
        V2Action(
            "refund of an older renewal while grace runs",
            [
                renewed,
                V2Body(
                    "DID_FAIL_TO_RENEW", "GRACE_PERIOD", at: "2018-04-20", rowB,
                    v2Renewal().failing(graceUntil: "2018-05-06")),
                V2Body(
                    "REFUND", at: "2018-04-25", rowA.refunded("2018-04-25"),
                    v2Renewal().failing(graceUntil: "2018-05-06")),
            ],
            [Span("2018-03-20", "2018-05-06")], at: "2018-04-25", .grace),
    ]

    static let refunds: [V2Action] = [
        V2Action(
            "refund, full",
            [
                V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-01", rowA, off),
                V2Body("REFUND", at: "2018-03-01T00:00:01Z", rowA.refunded("2018-03-01", type: "REFUND_FULL"), off),
            ], [], at: "2018-03-02", .refunded, autoRenew: false),
        V2Action(
            "refund without its type", [V2Body("REFUND", at: "2018-03-01", rowA.refunded("2018-03-01"))], [],
            at: "2018-03-01", .refunded),
        V2Action(
            "refund of an old transaction",
            [renewed, V2Body("REFUND", at: "2018-03-25", rowA.refunded("2018-03-25"), on)],
            [Span("2018-03-20", "2018-04-20")], at: "2018-03-25", .active),
        V2Action(
            "refund, prorated",
            [
                V2Body(
                    "REFUND", at: "2018-03-10T00:00:05Z",
                    rowA.refunded("2018-03-10", type: "REFUND_PRORATED").with(["revocationPercentage": 35000]), off)
            ],
            [Span("2018-02-20", "2018-03-10")], at: "2018-03-11", .refunded, autoRenew: false),
        V2Action(
            "refund reversed",
            [
                V2Body("REFUND", at: "2018-03-01", rowA.refunded("2018-03-01", type: "REFUND_FULL")),
                V2Body("REFUND_REVERSED", at: "2018-03-05", rowA),
            ],
            base, at: "2018-03-05", .active),
        V2Action(
            "prorated refund reversed",
            [
                V2Body("REFUND", at: "2018-03-01", rowA.refunded("2018-03-01", type: "REFUND_PRORATED")),
                V2Body("REFUND_REVERSED", at: "2018-03-05", rowA),
            ],
            base, at: "2018-03-05", .active),
        V2Action(
            "refund declined", [V2Body("REFUND_DECLINED", at: "2018-03-01", rowA, on)], base, at: "2018-03-01", .active),
        V2Action(
            "consumption request",
            [
                V2Body(
                    "CONSUMPTION_REQUEST", at: "2018-03-01", rowA, on, data: ["consumptionRequestReason": "LEGAL"])
            ], base, at: "2018-03-01", .active),
        V2Action(
            "family member loses access",
            [
                V2Body(
                    "REVOKE", at: "2018-03-01",
                    rowA.refunded("2018-03-01", type: "FAMILY_REVOKE").with(["inAppOwnershipType": "FAMILY_SHARED"]))
            ],
            [Span("2018-02-20", "2018-03-01")], at: "2018-03-01", .revoked),
        V2Action(
            "family member loses access, as reported before December 2025",
            [
                V2Body(
                    "REVOKE", at: "2018-03-01",
                    rowA.refunded("2018-03-01").with(["inAppOwnershipType": "FAMILY_SHARED"]))
            ],
            [Span("2018-02-20", "2018-03-01")], at: "2018-03-01", .revoked),
        V2Action(
            "an unknown type",
            [V2Body("SOMETHING_NEW", at: "2018-03-20", rowB, on)], [Span("2018-02-20", "2018-04-20")],
            at: "2018-03-20", .active),
    ]

    static let all = renewals + plans + failures + refunds

    /// A year that was upgraded to a month, which then fails to renew. The year would have ended within the grace.
    static let failureAfterUpgrade: [V2Body] = {
        let year = v2Row("1000000000000001", "2018-01-01", "2019-01-01", product: "com.example.magazine.yearly")
        let month = v2Row("1000000000000002", "2018-11-20", "2018-12-20", product: premium, reason: "PURCHASE")
        let failing = premiumOn.failing(graceUntil: "2019-01-05")
        return [
            V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-01-01", year, on),
            V2Body("DID_CHANGE_RENEWAL_PREF", "UPGRADE", at: "2018-11-20", month, premiumOn),
            V2Body("DID_FAIL_TO_RENEW", "GRACE_PERIOD", at: "2018-12-20", month, failing),
        ]
    }()
}
