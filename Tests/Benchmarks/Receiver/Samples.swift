/// Figures by name, such as "v1.rate", one value for each run.
struct Samples {
    private(set) var all: [String: [Double]] = [:]

    mutating func add(_ name: String, _ value: Double) {
        all[name, default: []].append(value)
    }

    /// Nil if the figure was not measured.
    func median(_ name: String) -> Double? {
        guard let values = all[name]?.sorted(), !values.isEmpty else { return nil }
        let middle = values.count / 2
        return values.count.isMultiple(of: 2) ? (values[middle - 1] + values[middle]) / 2 : values[middle]
    }

    /// The sum of medians; nil if one is missing.
    func sum(_ names: [String]) -> Double? {
        let found = names.compactMap(median)
        return found.count == names.count ? found.reduce(0, +) : nil
    }
}
