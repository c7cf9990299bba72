import Foundation

/// Deliveries to endpoints.
extension Report {
    var deliveryRatios: [Ratio] {
        [
            figure("delivery: change to delivered, p99 (ms)", "delivery.p99", 250),
            samples.median("delivery.all.rate").map {
                Ratio(name: "delivery: replayed to 8 endpoints (per s)", value: $0, bar: 5000, isAtLeast: true)
            },
            ratio(
                "delivery: ingest p99 with / without an endpoint", "delivery.with.p99", over: ["delivery.without.p99"],
                1.1),
        ].compactMap(\.self)
    }

    var deliveryLines: [String] {
        let names = ["p50", "p99", "without.p99", "with.p99", "one.rate", "all.rate", "floor.rate"]
        let values = names.compactMap { samples.median("delivery.\($0)") }
        guard values.count == names.count else { return [] }
        return [
            String(
                format: "delivery at 200 changes/s: p50 %.1f ms, p99 %.1f ms; ingest p99 %.1f ms without, %.1f ms with",
                values[0], values[1], values[2], values[3]),
            String(
                format: "delivery again: one endpoint %.0f/s, 8 endpoints %.0f/s; floor: the HTTP client alone %.0f/s",
                values[4], values[5], values[6]),
        ]
    }
}
