import Encoding
import Simulation
import TestSupport
import Testing

@Suite("The customers of a run own the subscriptions that their ids and links name")
struct CustomerStoryTests {
    private func run(_ change: (inout Simulation.Settings) -> Void = { _ in }) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.seed = TestSeed.value
        settings.stories = [
            .renewals, .family, .oneTimePurchase, .sharedAccountToken, .sharedAppleAccount, .restored, .boughtAgain,
            .linked, .linkMoved,
        ]
        settings.subscriptions = 180
        change(&settings)
        return try #require(Simulation(settings))
    }

    private func storyteller() throws -> (Storyteller, Int) {
        let simulation = try run()
        return (simulation.storyteller, simulation.settings.subscriptions)
    }

    /// Groups subscriptions that share an id, directly or through others.
    private func groups(_ ids: [Set<String>]) -> Set<Set<Int>> {
        var groups: [(subscriptions: Set<Int>, ids: Set<String>)] = []
        for (subscription, own) in ids.enumerated() {
            let met = groups.filter { !$0.ids.isDisjoint(with: own) }
            groups.removeAll { !$0.ids.isDisjoint(with: own) }
            groups.append(met.reduce(([subscription], own)) { ($0.0.union($1.subscriptions), $0.1.union($1.ids)) })
        }
        return Set(groups.map(\.subscriptions))
    }

    @Test(
        "the customers of a story match the ids in its notifications and links",
        arguments: [.v1, .v2] as [Simulation.Format])
    func grouping(_ format: Simulation.Format) throws {
        let (storyteller, count) = try storyteller()
        for index in 0..<count {
            let rendered = storyteller.story(at: index)
            // The account is identified by its receipt in version 1 and by the appTransactionId in version 2.
            var ids = rendered.subscriptions.map { Set($0.ids(.v2).map(\.text)) }
            var last: [String: SimulatedLinks] = [:]
            for statement in rendered.statements { last[statement.backendCustomerId] = statement }
            for (backendCustomerId, statement) in last {
                let links = try #require(try JSONDocument(statement.body(format)).root["links"]).elements(atMost: 9)
                #expect(links.count == statement.links.count)
                for link in links {
                    let keys: [StaticString] = ["originalTransactionId", "appAccountToken", "appTransactionId"]
                    let texts = keys.compactMap { link[$0]?.string }
                    let named = try #require(texts.first)
                    #expect(format == .v2 || link["appTransactionId"] == nil)
                    let subscriptions = ids.indices.filter { ids[$0].contains(named) }
                    #expect(subscriptions.count == 1, "\(rendered.story.name): \(named)")
                    for subscription in subscriptions { ids[subscription].insert(backendCustomerId) }
                }
            }

            let customers = Set(rendered.customers.map { Set($0.subscriptions) }.filter { !$0.isEmpty })
            #expect(customers == groups(ids), "\(rendered.story.name) \(index)")
            for customer in rendered.customers {
                for backendId in customer.backendIds {
                    #expect(
                        Set(ids.indices.filter { ids[$0].contains(backendId) }).isSubset(of: customer.subscriptions))
                }
            }
        }
    }

    @Test("each story has the accounts, tokens and links of its scenario")
    func shapes() throws {
        let (storyteller, count) = try storyteller()
        for index in 0..<count {
            let rendered = storyteller.story(at: index)
            let tokens = Set(rendered.subscriptions.map(\.customer.appAccountToken))
            let accounts = Set(rendered.subscriptions.map(\.customer.appTransactionId))
            switch rendered.story {
            case .sharedAccountToken, .boughtAgain:
                #expect(tokens.count == 1 && tokens.first != nil && accounts.count == 2)
            case .sharedAppleAccount, .restored: #expect(tokens.count == 1 && accounts.count == 1)
            case .linked: #expect(accounts.count == 2 && (tokens.count == 2 || tokens == [nil]))
            case .linkMoved: #expect(accounts.count == 3 && rendered.statements.count == 4)
            case .family:
                #expect(tokens.count == 1 && accounts.count == 2 && rendered.customers.count == 2)
                #expect(rendered.subscriptions[1].ids(.v2).count == 2)
            default: #expect(rendered.statements.isEmpty && rendered.customers.count == rendered.subscriptions.count)
            }
        }
    }

    @Test("a customer has the same answer under every id, and no two customers share an id")
    func ids() throws {
        let simulation = try run()
        var owner: [SimulatedId: Int] = [:]
        for index in 0..<simulation.settings.subscriptions {
            let rendered = simulation.storyteller.story(at: index)
            let answers = simulation.customerAnswers(ofStory: index)
            #expect(Set(answers.map(\.customer)).allSatisfy { owner.updateValue(index, forKey: $0) == nil })
            func all(_ customer: SimulatedCustomer) -> [SimulatedId] {
                customer.backendIds.map { SimulatedId(.link, $0) }
                    + customer.subscriptions.flatMap { rendered.subscriptions[$0].ids(.v2) }
            }
            #expect(Set(answers.map(\.customer)) == Set(rendered.customers.flatMap(all)))
            for answer in answers {
                let customers = rendered.customers.filter { all($0).contains(answer.customer) }
                #expect(customers.count == 1)
                for entitlement in answer.entitlements {
                    let active = customers[0].subscriptions.contains { subscription in
                        rendered.subscriptions[subscription].access.spans.contains {
                            $0.product.entitlements.contains(entitlement.name) && $0.span.contains(answer.at)
                        }
                    }
                    #expect(entitlement.active == active, "\(rendered.story.name) \(answer)")
                    #expect(active || entitlement.until == nil)
                    #expect(entitlement.until.map { $0 > answer.at } ?? true)
                }
            }
        }
    }

    @Test("the app users of a shared device have access by turns, and its other ids have all of it")
    func sharedDevice() throws {
        let simulation = try run { $0.stories = [.sharedDevice] }
        for index in 0..<30 {
            let rendered = simulation.storyteller.story(at: index)
            let purchases = rendered.subscriptions[0].purchases
            let tokens = purchases.map(\.appAccountToken)
            let second = try #require(purchases.first { $0.appAccountToken == tokens.last })
            #expect(Set(tokens).count == 2)
            for answer in simulation.customerAnswers(ofStory: index) {
                let owns =
                    switch (answer.customer.kind, answer.customer.text == second.appAccountToken) {
                    case (.account, true): answer.at >= second.purchaseDate
                    case (.account, false): answer.at < second.purchaseDate
                    default: true
                    }
                let isActive = rendered.subscriptions[0].access.isActive(at: answer.at)
                #expect(answer.entitlements.contains(where: \.active) == (owns && isActive), "\(index) \(answer)")
            }
        }
    }

    @Test("version 1 has no answers by appTransactionId")
    func version1() throws {
        let kinds = Set(try run { $0.format = .v1 }.customerAnswers.map(\.customer.kind))

        #expect(kinds == [.link, .account, .subscription])
        #expect(Set(try run().customerAnswers.map(\.customer.kind)) == Set(SimulatedId.Kind.allCases))
    }

    @Test("answers are incomplete if a notification about one of the subscriptions is lost")
    func losses() throws {
        let answers = Array(try run { $0.lose = 0.1 }.customerAnswers)
        #expect(answers.contains(where: \.isIncomplete) && answers.contains { !$0.isIncomplete })
        #expect(
            try run { $0.lose = 1 }.customerAnswers.allSatisfy { $0.isIncomplete || $0.customer.kind == .link })
        #expect(try run().customerAnswers.allSatisfy { !$0.isIncomplete })
    }
}
