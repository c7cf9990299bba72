import ArgumentParser
import Encoding
import Server
import Simulation
import Subscriptions

/// The flags of `store-simulator` that determine a run.
struct SimulationFlags: ParsableArguments {
    @Option(help: "The store to simulate: apple, google or both, for the same customers where they can be.")
    var store = SimulatedStores.apple

    @Option(help: ArgumentHelp("Stories to simulate in turn, separated by commas. [all]", valueName: "names"))
    var stories: String?

    @Option(help: "The number of stories to simulate.")
    var subscriptions = 20

    @Option(
        help: ArgumentHelp(
            """
            Let the stories reach this instant, not later than now: now, or a date such as 2026-11-01. Subscriptions go on \
            until then. [all stories end in June 2026]
            """, valueName: "instant"))
    var until: StoriesUntil?

    @Option(
        help: ArgumentHelp(
            "With --until, the fraction of subscriptions that are cancelled in a month, 0 to 1. [0.06]",
            valueName: "fraction"))
    var churn: Double?

    @Option(help: "Runs with equal seeds differ in the bytes of signatures only.")
    var seed: UInt64 = 1

    @Option(help: "The order of notifications: in-order, shuffled or reversed.")
    var order = Simulation.Order.inOrder

    @Option(help: ArgumentHelp("The fraction of notifications to deliver twice, 0 to 1.", valueName: "fraction"))
    var duplicate = 0.0

    @Option(help: ArgumentHelp("The fraction of notifications never to deliver, 0 to 1.", valueName: "fraction"))
    var lose = 0.0

    @Option(help: "The server's ownership policy for the app: latest-buyer, first-buyer or shared.")
    var ownership = OwnershipPolicy.standard

    @Option(help: "The version of notifications: v1, v2 or both.")
    var format = Simulation.Format.v2

    @Option(
        help: ArgumentHelp("The app's bundle ID. [SUBLEDGER_APP_BUNDLE_ID; com.example.app]", valueName: "id"))
    var bundleId: String?

    @Option(
        help: ArgumentHelp("The app's Apple ID; required for production in version 2.", valueName: "number"))
    var appleId: Int64?

    @Option(help: "The App Store environment: sandbox or production.")
    var environment = SimulatedEnvironment.sandbox

    @Option(
        help: ArgumentHelp(
            "The shared secret in bodies of version 1. [SUBLEDGER_APP_SHARED_SECRET; none]",
            valueName: "secret"))
    var secret: String?

    enum SimulatedEnvironment: String, CaseIterable, ExpressibleByArgument {
        case sandbox, production
    }

    /// Larger numbers would not fit into the ids.
    private static let subscriptionsMax = 10_000_000

    func validate() throws {
        guard (1...Self.subscriptionsMax).contains(subscriptions) else {
            throw ValidationError("--subscriptions is out of range: expected 1 to \(Self.subscriptionsMax).")
        }
        for (name, fraction) in [("duplicate", duplicate), ("lose", lose), ("churn", churn ?? 0)]
        where !(0...1).contains(fraction) {
            throw ValidationError("--\(name) is out of range: expected 0 to 1.")
        }
        guard churn == nil || until != nil else { throw ValidationError("--churn requires --until.") }
        if let until {
            let ends = StoryWindow.ends
            guard ends.contains(until.instant), until.instant <= SystemClock.now() else {
                throw ValidationError("--until is out of range: expected \(ends.lowerBound) to now.")
            }
        }
        if store != .google, environment == .production, format != .v1, appleId == nil {
            throw ValidationError("--environment production in version 2 requires --apple-id.")
        }
        if store != .apple { _ = try namedPlayStories() }
        guard store != .google else { return }
        let named = try namedStories()
        if format == .v1, !named.contains(where: \.isCompleteInVersion1) {
            throw ValidationError("--format v1 covers none of these stories: expected v2 or both.")
        }
    }

    private func namedStories() throws -> [Story] {
        isMixed ? Story.amongOthers : try named(Story.self, besides: PlayStory.self)
    }

