/// Limits how many attempts of a process are in flight, so that endpoints that answer slowly do not keep others waiting.
///
/// An endpoint is slow from the moment at which one of its attempts has lasted longer than ``Limits/quickTimeMax``, until
/// all of those have ended and another one was quicker. Attempts to slow endpoints have places of their own. An attempt
/// that turns slow gives its place back at once, so a place for quick ones is never held for longer than that time.
///
/// Of the endpoints that wait for a place, the one with the fewest attempts in flight is next, then the one that has
/// waited longest.
actor FlightLimit {
    /// The place of an attempt in flight.
    struct Place: Sendable, Hashable {
        fileprivate let number: UInt64
    }

    private enum Lane {
        case quick
        case slow
    }

    private struct Flight {
        let endpoint: String
        var lane: Lane
        /// Whether it has lasted for longer than a quick one.
        var isLate = false
        let timer: Task<Void, Never>
    }

    private struct Waiting {
        let number: UInt64
        let continuation: CheckedContinuation<Place, Never>
    }

    private struct EndpointState {
        var isSlow = false
        var flights = 0
        var lateFlights = 0
        var waiting: [Waiting] = []

        var lane: Lane { isSlow ? .slow : .quick }
    }

    /// Below zero while more attempts have turned slow than there are places for slow ones.
    private var free: [Lane: Int]
    private let untilLate: @Sendable () async throws -> Void
    private var endpoints: [String: EndpointState] = [:]
    private var flights: [Place: Flight] = [:]
    /// The endpoints with attempts that wait.
    private var waiting: Set<String> = []
    private var lastNumber: UInt64 = 0

    /// - Parameters:
    ///   - quick: Places for attempts that have not lasted long.
    ///   - slow: Places for attempts to endpoints that are slow.
    ///   - untilLate: Begins with each attempt, and returns when it has lasted longer than a quick one. Throws or returns
    ///     early if its task is cancelled.
    init(
        quick: Int = Limits.flightsMax, slow: Int = Limits.slowFlightsMax,
        untilLate: @escaping @Sendable () async throws -> Void = { try await Task.sleep(for: Limits.quickTimeMax) }
    ) {
        free = [.quick: quick, .slow: slow]
        self.untilLate = untilLate
    }

    /// Returns once there is a place for an attempt to an endpoint. Pair it with ``leave(_:)``.
    func enter(_ endpoint: String) async -> Place {
        let state = endpoints[endpoint, default: EndpointState()]
        // The next one that waits gets a place as soon as one is free.
        if free[state.lane, default: 0] > 0 { return begin(endpoint) }
        lastNumber += 1
        let number = lastNumber
        waiting.insert(endpoint)
        return await withCheckedContinuation { continuation in
            endpoints[endpoint, default: EndpointState()].waiting.append(
                Waiting(number: number, continuation: continuation))
        }
    }

    func leave(_ place: Place) {
        guard let flight = flights.removeValue(forKey: place), var state = endpoints[flight.endpoint] else { return }
        flight.timer.cancel()
        free[flight.lane, default: 0] += 1
        state.flights -= 1
        if flight.isLate { state.lateFlights -= 1 } else { state.isSlow = state.lateFlights > 0 }
        endpoints[flight.endpoint] = state
        fill()
    }

    /// Forgets what is known of an endpoint to which no attempt is in flight or waits.
    func forget(_ endpoint: String) {
        guard let state = endpoints[endpoint], state.flights == 0, state.waiting.isEmpty else { return }
        endpoints[endpoint] = nil
    }

    func isSlow(_ endpoint: String) -> Bool { endpoints[endpoint]?.isSlow ?? false }

    /// The attempts that wait for a place.
    var waitingCount: Int { waiting.reduce(0) { $0 + (endpoints[$1]?.waiting.count ?? 0) } }

    private func begin(_ endpoint: String) -> Place {
        lastNumber += 1
        let place = Place(number: lastNumber)
        var state = endpoints[endpoint, default: EndpointState()]
        free[state.lane, default: 0] -= 1
        state.flights += 1
        endpoints[endpoint] = state
        let timer = Task { [untilLate] in
            try? await untilLate()
            if !Task.isCancelled { turnLate(place) }
        }
        flights[place] = Flight(endpoint: endpoint, lane: state.lane, timer: timer)
        return place
    }

    private func turnLate(_ place: Place) {
        guard var flight = flights[place], var state = endpoints[flight.endpoint] else { return }
        free[flight.lane, default: 0] += 1
        free[.slow, default: 0] -= 1
        flight.lane = .slow
        flight.isLate = true
        flights[place] = flight
        state.isSlow = true
        state.lateFlights += 1
        endpoints[flight.endpoint] = state
        fill()
    }

    /// Gives free places to those that wait.
    private func fill() {
        for lane in [Lane.quick, .slow] {
            while free[lane, default: 0] > 0, let endpoint = next(in: lane) {
                guard let first = endpoints[endpoint]?.waiting.removeFirst() else { break }
                if endpoints[endpoint]?.waiting.isEmpty ?? true { waiting.remove(endpoint) }
                first.continuation.resume(returning: begin(endpoint))
            }
        }
    }

    private func next(in lane: Lane) -> String? {
        var next: (endpoint: String, flights: Int, number: UInt64)?
        for endpoint in waiting {
            guard let state = endpoints[endpoint], state.lane == lane, let first = state.waiting.first else { continue }
            if let next, (next.flights, next.number) <= (state.flights, first.number) { continue }
            next = (endpoint, state.flights, first.number)
        }
        return next?.endpoint
    }
}
