import Encoding
import Subscriptions
import TestSupport
import Testing

/// Computes access from the collected rules alone. If the fold applied a rule and recorded another one, or none, the
/// result would differ from the fold's.
@Suite("The collected rules are the ones that the fold applied")
struct RuleReplayTests {
    private struct Period: Hashable {
        let transactionId: String
        let isGrace: Bool
        var start: Instant
        var end: Instant
    }

    /// The periods that the rules give, cut and remove.
    private func replay(_ rules: [AppliedRule]) throws -> Set<Period> {
        var periods: [Period] = []
        func each(_ rule: AppliedRule, grace: Bool?, _ change: (inout Period) -> Void) {
            for index in periods.indices
            where periods[index].transactionId == rule.transactionId
                && grace.map({ $0 == periods[index].isGrace }) ?? (periods[index].start == rule.period?.lowerBound)
            {
                change(&periods[index])
            }
        }
        for rule in rules {
            let id = try #require(rule.transactionId)
            switch rule.rule {
            case .paid, .owned, .nonRenewingDuration, .graceGranted, .granted:
                guard let period = rule.period else { continue }
                periods.append(
                    Period(
                        transactionId: id, isGrace: rule.rule == .graceGranted, start: period.lowerBound,
                        end: period.upperBound))
            case .replacedByUpgrade, .refundedPart, .familyRevoked, .assignmentRevoked, .unknownRevocation,
                .graceCutSwitchOff, .endedByStatus, .revoked:
                let at = try #require(rule.at)
                // A purchase can also be replaced in its grace period.
                each(rule, grace: rule.rule == .graceCutSwitchOff ? true : nil) { $0.end = min($0.end, at) }
            case .refundedWhole: each(rule, grace: false) { $0.end = $0.start }
            case .graceTakenBack:
                #expect(!periods.contains { $0.transactionId == id && $0.isGrace })
            case .noDuration, .notConfigured, .consumed:
                #expect(!periods.contains { $0.transactionId == id })
            case .extended, .refundedWithCopy, .accountDeleted, .noAccessKind, .noPurchaseDate, .movedTo,
                .laterStatementWins, .tieTakesBack, .unitsRefunded, .amountRefunded:
                break
            default: Issue.record("\(rule.rule) is no rule of a subscription's fold")
            }
        }
        return Set(periods.filter { $0.start < $0.end })
    }

    private func check(_ facts: SubscriptionFacts, _ message: String, products: ProductCatalog = .empty) throws {
        var rules = AppliedRules()
        let subscription = Subscription(facts, products: products, explaining: &rules)
        let access = subscription.access.map { period in
            Period(
                transactionId: period.transactionId, isGrace: period.cause == .grace, start: period.start,
                end: period.end)
        }

        #expect(try replay(rules.all) == Set(access), "\(message): \(rules.all)")
        // Of a refund nothing else is left, and nothing but a refund leaves nothing.
        let refunded = Set(rules.all.filter { $0.rule == .refundedWhole }.compactMap(\.transactionId))
        let expected = Set(subscription.transactions.filter { $0.settled.isRefunded }.map(\.transaction.transactionId))
        #expect(refunded == expected, "\(message)")
        #expect(rules.all.allSatisfy { $0.originalTransactionId == facts.originalTransactionId }, "\(message)")
        for rule in rules.all {
            // Which event repeated an earlier content is not in the facts.
            let isKnown = rule.rule != .laterStatementWins && rule.rule != .extended
            #expect(!isKnown || !rule.positions.isEmpty, "\(message): \(rule)")
            #expect(facts.positions.isSuperset(of: rule.positions), "\(message): \(rule)")
        }
    }

    @Test("for generated subscriptions, in any order and with repeats")
    func stories() throws {
        for number in 0..<1500 {
            var generator = TestSeed.generator(-number & 0xFFFF_FFFF)
            let told = Story(TestSeed.generator(number)).told
            let arrival = number.isMultiple(of: 2) ? told : (told + told).shuffled(using: &generator)

            try check(SubscriptionFacts(arriving: arrival), "seed \(TestSeed.value), story \(number)")
        }
    }

    @Test("for generated purchases on Google Play")
    func purchases() throws {
        for number in 0..<400 {
            try check(PlayChain(TestSeed.generator(number)).story, "seed \(TestSeed.value), chain \(number)")
        }
    }

