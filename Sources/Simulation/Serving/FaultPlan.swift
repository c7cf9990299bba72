import Encoding

/// The faults that tests give the next requests to a simulated store, and the number of earlier requests by subject.
struct FaultPlan<Fault: Sendable>: Sendable {
    private var injected: [Fault] = []
    private var numbers: [String: Int] = [:]

    mutating func inject(_ fault: Fault, requests: Int) {
        injected += Array(repeating: fault, count: requests)
    }

    /// Takes back the faults that no request has had yet.
    mutating func withdraw() { injected = [] }

    /// The injected fault of the next request; nil if it has none.
    mutating func next() -> Fault? { injected.isEmpty ? nil : injected.removeFirst() }

    /// The same, with the number of earlier requests about a subject.
    mutating func next(about subject: String) -> (injected: Fault?, number: Int) {
        let number = numbers[subject, default: 0]
        numbers[subject] = number + 1
        return (next(), number)
    }
}

/// Draws which requests of a run have a fault, by its seed and the simulated clock.
struct FaultDraw: Sendable {
    let seed: UInt64
    /// The fraction of requests with a fault, 0 to 1. Half of them are in outages, which last ten minutes of the clock.
    let fraction: Double

    private static let outageMilliseconds: Int64 = 600_000

    /// The number of the ten minutes in which an instant is.
    static func slot(of instant: Instant) -> UInt64 { UInt64(instant.milliseconds / outageMilliseconds) }

    /// A number for a text. FNV-1a: the same in each process, unlike a hash value.
    static func mark(_ subject: String) -> UInt64 {
        subject.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }

    /// What draws the fault of an outage; nil if there is none.
    ///
    /// - Parameter path: Selects what is drawn, and ends with a number that no other draw of the run has.
    func outage(_ path: UInt64...) -> SplitMix64? { drawn(path, below: fraction / 2) }

    /// What draws the fault of a single request outside of outages; nil if it has none.
    func single(_ path: UInt64...) -> SplitMix64? {
        // Of the other requests, so that the parts add up.
        drawn(path, below: fraction / (2 - fraction))
    }

    private func drawn(_ path: [UInt64], below limit: Double) -> SplitMix64? {
        guard fraction > 0 else { return nil }
        var random = SplitMix64(seed: seed, path)
        return random.fraction() < limit ? random : nil
    }
}
