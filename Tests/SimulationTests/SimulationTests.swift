import Foundation
import Simulation
import Subscriptions
import Testing

@Suite("A run depends on its settings only")
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

    /// The delivered bodies without the signatures of version 2.
    private func texts(_ simulation: Simulation) throws -> [String] {
        try simulation.deliveries.map { delivery in
            let body = delivery.body()
            if delivery.isVersion1 { return String(decoding: body, as: UTF8.self) }
            var payload = try SignedBody(body).payload
            // One about an app has appData.
            var data = payload["data"] as? [String: Any] ?? [:]
            for key in ["signedTransactionInfo", "signedRenewalInfo"] where data[key] != nil {
                let text = try #require(data[key] as? String)
                data[key] = try SplitJWS(text.utf8).json
            }
            payload["data"] = data
            return String(
                decoding: try JSONSerialization.data(withJSONObject: payload, options: .sortedKeys), as: UTF8.self)
        }
    }

    @Test("equal settings give equal deliveries and answers, another seed gives different ones")
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

        let delivered = try texts(first)
        #expect(try texts(second) == delivered)
        #expect(Array(first.answers) == Array(second.answers))
        #expect(Array(first.customerAnswers) == Array(second.customerAnswers))
        #expect(first.statements.map { $0.body() } == second.statements.map { $0.body() })
        #expect(try texts(other) != delivered)
        #expect(
            Set(first.answers.map(\.originalTransactionId)).isDisjoint(with: other.answers.map(\.originalTransactionId))
        )
    }

    @Test("a story does not depend on the other stories of the run")
    func independence() {
        let few = Storyteller(seed: 5, app: testApp.bundleId).story(at: 30)
        let again = Storyteller(seed: 5, app: testApp.bundleId).story(at: 30)

        #expect(few.subscriptions.map(\.originalTransactionId) == again.subscriptions.map(\.originalTransactionId))
        #expect(few.subscriptions.map(\.access) == again.subscriptions.map(\.access))
    }

    @Test("ids have 16 digits and belong to one subscription, UUIDs belong to one notification")
    func ids() throws {
        let storyteller = Storyteller(seed: 9, app: testApp.bundleId)
        var transactions: Set<String> = []
        var notifications: Set<String> = []
        for index in 0..<500 {
            for subscription in storyteller.story(at: index).subscriptions {
                let own = Set(subscription.notifications.flatMap(\.purchases).map(\.transactionId))
                // A story of its own reports purchases under two subscriptions.
                if ![.moved, .movedBack].contains(storyteller.story(at: index).story) {
                    #expect(transactions.isDisjoint(with: own))
                }
                transactions.formUnion(own)
                #expect(own.allSatisfy { $0.count == 16 && $0.allSatisfy(\.isNumber) })
                #expect(own.allSatisfy { Identifiers.story(of: $0, seed: 9) == index })
                #expect(subscription.originalTransactionId == own.min())
                for notification in subscription.notifications {
                    #expect(notifications.insert(notification.notificationUUID).inserted)
                    #expect(
                        notification.notificationUUID.wholeMatch(
                            of: /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil)
                }
            }
        }
    }

    @Test("stories are used in turn, lie in the window, and have notifications at least one second apart")
    func window() {
        for seed in UInt64(1)...6 {
            let storyteller = Storyteller(seed: seed, app: testApp.bundleId)
            for index in 0..<136 {
                let rendered = storyteller.story(at: index)
                #expect(rendered.story == Story.allCases[index % Story.allCases.count])
                for subscription in rendered.subscriptions {
                    let signed = subscription.notifications.map(\.signedDate)
                    #expect(signed.first.map { $0 >= day("2025-01-01") } == true, "\(rendered.story.name)")
                    #expect(signed.last.map { $0 < day("2026-07-01") } == true, "\(rendered.story.name)")
                    #expect(
                        subscription.access.boundaries.filter { $0 < .latest }.allSatisfy { $0 < day("2026-07-01") })
                    for (earlier, later) in zip(signed, signed.dropFirst()) {
                        #expect(later.milliseconds - earlier.milliseconds >= 1000, "\(rendered.story.name)")
                    }
                }
            }
        }
    }

    @Test("in-order, reversed and shuffled runs have the same deliveries")
    func orders() throws {
        let inOrder = try run().deliveries.map { "\($0.signedDate) \($0.notification.notificationUUID)" }
        let reversed = try run { $0.order = .reversed }.deliveries.map {
            "\($0.signedDate) \($0.notification.notificationUUID)"
        }
        let shuffled = try run { $0.order = .shuffled }.deliveries.map {
            "\($0.signedDate) \($0.notification.notificationUUID)"
        }

        let dates = try run().deliveries.map(\.signedDate)
        #expect(dates == dates.sorted())
        #expect(reversed == inOrder.reversed())
        #expect(shuffled != inOrder && shuffled.sorted() == inOrder.sorted())
    }

    @Test("a repeat comes later and has the same bytes")
    func repeats() throws {
        let plain = try run().deliveries.count
        let simulation = try run { $0.duplicate = 0.5 }
        var first: [String: [UInt8]] = [:]
        var repeats = 0

        for delivery in simulation.deliveries {
            let body = delivery.body()
            if let known = first[delivery.notification.notificationUUID] {
                #expect(known == body)
                repeats += 1
            } else {
                first[delivery.notification.notificationUUID] = body
            }
        }

        #expect(first.count == plain)
        #expect(repeats > plain / 4 && repeats < plain * 3 / 4)
    }

    @Test("duplicate 1 delivers every notification twice, lose 1 delivers none")
    func extremes() throws {
        let plain = try run().deliveries.count

        let twice = try run { $0.duplicate = 1 }.deliveries.count
        #expect(twice == 2 * plain)
        let lost = try run { $0.lose = 1 }
        #expect(lost.deliveries.isEmpty)
        #expect(lost.answers.allSatisfy { $0.isIncomplete })
    }

    @Test(
        "a subscription is incomplete if and only if one of its notifications is lost, or one of another that decides")
    func losses() throws {
        let all = Set(try run().deliveries.map(\.notification.notificationUUID))
        let bySubscription = Dictionary(
            grouping: try run().deliveries, by: \.originalTransactionId
        ).mapValues { Set($0.map(\.notification.notificationUUID)) }
        let simulation = try run { $0.lose = 0.1 }
        let delivered = Set(simulation.deliveries.map(\.notification.notificationUUID))

        #expect(delivered.isStrictSubset(of: all))
        for index in 0..<simulation.settings.subscriptions {
            let rendered = simulation.storyteller.story(at: index)
            let others = rendered.subscriptions.compactMap { bySubscription[$0.originalTransactionId] }
            for answer in simulation.answers(ofStory: index) {
                let own = try #require(bySubscription[answer.originalTransactionId])
                let deciding = rendered.story.isOneForAll ? others.reduce(own) { $0.union($1) } : own
                #expect(answer.isIncomplete == !deciding.isSubset(of: delivered), "\(rendered.story.name)")
            }
        }
    }

    @Test("version 1 omits stories that it does not cover, and both sends them in version 2 only")
    func formats() throws {
        let version2Only = Set(Story.allCases.filter { !$0.isCompleteInVersion1 })

        let version1 = try run { $0.format = .v1 }.deliveries
        let version2 = try run { $0.format = .v2 }.deliveries
        let both = try run { $0.format = .both }.deliveries

        #expect(version1.allSatisfy { $0.isVersion1 && !version2Only.contains($0.story) })
        #expect(version2.allSatisfy { !$0.isVersion1 })
        #expect(both.contains { $0.isVersion1 } && both.contains { !$0.isVersion1 && version2Only.contains($0.story) })
        #expect(!both.contains { $0.isVersion1 && version2Only.contains($0.story) })
        let nothing = settings {
            $0.format = .v1
            $0.stories = [.proratedRefund]
        }
        #expect(Simulation(nothing) == nil)
    }

    @Test("a subscription has at most twelve answers, and each story has active ones")
    func answers() throws {
        let simulation = try run { $0.subscriptions = 4 * Story.allCases.count }
        let answers = Array(simulation.answers)
        let bySubscription = Dictionary(grouping: answers, by: \.originalTransactionId)

        let rendered = (0..<simulation.settings.subscriptions).flatMap {
            simulation.storyteller.story(at: $0).subscriptions.map(\.originalTransactionId)
        }
        #expect(rendered.count > 5 * Story.allCases.count && Set(bySubscription.keys) == Set(rendered))
        #expect(bySubscription.values.allSatisfy { (1...12).contains($0.count) })
        #expect(answers.contains(where: \.active) && answers.contains { !$0.active })
        #expect(Set(answers.filter(\.active).map(\.story)) == Set(Story.allCases))
    }
}
