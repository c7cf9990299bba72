import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The customers of a story follow the ownership policy of the run")
struct OwnerStoryTests {
    private static let count = 30

    private func run(_ story: Story, _ ownership: OwnershipPolicy) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.seed = TestSeed.value
        settings.stories = [story]
        settings.subscriptions = Self.count
        settings.ownership = ownership
        return try #require(Simulation(settings))
    }

    /// The instant at which the second app user of the story buys.
    private func secondPurchase(_ rendered: RenderedStory) throws -> (second: String, at: Instant) {
        let purchases = rendered.subscriptions.flatMap(\.purchases)
        let first = try #require(purchases.first?.appAccountToken)
        let other = try #require(purchases.first { $0.appAccountToken != first })
        return (try #require(other.appAccountToken), other.purchaseDate)
    }

    @Test(
        "two buyers of one subscription have it by turns, or the first one, or both",
        arguments: [Story.sharedDevice, .upgradeByAnotherUser], OwnershipPolicy.allCases)
    func buyers(_ story: Story, _ ownership: OwnershipPolicy) throws {
        let simulation = try run(story, ownership)
        for index in 0..<Self.count {
            let rendered = simulation.storyteller.story(at: index)
            let (second, bought) = try secondPurchase(rendered)
            for answer in simulation.customerAnswers(ofStory: index) {
                let isSecond = answer.customer == SimulatedId(.account, second)
                let owns =
                    switch (ownership, answer.customer.kind) {
                    case (.latestBuyer, .account): isSecond == (answer.at >= bought)
                    case (.firstBuyer, .account): !isSecond
                    default: true
                    }
                let isActive = rendered.subscriptions[0].access.isActive(at: answer.at)
                #expect(answer.entitlements.contains(where: \.active) == (owns && isActive), "\(index) \(answer)")
                if ownership == .latestBuyer, answer.at < bought {
                    #expect(answer.entitlements.allSatisfy { $0.until.map { $0 <= bought } ?? true }, "\(answer)")
                }
            }
        }
    }

    @Test("a token that is set late belongs to the owner of the whole subscription under every policy")
    func lateToken() throws {
        let simulation = try run(.accountTokenSetLate, .latestBuyer)
        for index in 0..<Self.count {
            let subscription = simulation.storyteller.story(at: index).subscriptions[0]
            let token = try #require(subscription.customer.appAccountToken)
            #expect(subscription.purchases[0].appAccountToken == nil)
            #expect(subscription.purchases.suffix(2).allSatisfy { $0.appAccountToken == token })
            #expect(subscription.notifications[0].purchases.allSatisfy { $0.appAccountToken == nil })
            for answer in simulation.customerAnswers(ofStory: index) {
                #expect(
                    answer.entitlements.contains(where: \.active) == subscription.access.isActive(at: answer.at))
            }
        }
        let answers = Array(simulation.customerAnswers)
        for policy in [OwnershipPolicy.firstBuyer, .shared] {
            let others = Array(try run(.accountTokenSetLate, policy).customerAnswers)
            #expect(others == answers)
        }
    }

    @Test("two app users of one Apple Account never have each other's plan", arguments: OwnershipPolicy.allCases)
    func twoUsers(_ ownership: OwnershipPolicy) throws {
        let simulation = try run(.usersOfAppleAccount, ownership)
        for index in 0..<Self.count {
            let rendered = simulation.storyteller.story(at: index)
            let (second, bought) = try secondPurchase(rendered)
            #expect(Set(rendered.subscriptions.map(\.customer.appTransactionId)).count == 1)
            for answer in simulation.customerAnswers(ofStory: index) {
                let isSecond =
                    switch (answer.customer.kind, ownership) {
                    case (.appTransaction, .latestBuyer): answer.at >= bought
                    case (.appTransaction, .firstBuyer): false
                    case (.appTransaction, .shared): true
                    case (.account, _): answer.customer.text == second
                    default: answer.customer.text == rendered.subscriptions[1].originalTransactionId
                    }
                for entitlement in answer.entitlements where (entitlement.name == "audio") != isSecond {
                    #expect(!entitlement.active, "\(index) \(answer)")
                }
                let isActive = rendered.subscriptions[isSecond ? 1 : 0].access.isActive(at: answer.at)
                #expect(answer.entitlements.contains(where: \.active) == isActive, "\(index) \(answer)")
            }
        }
    }

    @Test(
        "a link takes a subscription, or is refused, or joins",
        arguments: [Story.transfer, .tokenAndLink], OwnershipPolicy.allCases)
    func links(_ story: Story, _ ownership: OwnershipPolicy) throws {
        let simulation = try run(story, ownership)
        var refused = 0
        for index in 0..<Self.count {
            let rendered = simulation.storyteller.story(at: index)
            let (first, second) = (rendered.statements[0], rendered.statements[1])
            #expect(!first.isRefused && !first.isTransfer)
            #expect(second.isRefused == (ownership == .firstBuyer && !second.isTransfer))
            refused += second.isRefused ? 1 : 0
            let linked = rendered.subscriptions[0].access
            let kept = rendered.subscriptions.dropFirst().first?.access
            for answer in simulation.customerAnswers(ofStory: index) where answer.customer.kind == .link {
                let isFirst = answer.customer.text == first.backendCustomerId
                let hasLinked = ownership == .shared || isFirst == second.isRefused
                let isActive =
                    (hasLinked && linked.isActive(at: answer.at))
                    || (isFirst && kept?.isActive(at: answer.at) == true)
                #expect(answer.entitlements.contains(where: \.active) == isActive, "\(index) \(answer)")
            }
        }
        #expect(ownership == .firstBuyer ? (1..<Self.count).contains(refused) : refused == 0)
    }

    static let severalOwners: [Story] = [
        .sharedDevice, .upgradeByAnotherUser, .accountTokenSetLate, .usersOfAppleAccount, .transfer, .tokenAndLink,
    ]

    @Test("the policy changes neither notifications nor statements", arguments: severalOwners)
    func sent(_ story: Story) throws {
        let runs = try OwnershipPolicy.allCases.map { try run(story, $0) }
        for index in 0..<Self.count {
            let rendered = runs.map { $0.storyteller.story(at: index) }
            let signed = rendered.map { $0.subscriptions.map { $0.notifications.map(\.signedDate) } }
            let bodies = rendered.map { $0.statements.map { $0.body(.v2) } }
            #expect(signed.allSatisfy { $0 == signed[0] })
            #expect(bodies.allSatisfy { $0 == bodies[0] })
        }
    }

    @Test("no id leads to two customers at the same instant", arguments: severalOwners, OwnershipPolicy.allCases)
    func distinct(_ story: Story, _ ownership: OwnershipPolicy) throws {
        let simulation = try run(story, ownership)
        for index in 0..<Self.count {
            let asked = simulation.customerAnswers(ofStory: index).map { "\($0.customer) \($0.at)" }
            #expect(Set(asked).count == asked.count, "\(story.name) \(index)")
        }
    }
}
