import AppStore
import Encoding
import EventLog
import PlayStore
import Simulation
import Subscriptions
import TestSupport
import Testing

/// A simulated run of one store for the analyst views: the events of its log, and the figures of the store's books.
struct AnalystRun {
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case appleV2, appleBoth, google

        var testDescription: String { rawValue }
    }

    /// In the order of their arrival.
    let events: [PreparedEvent]
    /// What arrives after all of that and changes figures of the past.
    let late: [PreparedEvent]
    /// Views with such figures.
    let changed: [String]
    /// Nil if customers are not linked.
    let linked: Simulation?
    /// The figures of the books at an instant; nil for that of the end.
    let figures: @Sendable (Instant?) -> [String: Int64]

    init(_ kind: Kind, stories: Int, window: StoryWindow = .standard) async throws {
        switch kind {
        case .appleV2: try await self.init(apple: .v2, stories, window)
        case .appleBoth: try await self.init(apple: .both, stories, window)
        case .google: try self.init(googlePlay: stories, window)
        }
    }

    private init(apple format: Simulation.Format, _ stories: Int, _ window: StoryWindow) async throws {
        guard
            let simulation = AnalystLog.simulation(
                seed: TestSeed.value, subscriptions: stories, format: format, window: window)
        else { preconditionFailure("no story matches the settings") }
        func events(_ isLate: Bool) async throws -> [PreparedEvent] {
            let deliveries = simulation.deliveries.filter {
                isLate == ($0.notification.version2?.type == "REFUND" || $0.notification.version1 == "CANCEL")
            }
            return try await AnalystLog.verified(deliveries).map {
                PreparedEvent($0.notification, receivedAt: $0.receivedAt)
            }
        }
        self.events = try await events(false)
        late = try await events(true)
        changed = ["refunds", "movements"]
        linked = simulation
        figures = { instant in (instant.map { simulation.figures(asOf: $0) } ?? simulation.figures).values }
    }

    private init(googlePlay stories: Int, _ window: StoryWindow) throws {
        var settings = PlayStoryteller.Settings()
        settings.seed = TestSeed.value
        settings.stories = PlayStory.allCases.filter { !$0.isTest }
        settings.window = window
        settings.packageName = "com.example.app.android"
        let simulation = PlaySimulation(settings, count: stories)
        let told = try AnalystLog.told(by: simulation)
        events = told.events
        late = told.orders
        // Most refunds of amounts are in the orders alone, and so is what one-time purchases cost.
        changed = ["refunds", "revenue"]
        linked = nil
        figures = { [ends = told.ends] in simulation.figures(asOf: $0, acknowledged: ends).values }
    }
}

extension AnalystLog {
    /// What a server knows of the purchases of a run on Google Play.
    struct Told {
        /// The pushes, and the answers after each of them and each hand-in, in the order of time.
        var events: [PreparedEvent] = []
        /// The answers about all orders at the end of the window.
        var orders: [PreparedEvent] = []
        /// The answers by which alone an end can be dated, as ``PlaySimulation/figures(asOf:acknowledged:)`` needs them.
        var ends: [Int: [String: Instant]] = [:]
    }

    static func told(by simulation: PlaySimulation) throws -> Told {
        let (storyteller, packageName) = (simulation.storyteller, simulation.packageName)
        let verifier = PushVerifier(apps: [PlayApp(packageName: packageName, pushAuthentication: .none)])
        let rendering = PlayRendering(packageName: packageName)
        var told = Told()
        for number in 0..<simulation.count {
            let story = storyteller.story(at: number)
            for life in AskedLife.all(of: story) {
                var asked = AskedPurchases(life, packageName: packageName)
                for occasion in life.occasions(handIns: story.handIns) {
                    if let message = occasion.message {
                        let push = try verifier.verify(
                            PushMessage(decoding: message.notification(rendering)), authorization: nil, keys: .empty,
                            now: occasion.at)
                        told.events.append(PreparedEvent(push, receivedAt: occasion.at))
                    }
                    _ = try asked.ask(after: occasion)
                }
                let answers = asked.statements.count
                try asked.askAboutOrders(at: storyteller.settings.window.end)
                let events = asked.statements.map { PreparedEvent($0, receivedAt: $0.answeredAt) }
                told.events += events.prefix(answers)
                told.orders += events.dropFirst(answers)
                if let end = asked.undatedEnd {
                    told.ends[number, default: [:]][PlayLife.endKey(of: end.token)] = end.at
                }
            }
        }
        told.events = told.events.enumerated().sorted {
            ($0.element.receivedAt, $0.offset) < ($1.element.receivedAt, $1.offset)
        }.map(\.element)
        return told
    }
}
