// What the log takes on disk for a notification, all its tables and indexes counted, beside the size of the bodies; and
// how long it takes to bring a body into the form in which it is stored, its check included, beside verifying it.
//
//     swift build -c release --product StorageBenchmark && .build/release/StorageBenchmark
//
// The bodies are those of the simulator, which go through the verifier and the appender as they would in a server. Its
// headers are shorter than Apple's, so the signed ones are measured once more with headers as long as Apple's, which
// nobody could verify, and the log need not.

import AppStore
import EventLog
import Foundation

@main
enum StorageBenchmark {
    static func main() async throws {
        let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 3000
        for sample in Sample.allCases {
            let events = try await sample.events(count)
            let bodyBytes = events.reduce(0) { $0 + $1.body.count }
            let disk = try await Disk.measure(events)
            print("\(sample.rawValue): \(events.count) notifications, \(bodyBytes / events.count) bytes each")
            print("  on disk: \(disk.total / Int64(events.count)) bytes, \(ratio(disk.total, bodyBytes)) of the body")
            for part in disk.parts { print("    \(part)") }
            try await Cost.measure(events, sample.verifier()).print()
        }
    }

    private static func ratio(_ bytes: Int64, _ bodyBytes: Int) -> String {
        String(format: "%.3f", Double(bytes) / Double(bodyBytes))
    }
}
