import Metrics
import Subscriptions

/// A label of a metric, with all its values.
package struct MetricLabel: Sendable {
    fileprivate let name: String
    fileprivate let values: [String]

    package init(_ name: String, _ values: [String]) {
        self.name = name
        self.values = values
    }

    package init(_ name: String, _ values: [some RawRepresentable<String>]) {
        self.init(name, values.map(\.rawValue))
    }
}

/// The counters of one metric, one for each combination of the values of its labels. They are created at start, so that the
/// first occurrence of each is visible as an increase from zero.
package struct CounterTable: Sendable {
    /// By the values of the labels, in their order.
    private let counters: [[String]: Counter]

    package init(_ name: String, _ labels: [MetricLabel], factory: any MetricsFactory = MetricsSystem.factory) {
        counters = labels.series { dimensions in
            let counter = Counter(label: name, dimensions: dimensions, factory: factory)
            counter.increment(by: 0)
            return counter
        }
    }

    /// - Parameter values: One of each label's, in their order. Others are not counted.
    package func increment(_ values: [String], by count: Int = 1) {
        counters[values]?.increment(by: count)
    }
}

/// The gauges of one metric, one for each app and environment of a store. They are zero at start.
package struct StreamGauges: Sendable {
    private let gauges: [[String]: Gauge]

    package init(_ name: String, apps: [String], factory: any MetricsFactory = MetricsSystem.factory) {
        let environments = [Environment.production, .sandbox]
        gauges = [MetricLabel("app", apps), MetricLabel("environment", environments)].series { dimensions in
            let gauge = Gauge(label: name, dimensions: dimensions, factory: factory)
            gauge.record(0)
            return gauge
        }
    }

    package func record(_ value: some BinaryInteger, of stream: StreamKey) {
        gauges[[stream.app, stream.environment.rawValue]]?.record(value)
    }
}

extension [MetricLabel] {
    /// One metric for each combination of values.
    fileprivate func series<Metric>(_ make: ([(String, String)]) -> Metric) -> [[String]: Metric] {
        let combinations = reduce([[]]) { series, label in
            series.flatMap { values in label.values.map { values + [$0] } }
        }
        return Dictionary(
            uniqueKeysWithValues: combinations.map { values in
                (values, make(zip(self, values).map { ($0.name, $1) }))
            })
    }
}
