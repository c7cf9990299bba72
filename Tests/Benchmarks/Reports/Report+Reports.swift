import Foundation

/// The stores' reports.
extension Report {
    var storeReportRatios: [Ratio] {
        [
            figure("reports: import (s)", "reports.import", 60),
            figure("reports: differences of a month (s)", "reports.differences", 5),
        ].compactMap(\.self)
    }

    var storeReportLines: [String] {
        let values = ["rows", "events", "different"].compactMap { samples.median("reports.\($0)") }
        guard values.count == 3 else { return [] }
        return [
            String(
                format: "reports: %.0f rows imported; a month of a log of %.0f events has %.0f differences", values[0],
                values[1], values[2])
        ]
    }
}
