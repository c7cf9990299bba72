import Foundation
import StoreSimulator
import Subscriptions
import Testing

@Suite("A run follows from its settings alone")
struct SimulationTests {
    private func settings(_ change: (inout Simulation.Settings) -> Void = { _ in }) -> Simulation.Settings {
        var settings = Simulation.Settings(app: testApp)
        settings.app.receiptCharacters = 64
        settings.subscriptions = 56
        change(&settings)
        return settings
    }

    private func run(_ change: (inout Simulation.Settings) -> Void = { _ in }) throws -> Simulation {
        try #require(Simulation(settings(change)))
    }

    /// All that is delivered, less the signatures of version 2.
    private func texts(_ simulation: Simulation) throws -> [String] {
        try simulation.deliveries.map { delivery in
            let body = delivery.body()
            if delivery.isVersion1 { return String(decoding: body, as: UTF8.self) }
            var payload = try SignedBody(body).payload
            var data = try #require(payload["data"] as? [String: Any])
            for key in ["signedTransactionInfo", "signedRenewalInfo"] where data[key] != nil {
                let text = try #require(data[key] as? String)
                data[key] = try SplitJWS(text.utf8).json
            }
            payload["data"] = data
            return String(
                decoding: try JSONSerialization.data(withJSONObject: payload, options: .sortedKeys), as: UTF8.self)
        }
    }

