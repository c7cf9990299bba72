import Foundation

/// Pages of the console.
extension Report {
    var consoleRatios: [Ratio] {
        ConsoleURLs.names.compactMap { figure("console, \($0): p99 (ms)", "console.\($0).p99", 100) }
            + [figure("console: notifications not answered 200", "console.ingest.failed", 0)].compactMap(\.self)
    }

    var consoleLines: [String] {
        ConsoleURLs.names.compactMap { name in
            let values = ["p50", "p99", "most"].compactMap { samples.median("console.\(name).\($0)") }
            guard values.count == 3 else { return nil }
            let label = "console, \(name)".padding(toLength: 30, withPad: " ", startingAt: 0)
            return label
                + String(format: "p50 %.1f ms, p99 %.1f ms, slowest %.1f ms", values[0], values[1], values[2])
        }
    }
}