    @Test("for a deferral, its withdrawal, a refund in grace and a change of plan in grace on Google Play")
    func ends() throws {
        var bought = PlayStory()
        bought.answer("2025-01-01T00:00:03Z", .active, start: "2025-01-01", until: "2025-02-01", order: "G1")
        var deferred = bought
        deferred.answer("2025-01-10", .active, start: "2025-01-01", until: "2025-02-11", order: "G1")
        var withdrawn = deferred
        withdrawn.answer("2025-01-12", .active, start: "2025-01-01", until: "2025-02-01", order: "G1")
        var grace = bought
        grace.answer("2025-02-01T00:00:20Z", .inGracePeriod, start: "2025-01-01", until: "2025-02-08", order: "G1")
        var refunded = grace
        refunded.void("2025-02-03", order: "G1")
        var replaced = grace
        replaced.answer(
            "2025-02-04T00:00:03Z", .active, token: "t2", start: "2025-02-04", until: "2025-03-04", order: "G2",
            product: "basic", linked: "t1")

        for (name, story) in [
            ("deferral", deferred), ("withdrawal", withdrawn), ("refund", refunded), ("replacement", replaced),
        ] {
            try check(story, name)
        }
        #expect(decisive(deferred, "2025-02-05") == AppliedBy(.extended, [2]))
        #expect(decisive(withdrawn, "2025-01-15") == AppliedBy(.paid, [1]))
        #expect(decisive(grace, "2025-02-05") == AppliedBy(.graceGranted, [2]))
        #expect(decisive(refunded, "2025-02-05") == AppliedBy(.graceTakenBack, [3]))
        #expect(decisive(refunded, "2025-01-05") == AppliedBy(.refundedWhole, [3]))
        #expect(decisive(replaced, "2025-02-05") == AppliedBy(.replacedByUpgrade, [3]))
    }

    private struct AppliedBy: Equatable {
        let rule: ExplanationRule?
        let positions: [Int64]?

        init(_ rule: ExplanationRule?, _ positions: [Int64]?) {
            self.rule = rule
            self.positions = positions
        }
    }

    /// The decisive reason why the product of the first purchase is active at an instant or not.
    private func decisive(_ story: PlayStory, _ date: String) -> AppliedBy {
        let explained = ExplainedCustomers(
            story.facts.values, links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
        let reason = explained.explanation(
            of: "premium:monthly", for: CustomerKey(.subscription, "t1"), at: day(date)
        ).because.first
        return AppliedBy(reason?.rule, reason?.positions)
    }

    private func check(_ story: PlayStory, _ message: String) throws {
        for facts in story.facts.values where facts.line == nil { try check(facts, message) }
    }

    @Test("for the example of each rule", arguments: ExplanationExample.all)
    func examples(_ example: ExplanationExample) throws {
        let facts = [String: SubscriptionFacts](arriving: example.reports)
        try check(try #require(facts[testSubscription]), example.description, products: example.products)
    }
}

/// Computes owners from the collected rules alone.
@Suite("The collected rules of ownership are the ones that were applied")
struct OwnershipReplayTests {
    @Test("for the stories of ownership under each policy", arguments: OwnershipStory.stories, OwnershipPolicy.allCases)
    func stories(_ story: OwnershipStory, _ policy: OwnershipPolicy) {
        let example = ExplanationExample(
            rule: .paid, reports: story.reports, statements: story.statements, policy: policy,
            at: "2026-01-15", active: true, positions: [])
        let explained = example.explained
        let days = (0..<820).map { day("2024-12-30").advanced(byMilliseconds: Int64($0) * 86_400_000) }
        let customers = Set(explained.customers.ownership.map(\.owner)).union([.a, .b, .u1, .u2])
        for customer in customers {
            let spans = story.access[policy]?[customer] ?? []
            for today in days {
                let isEntitled = spans.contains { $0.start <= today && today < $0.end }
                let explanations = explained.entitlements(of: customer).map {
                    explained.explanation(of: $0, for: customer, at: today)
                }
                #expect(explanations.contains(where: \.active) == isEntitled, "\(story) \(policy) \(customer) \(today)")
                for explanation in explanations where explanation.active {
                    let tie = explanation.because.first { reason in
                        Ownership.Reason.allCases.map(\.rule).contains(reason.rule)
                    }
                    #expect(tie != nil, "\(explanation.sentence)")
                }
            }
        }
    }
}
