import Encoding
import Subscriptions
import Testing

/// The dates are those of the lifecycle's examples: monthly periods from 1 January on.
@Suite("The history of a customer names what happened, when, and by which event")
struct ChronicleTests {
    private static let january = row("11", "2026-01-01", "2026-02-01")
    private static let february = row("12", "2026-02-01", "2026-03-01")

    /// A's January, whose renewal A switched off, and March, which B bought and which ended for no stated reason.
    private static let passedOn: [Told] = {
        let own = changed(january) { $0.appAccountToken = tokenA }
        let next = changed(row("13", "2026-03-01", "2026-04-01")) { $0.appAccountToken = tokenB }
        return [
            Told("2026-01-01", [own], [intention(autoRenew: true)]),
            Told("2026-01-20", [own], [intention(autoRenew: false)]),
            Told("2026-02-01", [own], [intention(autoRenew: false) { $0.expirationIntent = 1 }]),
            Told("2026-03-01", [next], [intention(autoRenew: true)]),
            Told("2026-04-01", [next], [intention(autoRenew: false) { $0.expirationIntent = 5 }]),
        ]
    }()

    /// Each entry as `1 Jan bought (1)`, oldest first.
    private static func history(
        _ reports: [Told], through instant: String = "2026-12-31",
        of customer: CustomerKey = CustomerKey(.subscription, testSubscription)
    ) -> [String] {
        let example = ExplanationExample(
            rule: .paid, reports: reports, customer: customer, at: instant, active: true, positions: [])
        return example.explained.lines(of: example.customer).flatMap { $0.chronicle(through: day(instant)) }
            .sorted { ($0.at, $0.position ?? .max) < ($1.at, $1.position ?? .max) }
            .map { entry in
                "\(entry.at.description.prefix(10)) \(entry.what)"
                    + (entry.position.map { " (\($0))" } ?? "") + (entry.isByClock ? " by the clock" : "")
            }
    }

