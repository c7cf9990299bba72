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
        func each(_ rule: AppliedRule, grace: Bool, _ change: (inout Period) -> Void) {
            for index in periods.indices
            where periods[index].transactionId == rule.transactionId && periods[index].isGrace == grace {
                change(&periods[index])
            }
        }
        for rule in rules {
            let id = try #require(rule.transactionId)
            switch rule.rule {
            case .paid, .owned, .nonRenewingDuration, .graceGranted:
                guard let period = rule.period else { continue }
                periods.append(
                    Period(
                        transactionId: id, isGrace: rule.rule == .graceGranted, start: period.lowerBound,
                        end: period.upperBound))
            case .replacedByUpgrade, .refundedPart, .familyRevoked, .graceCutSwitchOff, .revoked:
                let at = try #require(rule.at)
                each(rule, grace: rule.rule == .graceCutSwitchOff) { $0.end = min($0.end, at) }
            case .refundedWhole: each(rule, grace: false) { $0.end = $0.start }
            case .graceTakenBack:
                #expect(!periods.contains { $0.transactionId == id && $0.isGrace })
            case .extended, .refundedWithCopy, .accountDeleted, .noAccessKind, .noPurchaseDate, .laterStatementWins,
                .tieTakesBack:
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

    @Test("for the example of each rule", arguments: ExplanationExample.all)
    func examples(_ example: ExplanationExample) throws {
        let own = example.reports.filter { told in
            told.facts.transactions.contains { $0.originalTransactionId == testSubscription }
                || !told.facts.accountDeletions.isEmpty
        }
        try check(SubscriptionFacts(arriving: own), example.description, products: example.products)
    }
}

/// Computes owners from the collected rules alone.
@Suite("The collected rules of ownership are the ones that were applied")
struct OwnershipReplayTests {
    @Test("for the stories of ownership under each policy", arguments: OwnershipStory.stories, OwnershipPolicy.allCases)
    func stories(_ story: OwnershipStory, _ policy: OwnershipPolicy) {
        let example = ExplanationExample(
            rule: .paid, reports: story.reports, statements: OwnershipRun.accepted(story, policy), policy: policy,
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
