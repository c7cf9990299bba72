import Encoding
import Simulation
import Subscriptions
import Testing

@Suite("The expected answers about Google Play")
struct PlaySimulationTests {
    private func simulation(
        _ stories: [PlayStory] = PlayStory.allCases, count: Int = 42, ownership: OwnershipPolicy = .standard,
        joined: Simulation? = nil
    ) -> PlaySimulation {
        var settings = PlayStoryteller.Settings()
        settings.seed = 11
        settings.stories = stories
        return PlaySimulation(settings, count: count, ownership: ownership, joined: joined)
    }

    @Test("each purchase has answers on both sides of each end of access")
    func answers() {
        let simulation = simulation()
        for index in 0..<simulation.count {
            let story = simulation.storyteller.story(at: index)
            let answers = simulation.answers(ofStory: index)
            let tokens = Set(answers.map(\.purchaseToken))

            #expect(tokens.count == story.subscriptions.count + story.oneTimePurchases.count, "\(story.story)")
            #expect(story.story == .pendingCancelled || Set(answers.map(\.active)).count >= 1)
            #expect(Dictionary(grouping: answers, by: \.purchaseToken).values.allSatisfy { $0.count <= 12 })
        }
    }

    @Test("an upgrade by another user moves the entitlements under the policy")
    func owners() throws {
        let story = simulation([.upgradeByAnotherUser], count: 1).storyteller.story(at: 0)
        let life = try #require(story.subscriptions.first)
        let upgraded = try #require(life.tokens[1].history.first).at
        let first = try #require(life.tokens[0].history[0].book.account.obfuscatedAccountId)
        let second = try #require(life.tokens[1].history[0].book.account.obfuscatedAccountId)

        func active(_ user: String, _ policy: OwnershipPolicy) -> (before: Bool, after: Bool) {
            let owned = life.key.buyers(policy).filter { $0.accountId == user }.map { (life.key.access, $0.during) }
            let book = EntitlementBook(owned)
            return (
                book.end(of: "plus", at: upgraded.advanced(byMilliseconds: -1)) != nil,
                book.end(of: "plus", at: upgraded) != nil
            )
        }
        #expect(active(first, .latestBuyer) == (true, false) && active(second, .latestBuyer) == (false, true))
        #expect(active(first, .firstBuyer) == (true, true) && active(second, .firstBuyer) == (false, false))
        #expect(active(first, .shared) == (true, true) && active(second, .shared) == (true, true))
        let users = simulation([.upgradeByAnotherUser], count: 1).customerAnswers(ofStory: 0).map(\.accountId)
        #expect(Set(users) == [first, second])
    }

    @Test("a customer of both stores has what either gives")
    func joined() throws {
        var settings = Simulation.Settings(app: testApp)
        settings.stories = [.renewals, .oneTimePurchase, .sharedDevice]
        settings.subscriptions = 60
        let apple = try #require(Simulation(settings))
        let simulation = simulation([.cancelled], count: 60, joined: apple)
        var customers = 0
        for index in 0..<60 {
            guard let id = simulation.joinedAccountId(ofStory: index) else { continue }
            customers += 1
            let bought = apple.storyteller.story(at: index).subscriptions[0]
            let life = simulation.storyteller.story(at: index).subscriptions[0]

            #expect(bought.customer.appAccountToken == id && life.customer.account.obfuscatedAccountId == id)
            for answer in simulation.customerAnswers(ofStory: index) where answer.accountId == id {
                for entitlement in answer.entitlements where entitlement.name == "plus" {
                    #expect(
                        entitlement.active
                            == (bought.access.isActive(at: answer.at) || life.key.access.isActive(at: answer.at)))
                }
            }
        }
        #expect(customers > 5)
        #expect((0..<20).allSatisfy { simulation.joinedAccountId(ofStory: $0 * 3 + 2) == nil })
    }
}