    private func namedPlayStories() throws -> [PlayStory] {
        isMixed ? PlayStory.amongOthers : try named(PlayStory.self, besides: Story.self)
    }

    private var isMixed: Bool { until != nil && stories == nil }

    /// The stories of one store. With both stores, each name may belong to one of them.
    private func named<Own, Other>(_: Own.Type, besides _: Other.Type) throws -> [Own]
    where Own: CaseIterable & RawRepresentable<String>, Other: CaseIterable & RawRepresentable<String> {
        guard let stories else { return Array(Own.allCases) }
        let names = stories.split(separator: ",").map(String.init)
        for name in names where Own(rawValue: name) == nil && (store != .both || Other(rawValue: name) == nil) {
            let known = Own.allCases.map(\.rawValue) + (store == .both ? Other.allCases.map(\.rawValue) : [])
            throw ValidationError("unknown story \"\(name)\": expected \(known.joined(separator: ", ")).")
        }
        let own = names.compactMap(Own.init(rawValue:))
        return own.isEmpty && !names.isEmpty ? Array(Own.allCases) : own
    }

    private static let standardChurn = 0.06

    /// The time in which the stories lie.
    var window: StoryWindow {
        until.map { StoryWindow(until: $0.instant, churn: churn ?? Self.standardChurn) } ?? .standard
    }

    /// The secret of a run in step without one; receipts need one.
    private static let simulatedSecret = "simulated-shared-secret"

    /// - Parameters:
    ///   - isInStep: See `Simulation.Settings`.
    ///   - losesNothing: Whether the server gets every notification in the end, because it audits their delivery.
    func simulation(isInStep: Bool = false, losesNothing: Bool = false) throws -> Simulation {
        let settings = Settings(
            flags: settings([(["app", "bundle", "id"], bundleId), (["app", "shared", "secret"], secret)]))
        let app = SimulatedApp(
            bundleId: settings.appBundleId ?? "com.example.app", appAppleId: appleId,
            environment: environment == .production ? .production : .sandbox,
            sharedSecret: settings.appSharedSecret ?? (isInStep ? Self.simulatedSecret : nil))
        var run = Simulation.Settings(app: app)
        run.seed = seed
        run.subscriptions = subscriptions
        run.stories = try namedStories()
        run.format = format
        run.order = order
        run.duplicate = duplicate
        run.lose = losesNothing ? 0 : lose
        run.isInStep = isInStep
        run.ownership = ownership
        run.window = window
        guard let simulation = Simulation(run) else {
            throw SettingError(description: "the format covers none of the stories")
        }
        return simulation
    }
}

extension SimulationFlags {
    /// - Parameter joined: The run of the App Store with the same customers; nil if there is none.
    func playSimulation(_ flags: PlayFlags, joined: Simulation?, isInStep: Bool = false) throws -> PlaySimulation {
        let settings = Settings(flags: settings([(["app", "bundle", "id"], bundleId)]))
        let bundleId = settings.appBundleId ?? "com.example.app"
        var simulated = PlayStoryteller.Settings()
        simulated.seed = seed
        simulated.window = window
        simulated.stories = try namedPlayStories()
        simulated.bundleId = bundleId
        // A server of both stores has an app of each.
        simulated.packageName = flags.packageName ?? (isInStep && joined != nil ? "\(bundleId).android" : bundleId)
        simulated.isAcknowledgedByApp = !flags.serverAcknowledges && !isInStep
        return PlaySimulation(simulated, count: subscriptions, ownership: ownership, joined: joined)
    }
}

/// The instant that the stories of a run reach.
struct StoriesUntil: ExpressibleByArgument {
    let instant: Instant

    init?(argument: String) {
        guard let instant = argument == "now" ? SystemClock.now() : Instant(iso8601: argument) else { return nil }
        self.instant = instant
    }
}

extension Simulation.Format: ExpressibleByArgument {}
extension Simulation.Order: ExpressibleByArgument {}
extension OwnershipPolicy: ExpressibleByArgument {}
