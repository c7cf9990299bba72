import Encoding

/// What became of some notifications. See the comments of table `subledger.delivery_audit`.
package struct DeliveryCount: Sendable, Hashable {
    /// Where a notification is, once what was missing has been fetched.
    package enum Place: Sendable, Hashable {
        /// In the log because Apple posted it.
        case arrived(Instant)
        /// In the log because it was fetched.
        case fetched(Instant)
        /// Not in the log: it is not verified.
        case refused
    }

    package private(set) var made: Int64 = 0
    package private(set) var delivered: Int64 = 0
    package private(set) var arrived: Int64 = 0
    package private(set) var fetched: Int64 = 0
    package private(set) var refused: Int64 = 0
    package private(set) var lost: Int64 = 0
    package private(set) var before: Int64 = 0
    package private(set) var answeredLate: Int64 = 0
    package private(set) var attempts: Int64 = 0
    /// The attempts by result.
    package private(set) var results: [String: Int64] = [:]
    private var sent = Lags()
    private var retried = Lags()
    private var arrivals = Lags()

    package init() {}

    /// A delivery that long after an arrival is another attempt. Apple repeats after an hour at the earliest.
    private static let repeatedAfter = Duration.seconds(1800)

    /// - Parameters:
    ///   - attempts: Each with its time and result.
    ///   - succeededAt: The time of the attempt with success; nil if none had.
    ///   - listeningSince: Since when this installation listens to the app. An attempt that had success before it went to
    ///     another URL. Nil if it does not listen.
    package mutating func add(
        _ place: Place, signedAt: Instant, attempts: [(at: Instant, result: String)], succeededAt: Instant?,
        listeningSince: Instant?
    ) {
        made += 1
        self.attempts += Int64(attempts.count)
        for attempt in attempts { results[attempt.result, default: 0] += 1 }
        let first = attempts.map(\.at).min()
        if let first { sent.add(from: signedAt, to: first) }
        if let succeededAt {
            delivered += 1
            if let first { retried.add(from: first, to: succeededAt) }
        }
        switch place {
        case .arrived(let receivedAt):
            arrived += 1
            guard let succeededAt else { return }
            if receivedAt.duration(to: succeededAt) >= Self.repeatedAfter {
                answeredLate += 1
            } else {
                arrivals.add(from: succeededAt, to: receivedAt)
            }
        case .fetched(let receivedAt):
            fetched += 1
            guard let succeededAt, succeededAt < receivedAt else { return }
            if succeededAt < listeningSince ?? .latest { before += 1 } else { lost += 1 }
        case .refused: refused += 1
        }
    }

    package mutating func add(_ other: DeliveryCount) {
        made += other.made
        delivered += other.delivered
        arrived += other.arrived
        fetched += other.fetched
        refused += other.refused
        lost += other.lost
        before += other.before
        answeredLate += other.answeredLate
        attempts += other.attempts
        results.merge(other.results) { $0 + $1 }
        sent.add(other.sent)
        retried.add(other.retried)
        arrivals.add(other.arrivals)
    }

    func writeResults(to writer: inout JSONWriter) {
        writer.object { writer in
            for (result, count) in results.sorted(by: { $0.key < $1.key }) {
                writer.key(result)
                writer.value(count)
            }
        }
    }

    func writeLags(to writer: inout JSONWriter) {
        writer.object { writer in
            for (name, lags) in [("sent", sent), ("retried", retried), ("arrived", arrivals)] where !lags.isEmpty {
                writer.key(name)
                lags.write(to: &writer)
            }
        }
    }
}

/// Durations of which percentiles are wanted.
private struct Lags: Sendable, Hashable {
    private var milliseconds: [Int64] = []

    var isEmpty: Bool { milliseconds.isEmpty }

    mutating func add(from start: Instant, to end: Instant) {
        milliseconds.append(end.milliseconds - start.milliseconds)
    }

    mutating func add(_ other: Lags) { milliseconds += other.milliseconds }

    /// `{"p50":1.5,"p99":3600.000,"max":7200.000}`, in seconds.
    func write(to writer: inout JSONWriter) {
        let sorted = milliseconds.sorted()
        writer.object { writer in
            for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1)] {
                // The nearest rank.
                let rank = max(1, Int((part * Double(sorted.count)).rounded(.up)))
                writer.key(name)
                writer.value(rawJSON: Self.seconds(sorted[rank - 1]))
            }
        }
    }

    private static func seconds(_ milliseconds: Int64) -> String {
        let thousandths = String(milliseconds.magnitude % 1000)
        let fraction = String(repeating: "0", count: 3 - thousandths.count) + thousandths
        return "\(milliseconds < 0 ? "-" : "")\(milliseconds.magnitude / 1000).\(fraction)"
    }
}
