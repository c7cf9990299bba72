import Simulation
import Subscriptions

/// The notifications of a storm: one app in both environments and both versions, shuffled and with repeats.
struct StormLoad: Sendable {
    static let app = "com.example.magazine"
    static let appleId: Int64 = 1_500_000_000

    let simulations: [Simulation]

    /// - Parameter deliveries: The approximate number of deliveries.
    init(seed: UInt64, deliveries: Int) {
        // Renders a sample first to find the average number of deliveries per story.
        let sample = Self.simulations(seed: seed, subscriptions: 32).reduce(0) { $0 + $1.deliveries.count }
        simulations = Self.simulations(seed: seed, subscriptions: max(1, deliveries * 32 / max(1, sample)))
    }

    private static func simulations(seed: UInt64, subscriptions: Int) -> [Simulation] {
        [Environment.sandbox, .production].enumerated().compactMap { number, environment in
            var settings = Simulation.Settings(
                app: SimulatedApp(
                    bundleId: app, appAppleId: appleId, environment: environment, sharedSecret: Canary.secret))
            settings.app.receiptCharacters = 4000
            settings.seed = seed &+ UInt64(number)
            settings.subscriptions = subscriptions
            settings.format = .both
            // The check of the end folds each subscription by itself, and a moved purchase needs both of its subscriptions.
            settings.stories.removeAll { [.moved, .movedBack].contains($0) }
            settings.order = .shuffled
            settings.duplicate = 0.1
            return Simulation(settings)
        }
    }

    var count: Int { simulations.reduce(0) { $0 + $1.deliveries.count } }

    /// The delivery at a place in the order of sending, which alternates between the environments.
    subscript(place: Int) -> Parcel {
        let counts = simulations.map(\.deliveries.count)
        let both = 2 * (counts.min() ?? 0)
        let simulation = place < both ? place % 2 : counts.firstIndex(of: counts.max() ?? 0) ?? 0
        let position = place < both ? place / 2 : place - both / 2
        return Parcel(
            simulations[simulation].deliveries[position], simulations[simulation].settings.app.environment)
    }
}
