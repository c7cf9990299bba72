import StoreSimulator
import Subscriptions
import TestSupport
import Testing

@Suite("Customers of a run are those whom ids and links tie together")
struct CustomerStoryTests {
    private func run(_ change: (inout Simulation.Settings) -> Void = { _ in }) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.seed = TestSeed.value
        settings.stories = [
            .renewals, .family, .oneTimePurchase, .sharedAccountToken, .sharedAppleAccount, .restored, .boughtAnew,
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

    /// Lines that share an id, joined one by one.
    private func groups(_ ids: [Set<String>]) -> Set<Set<Int>> {
        var groups: [(lines: Set<Int>, ids: Set<String>)] = []
        for (line, own) in ids.enumerated() {
            let met = groups.filter { !$0.ids.isDisjoint(with: own) }
            groups.removeAll { !$0.ids.isDisjoint(with: own) }
            groups.append(met.reduce(([line], own)) { ($0.0.union($1.lines), $0.1.union($1.ids)) })
        }
        return Set(groups.map(\.lines))
    }

    @Test(
        "stories say the same of whose lines they are as the ids that they tell",
        arguments: [.v1, .v2] as [Simulation.Format])
    func grouping(_ format: Simulation.Format) throws {
        let (storyteller, count) = try storyteller()
        for index in 0..<count {
            let told = storyteller.story(at: index)
            // A body names an account by its receipt in version 1, by the appTransactionId in version 2.
            var ids = told.lines.map { Set($0.ids(.v2)) }
            var last: [String: StatedLinks] = [:]
            for statement in told.statements { last[statement.customerId] = statement }
            for (customerId, statement) in last {
                let links = try #require(try JSONDocument(statement.body(format)).root["links"]).elements(atMost: 9)
                #expect(links.count == statement.links.count)
                for link in links {
                    let keys: [StaticString] = ["originalTransactionId", "appAccountToken", "appTransactionId"]
                    let texts = keys.compactMap { link[$0]?.string }
                    let named = try #require(texts.first)
                    #expect(format == .v2 || link["appTransactionId"] == nil)
                    let lines = ids.indices.filter { ids[$0].contains(named) }
                    #expect(lines.count == 1, "\(told.story.name): \(named)")
                    for line in lines { ids[line].insert(customerId) }
                }
            }

            let stated = Set(told.customers.map { Set($0.lines) }.filter { !$0.isEmpty })
            #expect(stated == groups(ids), "\(told.story.name) \(index)")
            for customer in told.customers {
                for backendId in customer.backendIds {
                    #expect(Set(ids.indices.filter { ids[$0].contains(backendId) }).isSubset(of: customer.lines))
                }
            }
        }
    }

    @Test("each story is of the shape that it tells of")
    func shapes() throws {
        let (storyteller, count) = try storyteller()
        for index in 0..<count {
            let told = storyteller.story(at: index)
            let tokens = Set(told.lines.map(\.customer.appAccountToken))
            let accounts = Set(told.lines.map(\.customer.appTransactionId))
            switch told.story {
            case .sharedAccountToken, .boughtAnew:
                #expect(tokens.count == 1 && tokens.first != nil && accounts.count == 2)
            case .sharedAppleAccount, .restored: #expect(tokens.count == 1 && accounts.count == 1)
            case .linked: #expect(accounts.count == 2 && (tokens.count == 2 || tokens == [nil]))
            case .linkMoved: #expect(accounts.count == 3 && told.statements.count == 4)
            case .family:
                #expect(tokens.count == 1 && accounts.count == 2 && told.customers.count == 2)
                #expect(told.lines[1].ids(.v2).count == 2)
            default: #expect(told.statements.isEmpty && told.customers.count == told.lines.count)
            }
        }
    }

    @Test("a customer has one answer under every id, and no id is two customers'")
    func ids() throws {
        let simulation = try run()
        var owner: [String: Int] = [:]
        for index in 0..<simulation.settings.subscriptions {
            let told = simulation.storyteller.story(at: index)
            let answers = simulation.customerAnswers(ofStory: index)
            #expect(Set(answers.map(\.customerId)).allSatisfy { owner.updateValue(index, forKey: $0) == nil })
            let expected = told.customers.flatMap { customer in
                customer.backendIds + customer.lines.flatMap { told.lines[$0].ids(.v2) }
            }
            #expect(Set(answers.map(\.customerId)) == Set(expected))
            for answer in answers {
                let customers = told.customers.filter { customer in
                    (customer.backendIds + customer.lines.flatMap { told.lines[$0].ids(.v2) })
                        .contains(answer.customerId)
                }
                #expect(customers.count == 1)
                for entitlement in answer.entitlements {
                    let active = customers[0].lines.contains { line in
                        told.lines[line].access.spans.contains {
                            $0.product.entitlements.contains(entitlement.name) && $0.span.contains(answer.at)
                        }
                    }
                    #expect(entitlement.active == active, "\(told.story.name) \(answer)")
                    #expect(active || entitlement.until == nil)
                    #expect(entitlement.until.map { $0 > answer.at } ?? true)
                }
            }
        }
    }

    @Test("version 1 knows nobody by an appTransactionId")
    func version1() throws {
        let ids = Set(try run { $0.format = .v1 }.customerAnswers.map(\.customerId))

        #expect(!ids.isEmpty && !ids.contains { $0.hasPrefix("70") && $0.count == 17 })
        #expect(try run().customerAnswers.contains { $0.customerId.hasPrefix("70") && $0.customerId.count == 17 })
    }

    @Test("answers are incomplete if something of one of the lines is lost")
    func losses() throws {
        let answers = Array(try run { $0.lose = 0.1 }.customerAnswers)
        #expect(answers.contains(where: \.isIncomplete) && answers.contains { !$0.isIncomplete })
        #expect(
            try run { $0.lose = 1 }.customerAnswers.allSatisfy { $0.isIncomplete || $0.customerId.hasPrefix("user-") })
        #expect(try run().customerAnswers.allSatisfy { !$0.isIncomplete })
    }
}