    @Test("purchases, renewals, and the end with its reason")
    func renewals() {
        let switchedOff = Told("2026-02-10", [Self.february], [intention(autoRenew: false)])
        #expect(
            Self.history([
                Told("2026-01-01", [Self.january], [intention(autoRenew: true)]), Told("2026-02-01", [Self.february]),
                switchedOff,
            ]) == [
                "2026-01-01 bought (1)", "2026-02-01 renewed (2)", "2026-02-10 renewal switched off (3)",
                "2026-03-01 access ended: renewal was switched off (3) by the clock",
            ])
    }

    @Test("an item beside another one is also bought, and each is renewed by itself")
    func items() {
        func item(_ id: String, _ start: String, _ end: String) -> Transaction {
            // What is bought for another reason than a purchase replaces no plan.
            row(id, start, end) {
                $0.productId = "extra"
                $0.transactionReason = "RENEWAL"
            }
        }
        let february = changed(Self.february) { $0.transactionReason = "RENEWAL" }
        #expect(
            Self.history(
                [
                    Told("2026-01-01", [Self.january]), Told("2026-01-15", [item("21", "2026-01-15", "2026-02-15")]),
                    Told("2026-02-01", [february]), Told("2026-02-15", [item("22", "2026-02-15", "2026-03-01")]),
                ], through: "2026-02-20") == [
                    "2026-01-01 bought (1)", "2026-01-15 also bought (2)", "2026-02-01 renewed (3)",
                    "2026-02-15 renewed (4)",
                ])
    }

    @Test("nothing after the instant that is asked about")
    func instant() {
        let reports = [Told("2026-01-01", [Self.january]), Told("2026-02-01", [Self.february])]
        #expect(Self.history(reports, through: "2026-01-31") == ["2026-01-01 bought (1)"])
        #expect(Self.history(reports, through: "2026-03-01").last == "2026-03-01 access ended by the clock")
    }

    @Test("a free trial, and a purchase of a family member")
    func payers() {
        let trial = changed(Self.january) { $0.offerDiscountType = "FREE_TRIAL" }
        let shared = changed(Self.january) { $0.inAppOwnershipType = "FAMILY_SHARED" }
        #expect(
            Self.history([Told("2026-01-01", [trial]), Told("2026-02-01", [Self.february])], through: "2026-02-02") == [
                "2026-01-01 free trial began (1)", "2026-02-01 renewed (2)",
            ])
        #expect(
            Self.history([Told("2026-01-01", [shared])], through: "2026-01-02") == [
                "2026-01-01 shared by a family member (1)"
            ])
    }

    @Test("grace, and the end of grace after a failed renewal")
    func grace() {
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2026-02-17")
        }
        let expired = intention(autoRenew: false) { $0.expirationIntent = 2 }
        #expect(
            Self.history([
                Told("2026-01-01", [Self.january]), Told("2026-02-01", [Self.january], [failed]),
                Told("2026-04-02", [Self.january], [expired]),
            ]) == [
                "2026-01-01 bought (1)", "2026-02-01 the renewal failed: grace began (2)",
                "2026-02-17 access ended: the renewal failed, and the store has stopped retrying the payment (3) by the clock",
                "2026-04-02 renewal reported as off, because the subscription has ended (3)",
            ])
    }

    @Test(
        "a renewal that is paid during grace is a recovery, the one after it is not",
        arguments: ["2026-02-01", "2026-02-09"])
    func recovery(_ paid: String) {
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2026-02-17")
        }
        #expect(
            Self.history(
                [
                    Told("2026-01-01", [Self.january]), Told("2026-02-01", [Self.january], [failed]),
                    Told("2026-02-09", [row("12", paid, "2026-03-09")], [intention(autoRenew: true)]),
                    Told("2026-03-09", [row("13", "2026-03-09", "2026-04-09")], [intention(autoRenew: true)]),
                ], through: "2026-03-10") == [
                    "2026-01-01 bought (1)", "2026-02-01 the renewal failed: grace began (2)",
                    "\(paid) recovered: the failed renewal was paid (3)", "2026-03-09 renewed (4)",
                ])
    }

    @Test("a refund, and a refund that is taken back")
    func refunds() {
        let refunded = changed(Self.january) { $0.revocationDate = day("2026-01-10") }
        let reports = [Told("2026-01-01", [Self.january]), Told("2026-01-11", [refunded])]
        #expect(
            Self.history(reports) == [
                "2026-01-01 bought, refunded later (1)", "2026-01-10 refunded: counts as never bought (2)",
            ])
        // Which event repeated the first statement is looked up in the log, see ``ExplainedCustomers/missingEvidence``.
        #expect(
            Self.history(reports + [Told("2026-01-20", [Self.january])]) == [
                "2026-01-01 bought (1)", "2026-01-10 refunded, taken back later (2)",
                "2026-01-20 refunded: taken back, counts again",
                "2026-02-01 access ended by the clock",
            ])
    }

    @Test("what was renewed and refunded later did not end before the refund")
    func refundedRenewal() {
        func history(boughtOn bought: String, refundedOn refunded: String) -> [String] {
            let renewal = row("12", bought, "2026-03-01")
            return Self.history([
                Told("2026-01-01", [Self.january]), Told(bought, [renewal]),
                Told("2026-02-20", [renewal.refunded(refunded)]),
            ])
        }
        #expect(
            history(boughtOn: "2026-02-01", refundedOn: "2026-02-10") == [
                "2026-01-01 bought (1)", "2026-02-01 renewed, refunded later (2)",
                "2026-02-10 refunded: counts as never bought (3)",
            ])
        // Of a renewal that was refunded before the end of the purchase before it, that end stays.
        #expect(
            history(boughtOn: "2026-01-20", refundedOn: "2026-01-25").last == "2026-02-01 access ended by the clock")
    }

    @Test("a grant that was taken back says by whom and why, and not that its time came")
    func grants() throws {
        let key = GrantStatement.key(of: "g-1")
        let revoked = try Told.grant(
            "2026-01-05", from: "2026-01-01", until: "2026-01-05", by: "anna", isRevocation: true)
        let given = try Told.grant("2026-01-01", from: "2026-01-01", until: "2026-01-11", by: "ben")
        let history = Self.history([given, revoked], of: key)
        #expect(history.count == 2 && history.first?.hasPrefix("2026-01-01 given by hand") == true, "\(history)")
        #expect(history.last == "2026-01-05 taken back by anna: case 1 (2)", "\(history)")
        // Before it began, it gave nothing.
        let early = [
            try Told.grant("2026-01-01", from: "2026-01-10", until: "2026-01-20", by: "ben"),
            try Told.grant("2026-01-05", from: "2026-01-10", until: "2026-01-05", by: "anna", isRevocation: true),
        ]
        #expect(Self.history(early, of: key) == ["2026-01-05 taken back by anna: case 1 (2)"])
        // One that was not taken back ends by itself.
        #expect(Self.history([given], of: key).last == "2026-01-11 access ended by the clock")
    }

    @Test(
        "a former owner's access ended for the reason of that time, and what the next one bought is not in the history")
    func passedOn() {
        func example(_ instant: String) -> ExplanationExample {
            ExplanationExample(
                rule: .clock, reports: Self.passedOn, customer: .a, at: instant, active: false, positions: [2])
        }
        for instant in ["2026-02-10", "2026-03-10", "2026-12-31"] {
            let decisive = example(instant).explanation.because.first
            #expect(decisive?.rule == .clock && decisive?.positions == [2], "\(instant)")
            #expect(decisive?.text.hasSuffix("renewal was switched off") ?? false, "\(instant)")
        }
        let line = example("2026-12-31").explained.lines(of: .a).first
        let entries = (line?.chronicle(through: day("2026-12-31")) ?? []).sorted { $0.at < $1.at }
        #expect(
            entries.map(\.what) == [
                "bought", "renewal switched off", "access ended: renewal was switched off", "subscription lost to",
            ])
        #expect(entries.map(\.other) == [nil, nil, nil, .b])
        let gained = example("2026-12-31").explained.lines(of: .b).first?.chronicle(through: day("2026-12-31"))
        #expect(gained?.first { $0.what == "subscription gained from" }?.other == .a, "\(gained ?? [])")
    }

    @Test("a price increase, from the first report of it to the customer's consent")
    func priceIncrease() {
        func increase(_ status: Int?) -> RenewalInfo { intention(autoRenew: true) { $0.priceIncreaseStatus = status } }
        #expect(
            Self.history(
                [
                    Told("2026-01-01", [Self.january], [increase(nil)]),
                    Told("2026-01-10", [Self.january], [increase(0)]),
                    Told("2026-01-11", [Self.january], [increase(0)]),
                    Told("2026-01-15", [Self.january], [increase(1)]),
                ], through: "2026-01-31") == [
                    "2026-01-01 bought (1)", "2026-01-10 price increase: the customer has not agreed yet (2)",
                    "2026-01-15 price increase: the customer agreed (4)",
                ])
    }

    @Test("access by a purchase and its restored copy ends once")
    func copies() {
        let copy = changed(Self.january) { $0.transactionId = "21" }
        #expect(
            Self.history([Told("2026-01-01", [Self.january]), Told("2026-01-10", [copy])]) == [
                "2026-01-01 bought (1)", "2026-01-01 restored: the same purchase under another id (2)",
                "2026-02-01 access ended by the clock",
            ])
    }

    @Test(
        "what is taken back is called by its name",
        arguments: [
            ("REFUND_PRORATED", "the rest was refunded"), ("FAMILY_REVOKE", "Family Sharing was revoked"),
            ("REFUND_FULL", "refunded"),
        ])
    func takenBack(type: String, words: String) {
        let revoked = changed(Self.january) {
            $0.revocationDate = day("2026-01-10")
            $0.revocationType = type
        }
        let history = Self.history(
            [Told("2026-01-01", [Self.january]), Told("2026-01-11", [revoked]), Told("2026-01-20", [Self.january])])
        #expect(history.contains("2026-01-10 \(words), taken back later (2)"), "\(history)")
        #expect(history.contains("2026-01-20 \(words): taken back, counts again"), "\(history)")
    }

    @Test("another product, and access that begins again")
    func products() {
        let changed = row("12", "2026-02-01", "2026-03-01", product: premium)
        let again = row("13", "2026-06-01", "2026-07-01", product: premium)
        #expect(
            Self.history(
                [Told("2026-01-01", [Self.january]), Told("2026-02-01", [changed]), Told("2026-06-01", [again])],
                through: "2026-06-02") == [
                    "2026-01-01 bought (1)", "2026-02-01 changed from \(monthly) (2)",
                    "2026-03-01 access ended by the clock", "2026-06-01 bought again (3)",
                ])
    }
}
