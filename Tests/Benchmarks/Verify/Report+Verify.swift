/// Verifying a log.
extension Report {
    var verifyRatios: [Ratio] {
        [
            figure("verify: a million events (s)", "verify.million", 120),
            samples.sum(["verify.server", "verify.database"]).flatMap { used in
                samples.median("verify.floor.server").map {
                    Ratio(name: "verify: CPU / (signatures + digest + JSON)", value: used / $0, bar: 2)
                }
            },
        ].compactMap(\.self)
    }

    var verifyLines: [String] {
        [line("verify", "verify"), line("  floor: signatures", "verify.floor")].compactMap(\.self)
    }
}
