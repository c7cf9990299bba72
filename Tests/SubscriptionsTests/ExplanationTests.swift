import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Explanations name the rules of the fold")
struct ExplanationTests {
    @Test("each rule is named where it decides, with its evidence", arguments: ExplanationExample.all)
    func examples(_ example: ExplanationExample) throws {
        let explanation = example.explanation

        #expect(explanation.active == example.active)
        switch example.place {
        case .decisive:
            #expect(explanation.because.first?.rule == example.rule, "\(explanation.sentence)")
            #expect(explanation.because.first?.positions == example.positions)
        case .because:
            let reason = explanation.because.first { $0.rule == example.rule }
            #expect(reason?.positions == example.positions, "\(explanation.sentence)")
        case .against:
            let reason = explanation.against.first { $0.rule == example.rule }
            #expect(reason?.positions == example.positions, "\(explanation.sentence)")
        case .couldChange:
            #expect(explanation.couldChange.map(\.rule).contains(example.rule), "\(explanation.sentence)")
        }
    }

    @Test("every rule has an example")
    func completeness() {
        #expect(Set(ExplanationExample.all.map(\.rule)) == Set(ExplanationRule.allCases))
    }

    @Test("the JSON holds the whole explanation, and the sentence is made from it", arguments: ExplanationExample.all)
    func json(_ example: ExplanationExample) throws {
        let explanation = example.explanation
        var writer = JSONWriter()
        explanation.write(to: &writer)

        let json = try JSONDocument(writer.bytes).root
        let read = try #require(Explanation(json: json))

        #expect(read == explanation)
        #expect(json["sentence"]?.string == read.sentence)
        #expect(!explanation.sentence.contains("Optional") && !explanation.sentence.contains("  "))
    }