    @Test("equal settings give equal deliveries and answers, another seed others")
    func repeatable() throws {
        let mixed: (inout Simulation.Settings) -> Void = {
            $0.format = .both
            $0.order = .shuffled
            $0.duplicate = 0.2
            $0.lose = 0.1
        }
        let first = try run(mixed)
        let second = try run(mixed)
        let other = try run {
            mixed(&$0)
            $0.seed = 2
        }

        #expect(try texts(first) == texts(second))
        #expect(Array(first.answers) == Array(second.answers))
        #expect(Array(first.customerAnswers) == Array(second.customerAnswers))
        #expect(first.statements.map { $0.body() } == second.statements.map { $0.body() })
        #expect(try texts(first) != texts(other))
        #expect(
            Set(first.answers.map(\.originalTransactionId)).isDisjoint(with: other.answers.map(\.originalTransactionId))
        )
    }

    @Test("a story does not depend on how many are told beside it")
    func independence() {
        let few = Storyteller(seed: 5, app: testApp.bundleId).story(at: 30)
        let again = Storyteller(seed: 5, app: testApp.bundleId).story(at: 30)

        #expect(few.lines.map(\.originalTransactionId) == again.lines.map(\.originalTransactionId))
        #expect(few.lines.map(\.access) == again.lines.map(\.access))
    }

    @Test("ids are 16 digits and of one line only, UUIDs of one notification only")
    func ids() throws {
        let storyteller = Storyteller(seed: 9, app: testApp.bundleId)
        var transactions: Set<String> = []
        var notifications: Set<String> = []
        for index in 0..<500 {
            for line in storyteller.story(at: index).lines {
                let own = Set(line.tellings.flatMap(\.purchases).map(\.transactionId))
                #expect(transactions.isDisjoint(with: own))
                transactions.formUnion(own)
                #expect(own.allSatisfy { $0.count == 16 && $0.allSatisfy(\.isNumber) })
                #expect(line.originalTransactionId == own.min())
                for telling in line.tellings {
                    #expect(notifications.insert(telling.notificationUUID).inserted)
                    #expect(
                        telling.notificationUUID.wholeMatch(
                            of: /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil)
                }
            }
        }
    }

    @Test("everything lies in the window, in whole stories, each telling a second after the one before")
    func window() {
        for seed in UInt64(1)...6 {
            let storyteller = Storyteller(seed: seed, app: testApp.bundleId)
            for index in 0..<136 {
                let told = storyteller.story(at: index)
                #expect(told.story == Story.allCases[index % Story.allCases.count])
                for line in told.lines {
                    let signed = line.tellings.map(\.signedDate)
                    #expect(signed.first.map { $0 >= day("2025-01-01") } == true, "\(told.story.name)")
                    #expect(signed.last.map { $0 < day("2026-07-01") } == true, "\(told.story.name)")
                    #expect(line.access.boundaries.filter { $0 < .latest }.allSatisfy { $0 < day("2026-07-01") })
                    for (earlier, later) in zip(signed, signed.dropFirst()) {
                        #expect(later.milliseconds - earlier.milliseconds >= 1000, "\(told.story.name)")
                    }
                }
            }
        }
    }

    @Test("in order, reversed and shuffled are the same deliveries")
    func orders() throws {
        let inOrder = try run().deliveries.map { "\($0.signedDate) \($0.telling.notificationUUID)" }
        let reversed = try run { $0.order = .reversed }.deliveries.map {
            "\($0.signedDate) \($0.telling.notificationUUID)"
        }
        let shuffled = try run { $0.order = .shuffled }.deliveries.map {
            "\($0.signedDate) \($0.telling.notificationUUID)"
        }

        let dates = try run().deliveries.map(\.signedDate)
        #expect(dates == dates.sorted())
        #expect(reversed == inOrder.reversed())
        #expect(shuffled != inOrder && shuffled.sorted() == inOrder.sorted())
    }

    @Test("a repeat comes later and is the same bytes, whatever else is")
    func repeats() throws {
        let plain = try run().deliveries.count
        let simulation = try run { $0.duplicate = 0.5 }
        var first: [String: [UInt8]] = [:]
        var repeats = 0

        for delivery in simulation.deliveries {
            let body = delivery.body()
            if let known = first[delivery.telling.notificationUUID] {
                #expect(known == body)
                repeats += 1
            } else {
                first[delivery.telling.notificationUUID] = body
            }
        }

        #expect(first.count == plain)
        #expect(repeats > plain / 4 && repeats < plain * 3 / 4)
    }

    @Test("every notification repeated, none lost; every one lost, none left")
    func extremes() throws {
        let plain = try run().deliveries.count

        let twice = try run { $0.duplicate = 1 }.deliveries.count
        #expect(twice == 2 * plain)
        let lost = try run { $0.lose = 1 }
        #expect(lost.deliveries.isEmpty)
        #expect(lost.answers.allSatisfy { $0.isIncomplete })
    }

    @Test("lines are marked as incomplete if and only if something of them is lost")
    func losses() throws {
        let all = Set(try run().deliveries.map(\.telling.notificationUUID))
        let byLine = Dictionary(
            grouping: try run().deliveries, by: \.originalTransactionId
        ).mapValues { Set($0.map(\.telling.notificationUUID)) }
        let simulation = try run { $0.lose = 0.1 }
        let delivered = Set(simulation.deliveries.map(\.telling.notificationUUID))

        #expect(delivered.isStrictSubset(of: all))
        for answer in simulation.answers {
            let own = try #require(byLine[answer.originalTransactionId])
            #expect(answer.isIncomplete == !own.isSubset(of: delivered))
        }
    }

    @Test("version 1 leaves out what it cannot tell, both tells it in version 2 alone")
    func formats() throws {
        let untellable = Set(Story.allCases.filter { !$0.isTellableInVersion1 })

        let version1 = try run { $0.format = .v1 }.deliveries
        let version2 = try run { $0.format = .v2 }.deliveries
        let both = try run { $0.format = .both }.deliveries

        #expect(version1.allSatisfy { $0.isVersion1 && !untellable.contains($0.story) })
        #expect(version2.allSatisfy { !$0.isVersion1 })
        #expect(both.contains { $0.isVersion1 } && both.contains { !$0.isVersion1 && untellable.contains($0.story) })
        #expect(!both.contains { $0.isVersion1 && untellable.contains($0.story) })
        let nothing = settings {
            $0.format = .v1
            $0.stories = [.proratedRefund]
        }
        #expect(Simulation(nothing) == nil)
    }

    @Test("at most twelve answers a line, active and not among them, about the boundaries")
    func answers() throws {
        let answers = Array(try run { $0.subscriptions = 136 }.answers)
        let byLine = Dictionary(grouping: answers, by: \.originalTransactionId)

        // Of the 34 stories, each told four times, seven have two lines and one has three.
        #expect(byLine.count == 4 * (26 + 7 * 2 + 3))
        #expect(byLine.values.allSatisfy { (1...12).contains($0.count) })
        #expect(answers.contains(where: \.active) && answers.contains { !$0.active })
        #expect(Set(answers.filter(\.active).map(\.story)) == Set(Story.allCases))
    }
}
