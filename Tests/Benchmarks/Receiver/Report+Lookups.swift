/// Lookups over HTTP compared with point selects.
extension Report {
    var lookupRatios: [Ratio] {
        [
            ratio(
                "lookups / pgbench's point selects", "lookups.rate", over: ["lookups.pgbench.rate"], 0.5, atLeast: true),
            figure("lookups: p99 (ms)", "lookups.p99", 20),
        ].compactMap(\.self)
    }

    var lookupLines: [String] {
        [
            line("lookups over HTTP", "lookups", memory: "lookups.memory"),
            line("  floor: pgbench", "lookups.pgbench"),
        ].compactMap(\.self)
    }
}
