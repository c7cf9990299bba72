// Measures the storage per notification, including all tables and indexes of the log, compared with the size of the
// body, with the compact form and with PostgreSQL's compression alone; and the time to write the compact form of a body,
// compared with decoding and verifying it.
//
//     swift build -c release --product StorageBenchmark && .build/release/StorageBenchmark
//
// The bodies are the simulator's. They pass through the verifier and the appender as in a server. Because the simulator's
// headers are shorter than Apple's, signed bodies are also measured with headers as long as Apple's. These do not verify,
// but the log does not need to verify them.

import AppStore
import EventLog
import Foundation

@main
enum StorageBenchmark {
    static func main() async throws {
        let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 3000
        for sample in Sample.allCases {
            let events = try await sample.events(count)
            let bodyBytes = events.reduce(0) { $0 + $1.bodyBytes }
            let disk = try await Disk.measure(events)
            print("\(sample.rawValue): \(events.count) notifications, \(bodyBytes / events.count) bytes each")
            print("  on disk: \(disk.total / Int64(events.count)) bytes, \(ratio(disk.total, bodyBytes)) of the body")
            for part in disk.parts { print("    \(part)") }
            let plain = try await Disk.measure(events.map(\.plain))
            print(
                "  without the compact form: \(plain.total / Int64(events.count)) bytes, \(ratio(plain.total, bodyBytes))"
            )
            try await Cost.measure(events, sample.verifier()).print()
        }
    }

    private static func ratio(_ bytes: Int64, _ bodyBytes: Int) -> String {
        String(format: "%.3f", Double(bytes) / Double(bodyBytes))
    }
}
