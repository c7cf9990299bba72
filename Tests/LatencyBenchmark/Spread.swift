import Foundation

/// How times are spread, in milliseconds.
struct Spread: CustomStringConvertible {
    private let sorted: [Double]

    init(_ times: [Double]) { sorted = times.sorted() }

    var p99: Double { percentile(0.99) }

    private func percentile(_ share: Double) -> Double {
        sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }

    var description: String {
        String(
            format: "median %.1f ms, p99 %.1f ms, max %.1f ms", percentile(0.5), percentile(0.99), sorted.last ?? 0)
    }
}
