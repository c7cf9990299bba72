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
        var statements: [Explanation.Evidence: Explanation.Statement] = [:]
        let positions = then.evidence.union(later.evidence).map(\.position).sorted()
        for (position, type) in zip(positions, ["SUBSCRIBED", "REFUND", "OTHER"]) {
            statements[Explanation.Evidence(joinedApp: nil, position: position)] = Explanation.Statement(
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

    @Test("sentences read as plain English")
    func sentences() throws {
        let refund = try #require(ExplanationExample.all.first { $0.rule == .refundedWhole && $0.place == .against })

        #expect(
            refund.explanation.sentence == """
                com.example.magazine.monthly is active until 1 Mar 2026 00:00:00 UTC (asked on 20 Feb 2026 00:00:00 \
                UTC): transaction 12 (com.example.magazine.monthly) was paid for from 1 Feb 2026 00:00:00 UTC to \
                1 Mar 2026 00:00:00 UTC (event 2). Product com.example.magazine.monthly has no configured \
                entitlements, so it grants its own name. Subscription 1000000000000001 belongs to its store account: \
                nothing names an app user. This does not change it: Transaction 11 (com.example.magazine.monthly) was \
                refunded in full on 10 Feb 2026 00:00:00 UTC, so it counts as never made (event 3). Next, on 1 Mar \
                2026 00:00:00 UTC: access ends, unless the subscription is renewed: whether renewal is on is not known.
                """)
    }
}
