import Simulation
import Synchronization

/// What sends to the server of a run. It is made once the server's address is known, and outlives the server.
final class Posters: Sendable {
    private let made = Mutex<(apple: TimetablePoster?, google: PurchasePoster?)>((nil, nil))

    func apple(_ make: () -> TimetablePoster) -> TimetablePoster {
        let poster = make()
        made.withLock { $0.apple = poster }
        return poster
    }

    func google(_ make: () -> PurchasePoster) -> PurchasePoster {
        let poster = make()
        made.withLock { $0.google = poster }
        return poster
    }

    /// Closes the connections. Call it once, when no request is in flight.
    func end() async {
        let (apple, google) = made.withLock { $0 }
        await apple?.end()
        await google?.end()
    }
}
