import Metrics

/// The counters of one metric, one for each combination of the values of its labels. They are created at start, so that the
/// first occurrence of each is visible as an increase from zero.
package struct CounterTable: Sendable {
    /// A label, with all its values.
    package struct Label: Sendable {
        let name: String
        let values: [String]

        package init(_ name: String, _ values: [String]) {
            self.name = name
            self.values = values
        }

        package init(_ name: String, _ values: [some RawRepresentable<String>]) {
            self.init(name, values.map(\.rawValue))
        }
    }

    /// By the values of the labels, in their order.
    private let counters: [[String]: Counter]

    package init(_ name: String, _ labels: [Label], factory: any MetricsFactory = MetricsSystem.factory) {
        let series = labels.reduce([[]]) { series, label in
            series.flatMap { values in label.values.map { values + [$0] } }
        }
        counters = Dictionary(
            uniqueKeysWithValues: series.map { values in
                let counter = Counter(
                    label: name, dimensions: zip(labels, values).map { ($0.name, $1) }, factory: factory)
                counter.increment(by: 0)
                return (values, counter)
            })
    }

    /// - Parameter values: One of each label's, in their order. Others are not counted.
    package func increment(_ values: [String], by count: Int = 1) {
        counters[values]?.increment(by: count)
    }
}
