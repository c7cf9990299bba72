import CoreMetrics
import Synchronization

/// Stores metrics in memory and renders them in Prometheus' text format.
///
/// Timers and aggregating recorders are stored as the sum and the number of their observations, those of
/// ``MetricDescriptions/withBuckets`` also by their size.
package final class MetricsRegistry: MetricsFactory, Sendable {
    private let series = Mutex<[String: Series]>([:])
    private let updates = Mutex<[@Sendable () async -> Void]>([])

    package init() {}

    package var prometheusText: String {
        let all = series.withLock { $0 }
        var text = ""
        var described: Set<String> = []
        for series in all.values.sorted(by: { ($0.name, $0.labels) < ($1.name, $1.labels) }) {
            if described.insert(series.name).inserted {
                text += MetricDescriptions.head(of: series.name, series.kind.rawValue)
            }
            text += series.text
        }
        return text
    }

    /// Adds an update that sets gauges before each ``scrape()``.
    package func beforeScrape(_ update: @escaping @Sendable () async -> Void) {
        updates.withLock { $0.append(update) }
    }

    /// Returns the text for Prometheus with gauges as they are now, and with the figures of the process.
    func scrape() async -> String {
        for update in updates.withLock({ $0 }) { await update() }
        return prometheusText + ProcessFigures.read().text
    }

    /// The values of all series of a metric, with their labels as ``prometheusText`` has them, in order of these.
    func values(of name: String) -> [(labels: String, value: Double)] {
        series.withLock { $0.values.filter { $0.name == name } }.map { ($0.labels, $0.value) }.sorted { $0.0 < $1.0 }
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        find(label, dimensions, .counter)
    }

    package func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        find(label, dimensions, aggregate ? .summary : .gauge)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        find(label, dimensions, MetricDescriptions.withBuckets.contains(label) ? .histogram : .summary)
    }

    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}

    private func find(_ name: String, _ dimensions: [(String, String)], _ kind: Series.Kind) -> Series {
        let labels = dimensions.map { "\($0.0)=\"\(Self.escaped($0.1))\"" }.joined(separator: ",")
        let identity = labels.isEmpty ? name : "\(name){\(labels)}"
        return series.withLock { all in
            if let known = all[identity] { return known }
            let made = Series(name: name, labels: labels, kind: kind)
            all[identity] = made
            return made
        }
    }

    private static func escaped(_ value: String) -> String {
        var result = ""
        for character in value {
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.append(character)
            }
        }
        return result
    }
}

/// One metric with one set of labels.
private final class Series: CounterHandler, RecorderHandler, TimerHandler, Sendable {
    enum Kind: String {
        case counter, gauge, summary, histogram
    }

    let name: String
    let labels: String
    let kind: Kind
    private let state = Mutex(State())

    private struct State {
        /// The sum of a counter, summary or histogram, or the latest value of a gauge.
        var value = 0.0
        var observations: Int64 = 0
        /// Observations by the first bound that they do not exceed; those above the last bound are not among them.
        var buckets = [Int64](repeating: 0, count: MetricDescriptions.boundsSeconds.count)
    }

    init(name: String, labels: String, kind: Kind) {
        self.name = name
        self.labels = labels
        self.kind = kind
    }

    var identity: String { labels.isEmpty ? name : "\(name){\(labels)}" }

    var value: Double { state.withLock { $0.value } }

    var text: String {
        let state = state.withLock { $0 }
        let (value, observations) = (state.value, state.observations)
        let suffix = labels.isEmpty ? "" : "{\(labels)}"
        switch kind {
        case .counter: return "\(name)\(suffix) \(Int64(value))\n"
        case .gauge: return "\(name)\(suffix) \(value)\n"
        case .summary: return "\(name)_sum\(suffix) \(value)\n\(name)_count\(suffix) \(observations)\n"
        case .histogram:
            return bucketLines(state) + "\(name)_sum\(suffix) \(value)\n\(name)_count\(suffix) \(observations)\n"
        }
    }

    private func bucketLines(_ state: State) -> String {
        let others = labels.isEmpty ? "" : "\(labels),"
        var (text, sum) = ("", Int64(0))
        for (bound, count) in zip(MetricDescriptions.boundsSeconds, state.buckets) {
            sum += count
            text += "\(name)_bucket{\(others)le=\"\(bound)\"} \(sum)\n"
        }
        return text + "\(name)_bucket{\(others)le=\"+Inf\"} \(state.observations)\n"
    }

    func increment(by amount: Int64) {
        state.withLock { $0.value += Double(amount) }
    }

    func reset() {
        state.withLock { $0 = State() }
    }

    func record(_ value: Int64) {
        record(Double(value))
    }

    func record(_ value: Double) {
        state.withLock { state in
            state.value = kind == .gauge ? value : state.value + value
            state.observations += 1
            guard kind == .histogram else { return }
            if let index = MetricDescriptions.boundsSeconds.firstIndex(where: { value <= $0 }) {
                state.buckets[index] += 1
            }
        }
    }

    /// Recorded in seconds, Prometheus' unit of time.
    func recordNanoseconds(_ duration: Int64) {
        record(Double(duration) / 1_000_000_000)
    }
}