    @Test("the sources of the events, and a different answer by later events, are in the JSON and in the sentence")
    func restated() throws {
        func decisive(_ rule: ExplanationRule) throws -> Explanation {
            try #require(ExplanationExample.all.first { $0.rule == rule && $0.place == .decisive }).explanation
        }
        let then = try decisive(.paid)
        let later = try decisive(.refundedWhole)
        let receivedAt = try #require(Instant(iso8601: "2026-02-10T00:00:01Z"))
        var statements: [Explanation.EventID: Explanation.CitedEvent] = [:]
        let positions = then.evidence.union(later.evidence).map(\.position).sorted()
        for (position, type) in zip(positions, ["SUBSCRIBED", "REFUND", "OTHER"]) {
            statements[Explanation.EventID(joinedApp: nil, position: position)] = Explanation.CitedEvent(
                position: position, source: "apple-v2", type: type, subtype: position == 1 ? "RESUBSCRIBE" : nil,
                receivedAt: receivedAt)
        }

        let restated = then.restated(by: later).stated(by: statements)

        #expect(then.restated(by: then) == then)
        #expect(restated.restated?.active == false && restated.restated?.until == nil)
        #expect(restated.restated?.reason.rule == .refundedWhole)
        #expect(restated.because.first?.by.map(\.type) == ["SUBSCRIBED"])
        #expect(restated.sentence.contains("(SUBSCRIBED RESUBSCRIBE, event 1)"), "\(restated.sentence)")
        #expect(
            restated.sentence.contains(
                "Events received later change this: \(then.entitlement) is not active: transaction"),
            "\(restated.sentence)")
        #expect(restated.sentence.contains("(REFUND, event 2)"), "\(restated.sentence)")
        var writer = JSONWriter()
        restated.write(to: &writer)
        #expect(Explanation(json: try JSONDocument(writer.bytes).root) == restated)
    }

    @Test("a subscription with and without an explanation is the same")
    func sameFold() {
        for number in 0..<500 {
            let facts = SubscriptionFacts(arriving: Story(TestSeed.generator(number)).told)
            var rules = AppliedRules()

            #expect(Subscription(facts, explaining: &rules) == Subscription(facts), "\(TestSeed.value), \(number)")
        }
    }

    @Test("the answer is that of the entitlements, with a reason, at every boundary of generated subscriptions")
    func agreesWithEntitlements() {
        for number in 0..<400 {
            let story = Story(TestSeed.generator(number))
            let facts = SubscriptionFacts(arriving: story.told)
            let explained = ExplainedCustomers(
                [facts], links: CustomerLinks([Int64: LinkStatement]()), policy: .standard,
                entitlements: [monthly: ["plus"], premium: ["plus"]])
            let customer = CustomerKey(.subscription, testSubscription)
            for probe in story.probes {
                let explanation = explained.explanation(of: "plus", for: customer, at: probe)
                let message = "seed \(TestSeed.value), story \(number), \(probe): \(explanation.sentence)"
                #expect(explanation.active == story.isEntitled(at: probe), "\(message)")
                #expect(!explanation.because.isEmpty, "\(message)")
                let effect = explanation.because.first?.rule.effect
                #expect((effect == .gives) == explanation.active, "\(message)")
                #expect(explanation.couldChange.allSatisfy { $0.at > probe }, "\(message)")
            }
        }
    }

    @Test("the names of a customer's entitlements include those of refunded purchases and of kinds without access")
    func names() throws {
        let example = try #require(ExplanationExample.all.first { $0.rule == .refundedWhole })
        let consumable = try #require(ExplanationExample.all.first { $0.rule == .noAccessKind })

        #expect(example.explained.entitlements(of: example.customer) == [monthly])
        #expect(consumable.explained.entitlements(of: consumable.customer) == ["coins"])
        #expect(example.explained.entitlements(of: .a) == [])
    }

    private static let january = row("11", "2026-01-01", "2026-02-01")
    private static let february = row("12", "2026-02-01", "2026-03-01")

    private static func explanation(_ reports: [Told], at instant: String) -> Explanation {
        ExplanationExample(rule: .clock, reports: reports, at: instant, active: true, positions: []).explanation
    }

    @Test("what ended the same purchase early is the reason why a later answer is another one")
    func restatedEnd() {
        let bought = Told("2026-01-01", [Self.january])
        var revoked = Self.january
        revoked.revocationDate = day("2026-01-20")
        revoked.revocationType = "FAMILY_REVOKE"
        let then = Self.explanation([bought], at: "2026-01-10")
        let later = Self.explanation([bought, Told("2026-01-20", [revoked])], at: "2026-01-10")

        #expect(later.until == day("2026-01-20"))
        #expect(later.ending?.rule == .familyRevoked)
        #expect(then.ending == nil)
        let restated = then.restated(by: later).restated
        #expect(restated?.until == day("2026-01-20"))
        #expect(restated?.reason.rule == .familyRevoked && restated?.reason.positions == [2])
    }

    @Test("of an answer that stays the same, the end is the reason, and not a statement that was taken back")
    func restatedReversal() {
        let reports = [
            Told("2026-01-01", [Self.january]), Told("2026-01-11", [Self.january.refunded("2026-01-10")]),
            Told("2026-02-20", [Self.january]),
        ]
        let then = Self.explanation(Array(reports.prefix(2)), at: "2026-02-10")
        let restated = then.restated(by: Self.explanation(reports, at: "2026-02-10")).restated

        #expect(then.because.first?.rule == .refundedWhole)
        #expect(restated?.active == false && restated?.reason.rule == .clock)
    }

    @Test("what follows is told by all that is known: the next purchase, then the end and its reason")
    func next() {
        let bought = [
            Told("2026-01-01", [Self.january], [intention(autoRenew: true)]),
            Told("2026-02-01", [Self.february], [intention(autoRenew: true)]),
        ]
        func next(_ reports: [Told], at instant: String) -> [String] {
            Self.explanation(reports, at: instant).couldChange.map { "\($0.at.description.prefix(10)) \($0.text)" }
        }
        let goesOn = """
            2026-02-01 Access goes on: Transaction 12 (\(monthly)) was paid for from 1 Feb 2026 00:00:00 UTC to \
            1 Mar 2026 00:00:00 UTC
            """
        #expect(
            next(bought, at: "2026-01-10") == [
                goesOn, "2026-03-01 Renews; access ends if it is not renewed",
            ])
        let failed = intention(autoRenew: true) { $0.isInBillingRetryPeriod = true }
        let over = intention(autoRenew: false) { $0.expirationIntent = 2 }
        #expect(
            next(
                bought + [Told("2026-03-01", [Self.february], [failed]), Told("2026-04-30", [Self.february], [over])],
                at: "2026-01-10") == [
                    goesOn,
                    "2026-03-01 Access ends: the renewal failed, and the store retries the payment",
                ])
        #expect(
            next(bought + [Told("2026-02-10", [Self.february], [intention(autoRenew: false)])], at: "2026-02-05") == [
                "2026-03-01 Access ends: renewal is switched off"
            ])
        let dearer = intention(autoRenew: true) { $0.priceIncreaseStatus = 0 }
        #expect(
            next(bought + [Told("2026-02-10", [Self.february], [dearer])], at: "2026-02-11") == [
                "2026-03-01 Renews if the customer consents to the price increase; access ends if it is not renewed"
            ])
        let priced = intention(autoRenew: true) {
            $0.renewalPrice = 12_990
            $0.currency = "USD"
        }
        let told = bought + [Told("2026-02-10", [Self.february], [priced])]
        #expect(
            next(told, at: "2026-02-11") == ["2026-03-01 Renews for 12.99 USD; access ends if it is not renewed"])
        #expect(
            Self.explanation(told, at: "2026-02-11").couldChange.map(\.renewal) == [
                " for 12.99 USD; access ends if it is not renewed"
            ])
        // Who is given the purchase by a family member does not pay, and is not told the price.
        let shared = Self.explanation(
            [Told("2026-02-01", [changed(Self.february) { $0.inAppOwnershipType = "FAMILY_SHARED" }], [priced])],
            at: "2026-02-11")
        #expect(shared.couldChange.map(\.text) == ["Renews; access ends if it is not renewed"])
    }

    @Test("what was given by hand beyond a renewal does not hide the renewal")
    func given() {
        func next(autoRenew: Bool, givenUntil end: String) -> [String] {
            let grant = row("21", "2026-02-10", end, subscription: "2000000000000002") {
                $0.inAppOwnershipType = Transaction.granted
            }
            let renewal = intention(autoRenew: autoRenew) { ($0.renewalPrice, $0.currency) = (1630, "EUR") }
            let keys = [testSubscription, "2000000000000002"].map { CustomerKey(.subscription, $0) }
            let example = ExplanationExample(
                rule: .granted,
                reports: [Told("2026-02-01", [Self.february], [renewal]), Told("2026-02-10", [grant])],
                statements: [linked("u-1", keys[0], keys[1])], customer: .u1, at: "2026-02-15", active: true,
                positions: [])
            return example.explanation.couldChange.map { "\($0.at.description.prefix(10)) \($0.text)" }
        }
        #expect(
            next(autoRenew: true, givenUntil: "2026-03-09") == [
                "2026-03-01 Renews for 1.63 EUR, and access goes on",
                "2026-03-09 Access ends, as it was given, unless the renewal before reaches further",
            ])
        #expect(next(autoRenew: false, givenUntil: "2026-03-09") == ["2026-03-09 Access ends, as it was given"])
        #expect(
            next(autoRenew: true, givenUntil: "2026-02-20") == [
                "2026-03-01 Renews for 1.63 EUR; access ends if it is not renewed"
            ])
    }

    @Test("a grant that was taken back is explained by that, with the time, by whom and why")
    func takenBack() throws {
        func explanation(_ reports: [Told], at instant: String) -> Explanation {
            ExplanationExample(
                rule: .clock, reports: reports, entitlement: "plus", customer: GrantStatement.key(of: "g-1"),
                at: instant, active: false, positions: []
            ).explanation
        }
        let given = try Told.grant("2026-01-01", from: "2026-01-01", until: "2026-01-11", by: "ben")
        let revoked = try Told.grant(
            "2026-01-05", from: "2026-01-01", until: "2026-01-05", by: "anna", isRevocation: true)
        let planned = try Told.grant("2026-01-01", from: "2026-01-10", until: "2026-01-20", by: "ben")
        let early = try Told.grant(
            "2026-01-05", from: "2026-01-10", until: "2026-01-05", by: "anna", isRevocation: true)
        for (reports, rule) in [([given, revoked], ExplanationRule.clock), ([planned, early], .noDuration)] {
            let decisive = explanation(reports, at: "2026-01-12").because.first
            #expect(decisive?.rule == rule && decisive?.positions == [2], "\(String(describing: decisive))")
            #expect(
                decisive?.text
                    == "Grant g-1 (plus) was taken back on 5 Jan 2026 00:00:00 UTC by anna: case 1")
        }
        #expect(
            explanation([given, revoked], at: "2026-01-03").couldChange.map(\.text) == [
                "Access ends: the grant was taken back by anna: case 1"
            ])
        // One that was not taken back ends as it was given.
        let whole = explanation([given], at: "2026-01-12").because.first
        #expect(whole?.text.hasSuffix(", as it was given") == true && whole?.positions == [])
    }

    @Test("of a purchase and its restored copy, the first report is the evidence")
    func copies() {
        var copy = Self.january
        copy.transactionId = "10"
        let reports = [Told("2026-01-01", [Self.january]), Told("2026-01-10", [copy])]
        #expect(Self.explanation(reports, at: "2026-01-20").because.first?.positions == [1])
        #expect(Self.explanation(reports, at: "2026-02-20").because.dropFirst().first?.positions == [1])
    }

    @Test("sentences read as plain English")
    func sentences() throws {
        let refund = try #require(ExplanationExample.all.first { $0.rule == .refundedWhole && $0.place == .against })

        #expect(
            refund.explanation.sentence == """
                com.example.magazine.monthly is active until 1 Mar 2026 00:00:00 UTC (asked on 20 Feb 2026 00:00:00 \
                UTC): transaction 12 (com.example.magazine.monthly) was paid for from 1 Feb 2026 00:00:00 UTC to \
                1 Mar 2026 00:00:00 UTC (event 2). Product com.example.magazine.monthly has no configured \
                entitlements, so it grants its own name. Subscription 1000000000000001 belongs to its store account: \
                no app user is known to own it. This does not change it: Transaction 11 (com.example.magazine.monthly) was \
                refunded in full on 10 Feb 2026 00:00:00 UTC, so it counts as never made (event 3). Next, on 1 Mar \
                2026 00:00:00 UTC: access ends, unless the subscription is renewed: whether renewal is on is not known.
                """)
    }
}
