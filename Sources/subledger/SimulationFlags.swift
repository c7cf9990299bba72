import ArgumentParser
import StoreSimulator
import Subscriptions

/// What `simulate` makes up: the flags from which a run follows.
struct SimulationFlags: ParsableArguments {
    @Option(help: ArgumentHelp("Stories to tell in turn, with commas between them. [all]", valueName: "names"))
    var stories: String?

    @Option(help: "How many stories to tell.")
    var subscriptions = 20

    @Option(help: "Runs with one seed are equal but for the bytes of signatures.")
    var seed: UInt64 = 1

    @Option(help: "in-order, shuffled or reversed.")
    var order = Simulation.Order.inOrder

    @Option(help: ArgumentHelp("The part to deliver twice, 0 to 1.", valueName: "part"))
    var duplicate = 0.0

    @Option(help: ArgumentHelp("The part never to deliver, 0 to 1.", valueName: "part"))
    var lose = 0.0

    @Option(help: "v1, v2 or both.")
    var format = Simulation.Format.v2

    @Option(
        help: ArgumentHelp("The app. [SUBLEDGER_APP_BUNDLE_ID; com.example.app]", valueName: "id"))
    var bundleId: String?

    @Option(
        help: ArgumentHelp("Apple's number for the app; needed for production in version 2.", valueName: "number"))
    var appleId: Int64?

    @Option(help: "sandbox or production.")
    var environment = SimulatedEnvironment.sandbox

    @Option(
        help: ArgumentHelp(
            "The shared secret in bodies of version 1; none without it. [SUBLEDGER_APP_SHARED_SECRET]",
            valueName: "secret"))
    var secret: String?

    enum SimulatedEnvironment: String, CaseIterable, ExpressibleByArgument {
        case sandbox, production
    }

    /// More would not fit the ids.
    private static let subscriptionsMax = 10_000_000

    func validate() throws {
        guard (1...Self.subscriptionsMax).contains(subscriptions) else {
            throw ValidationError("--subscriptions must be a number from 1 to \(Self.subscriptionsMax).")
        }
        for (name, part) in [("duplicate", duplicate), ("lose", lose)] where !(0...1).contains(part) {
            throw ValidationError("--\(name) must be a part, from 0 to 1.")
        }
        if environment == .production, format != .v1, appleId == nil {
            throw ValidationError("Production in version 2 needs --apple-id, as Apple always sends it.")
        }
        let named = try namedStories()
        if format == .v1, !named.contains(where: \.isTellableInVersion1) {
            throw ValidationError("Version 1 does not tell what these stories are about.")
        }
    }

    private func namedStories() throws -> [Story] {
        guard let stories else { return Story.allCases }
        return try stories.split(separator: ",").map { name in
            guard let story = Story(rawValue: String(name)) else {
                let known = Story.allCases.map(\.name).joined(separator: ", ")
                throw ValidationError("There is no story \"\(name)\". There are: \(known).")
            }
            return story
        }
    }

    func simulation() throws -> Simulation {
        let settings = Settings(
            flags: settings([(["app", "bundle", "id"], bundleId), (["app", "shared", "secret"], secret)]))
        let app = SimulatedApp(
            bundleId: settings.appBundleId ?? "com.example.app", appAppleId: appleId,
            environment: environment == .production ? .production : .sandbox, sharedSecret: settings.appSharedSecret)
        var run = Simulation.Settings(app: app)
        run.seed = seed
        run.subscriptions = subscriptions
        run.stories = try namedStories()
        run.format = format
        run.order = order
        run.duplicate = duplicate
        run.lose = lose
        guard let simulation = Simulation(run) else { throw SettingError(description: "there is no story to tell") }
        return simulation
    }
}

extension Simulation.Format: ExpressibleByArgument {}
extension Simulation.Order: ExpressibleByArgument {}
