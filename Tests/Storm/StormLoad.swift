import StoreSimulator
import Subscriptions

/// What a storm delivers: one app in both environments, in both versions, shuffled and with repeats.
struct StormLoad: Sendable {
    static let app = "com.example.magazine"
    static let appleId: Int64 = 1_500_000_000

    let simulations: [Simulation]

    /// - Parameter deliveries: About how many there are to be.
    init(seed: UInt64, deliveries: Int) {
        // Told twice: how many deliveries a story has on average is not known before.
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
            settings.order = .shuffled
            settings.duplicate = 0.1
            return Simulation(settings)
        }
    }

    var count: Int { simulations.reduce(0) { $0 + $1.deliveries.count } }

    /// The delivery at a place in the order of sending, which goes from one environment to the other in turn.
    subscript(place: Int) -> Parcel {
        let counts = simulations.map(\.deliveries.count)
        let both = 2 * (counts.min() ?? 0)
        let simulation = place < both ? place % 2 : counts.firstIndex(of: counts.max() ?? 0) ?? 0
        let position = place < both ? place / 2 : place - both / 2
        return Parcel(
            simulations[simulation].deliveries[position], simulations[simulation].settings.app.environment)
    }
}
