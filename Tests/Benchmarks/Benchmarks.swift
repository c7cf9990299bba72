// All measurements, one subcommand each:
//
//     swift build -c release --product Benchmarks && .build/release/Benchmarks --help
//
// `receiver`, `latency`, `push` and `hostile` start the server of the same build, so they need `--product subledger` too.
// deploy/bench runs `receiver`, and deploy/hostile runs `hostile`.

import ArgumentParser

@main
struct Benchmarks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure Subledger on this machine.",
        subcommands: [
            ReceiverBenchmark.self, DecodeBenchmark.self, VerifyBenchmark.self, StorageBenchmark.self,
            ProjectorBenchmark.self, LatencyBenchmark.self, HostileBenchmark.self, PushBenchmark.self,
            PurchasePollerBenchmark.self, ServeFloor.self,
        ])
}

/// A benchmark could not prepare what it measures.
struct Unusable: Error {}

extension Duration {
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
