// Measures the storage per notification, including all tables and indexes of the log, compared with the size of the
// body, with the compact form and with PostgreSQL's compression alone; and the time to write the compact form of a body,
// compared with decoding and verifying it.
//
//     swift build -c release --product Benchmarks && .build/release/Benchmarks storage
//
// The bodies are the simulator's. They pass through the verifier and the appender as in a server. Because the simulator's
// headers are shorter than Apple's, signed bodies are also measured with headers as long as Apple's. These do not verify,
// but the log does not need to verify them.

import AppStore
import ArgumentParser
import EventLog
import Foundation

struct StorageBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storage", abstract: "Measure the storage per notification, compared with its body.")

    @Argument(help: "How many notifications of each kind to store.")
    var count = 3000

    func validate() throws {
        guard count > 0 else { throw ValidationError("<count> must be positive.") }
    }

    func run() async throws {
        for sample in Sample.allCases {
            let events = try await sample.events(count)
            let bodyBytes = events.reduce(0) { $0 + $1.bodyBytes }
            let disk = try await Disk.measure(events)
            print("\(sample.rawValue): \(events.count) notifications, \(bodyBytes / events.count) bytes each")
            let ratio = Self.ratio(disk.total, bodyBytes)
            print("  on disk: \(disk.total / Int64(events.count)) bytes, \(ratio) of the body")
            for part in disk.parts { print("    \(part)") }
            let plain = try await Disk.measure(events.map(\.plain))
            let plainRatio = Self.ratio(plain.total, bodyBytes)
            print("  without the compact form: \(plain.total / Int64(events.count)) bytes, \(plainRatio) of the body")
            try await Cost.measure(events, sample.verifier()).print()
        }
    }

    private static func ratio(_ bytes: Int64, _ bodyBytes: Int) -> String {
        String(format: "%.3f", Double(bytes) / Double(bodyBytes))
    }
}
