import Encoding
import Simulation
import TestSupport
import Testing

@Suite("Subscriptions that go on until an instant")
struct GoingOnTests {
    private static let window = StoryWindow(until: day("2026-10-20T07:30:05.250Z"), churn: 0.06)
    private static let end = day("2026-10-20T07:30:05Z")

    private func storyteller(_ seed: UInt64) -> Storyteller {
        Storyteller(seed: seed, app: testApp.bundleId, window: Self.window)
    }

    private func play(_ seed: UInt64) -> PlayStoryteller {
        var settings = PlayStoryteller.Settings()
        settings.seed = seed
        settings.window = Self.window
        return PlayStoryteller(settings)
    }

    @Test("the window is as long as the standard one, and ends with a whole second")
    func length() {
        #expect(Self.window.end == Self.end)
        #expect(Self.window.start == day("2025-04-22T07:30:06Z"))
        #expect(Self.window.goesOn && !StoryWindow.standard.goesOn)
    }

    @Test(
        "no event of the App Store is later than the instant, and notifications are a second apart",
        arguments: UInt64(1)...3)
    func apple(_ seed: UInt64) {
        let storyteller = storyteller(seed)
        for index in 0..<2 * Story.allCases.count {
            let rendered = storyteller.story(at: index)
            let name: Comment = "story \(index): \(rendered.story.name)"
            #expect(rendered.statements.allSatisfy { $0.sentAt <= Self.end }, name)
            for subscription in rendered.subscriptions {
                let signed = subscription.notifications.map(\.signedDate)
                let started = subscription.purchases.map(\.purchaseDate)
                #expect((signed + started).allSatisfy { Self.window.start <= $0 && $0 <= Self.end }, name)
                #expect(subscription.history.allSatisfy { $0.at <= Self.end }, name)
                for (earlier, later) in zip(signed, signed.dropFirst()) {
                    #expect(later.milliseconds - earlier.milliseconds >= 1000, name)
                }
            }
        }
    }

    @Test("no event of Google Play is later than the instant, and no id is used twice", arguments: UInt64(1)...3)
    func google(_ seed: UInt64) {
        let storyteller = play(seed)
        var seen: Set<String> = []
        for index in 0..<2 * PlayStory.allCases.count {
            let rendered = storyteller.story(at: index)
            let name: Comment = "story \(index): \(rendered.story.name)"
            let instants = rendered.messages.map(\.eventTime) + rendered.voids.map(\.seenAt)
            #expect(instants.allSatisfy { Self.window.start <= $0 && $0 <= Self.end }, name)
            for id in rendered.messages.map(\.messageId) + rendered.orders.map(\.orderId) {
                #expect(seen.insert(id).inserted, name)
            }
        }
    }

    @Test("purchases reach the last days, and many subscriptions of both stores are active at the instant")
    func activeNow() {
        let apple = (0..<200).flatMap { storyteller(4).story(at: $0).subscriptions }
            .filter { $0.purchases.contains { $0.expiresDate != nil } }
        let google = (0..<200).flatMap { play(4).story(at: $0).subscriptions }
        let newest = [
            apple.flatMap { $0.purchases.map(\.purchaseDate) }.max(),
            google.flatMap { $0.messages.map(\.eventTime) }.max(),
        ]

        #expect(newest.allSatisfy { $0.map { $0 > day("2026-10-18") } == true })
        #expect(apple.count { $0.access.isActive(at: Self.end) } > apple.count / 5)
        #expect(google.count { $0.key.access.isActive(at: Self.end) } > google.count / 5)
        // Both know prices of several countries, some of them without decimals.
        #expect(Set(apple.map(\.customer.storefront)) == Set(Storefront.all))
        #expect(Set(google.map(\.customer.storefront)) == Set(Storefront.all))
    }

    @Test("about six of a hundred subscriptions churn in a month")
    func churn() throws {
        var settings = Simulation.Settings(app: testApp)
        settings.subscriptions = 600
        settings.stories = Story.amongOthers
        settings.window = Self.window
        let figures = try #require(Simulation(settings)).figures.values
        var totals: [String: Int64] = [:]
        for (name, value) in figures {
            let words = name.split(separator: " ")
            // Half a year after the first stories, in months that are over.
            guard words[0] == "churn_rate", "2025-11-01"..."2026-09-01" ~= String(words[1]) else { continue }
            totals[String(words[3]), default: 0] += value
        }
        let churned = Double(totals["churned"] ?? 0) / Double(totals["subscriptions"] ?? 1)

        #expect(totals["subscriptions"] ?? 0 > 1000)
        #expect(0.04...0.08 ~= churned, "\(churned)")
    }

    @Test(
        "the fold and the simulator agree on access until the instant",
        arguments: [Simulation.Format.v2, .both], [CrossCheck.Receipt.promptly, .late])
    func crossCheck(_ format: Simulation.Format, _ receipt: CrossCheck.Receipt) async throws {
        var settings = Simulation.Settings(app: testApp)
        settings.app.receiptCharacters = 64
        settings.seed = 11
        settings.subscriptions = TestScale.count(Story.allCases.count, full: 4 * Story.allCases.count)
        settings.format = format
        settings.order = .shuffled
        settings.window = Self.window

        let differences = try await CrossCheck.differences(settings, receipt)

        #expect(differences.isEmpty, "\(differences.count): \(differences.prefix(5).map(\.description))")
    }
}
