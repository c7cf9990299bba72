import CoreMetrics
import Synchronization

/// Stores metrics in memory and renders them in Prometheus' text format.
///
/// Timers and aggregating recorders are stored as the sum and the number of their observations.
package final class MetricsRegistry: MetricsFactory, Sendable {
    private let series = Mutex<[String: Series]>([:])

    package init() {}

    package var prometheusText: String {
        let all = series.withLock { $0 }
        var text = ""
        var described: Set<String> = []
        for series in all.values.sorted(by: { $0.identity < $1.identity }) {
            if described.insert(series.name).inserted { text += "# TYPE \(series.name) \(series.kind.rawValue)\n" }
            text += series.text
        }
        return text
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
        find(label, dimensions, .summary)
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
        case counter, gauge, summary
    }

    let name: String
    let labels: String
    let kind: Kind
    private let state = Mutex((value: 0.0, observations: Int64(0)))

    init(name: String, labels: String, kind: Kind) {
        self.name = name
        self.labels = labels
        self.kind = kind
    }

    var identity: String { labels.isEmpty ? name : "\(name){\(labels)}" }

    var value: Double { state.withLock { $0.value } }

    var text: String {
        let (value, observations) = state.withLock { $0 }
        let suffix = labels.isEmpty ? "" : "{\(labels)}"
        switch kind {
        case .counter: return "\(name)\(suffix) \(Int64(value))\n"
        case .gauge: return "\(name)\(suffix) \(value)\n"
        case .summary: return "\(name)_sum\(suffix) \(value)\n\(name)_count\(suffix) \(observations)\n"
        }
    }

    func increment(by amount: Int64) {
        state.withLock { $0.value += Double(amount) }
    }

    func reset() {
        state.withLock { $0 = (0, 0) }
    }

    func record(_ value: Int64) {
        record(Double(value))
    }

    func record(_ value: Double) {
        state.withLock { state in
            state.value = kind == .gauge ? value : state.value + value
            state.observations += 1
        }
    }

    /// Recorded in seconds, Prometheus' unit of time.
    func recordNanoseconds(_ duration: Int64) {
        record(Double(duration) / 1_000_000_000)
    }
}
