import Foundation
import TestSupport

/// The distribution of times in milliseconds.
struct Spread: CustomStringConvertible {
    private let times: [Double]

    init(_ times: [Double]) { self.times = times }

    var p99: Double { times.percentile(0.99) }

    var description: String {
        String(
            format: "median %.1f ms, p99 %.1f ms, max %.1f ms", times.percentile(0.5), p99, times.max() ?? 0)
    }
}
