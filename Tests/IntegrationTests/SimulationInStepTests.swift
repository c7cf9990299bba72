import Foundation
import Simulation
import TestSupport
import Testing

@Suite("store-simulator --in-step lets the time pass, and lost notifications are found by asking")
struct SimulationInStepTests {
    /// The first run uses all stories; in full, each does.
    @Test(
        "every answer is right in the end",
        arguments: [
            (Story.allCases.count, ["--lose", "0.3", "--format", "both", "--order", "shuffled", "--duplicate", "0.1"]),
            (TestScale.count(8, full: Story.allCases.count), ["--lose", "1.0"]),
            (
                TestScale.count(8, full: Story.allCases.count),
                ["--by-api", "--lose", "0.3", "--order", "shuffled", "--restore"]
            ),
        ])
    func found(_ subscriptions: Int, _ scenario: [String]) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }

        let run = try ServerProcess.simulate(
            ["--in-step", "--seed", "11", "--subscriptions", "\(subscriptions)", "--data-folder", folder] + scenario,
            limit: 300)

        #expect(run.status == 0, "\(run.output)\(run.error)")
        #expect(run.output.contains(/compared \d{3,} answers, differences: 0(\n|, and)/))
        #expect(run.error.contains(/handed in \d+, answered 200: [1-9]/))
        #expect(run.error.contains(/asked in checks: [1-9]\d/))
        #expect(run.error.contains(/histories read: [1-9]/) == scenario.contains("--by-api"))
        #expect(
            run.error.contains(/restored the database, which lacked [1-9]\d* events/) == scenario.contains("--restore"))
    }

    @Test("an interrupted run says so, with exit status 130")
    func interrupted() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let process = Process()
        let errors = Pipe()
        process.executableURL = ServerProcess.simulator
        process.arguments = ["--in-step", "--subscriptions", "200", "--data-folder", folder]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
        let limit = process.killed(after: 120)
        defer { limit.cancel() }
        var text = ""
        while !text.contains("simulated: ") {
            let data = errors.fileHandleForReading.availableData
            try #require(!data.isEmpty, "it ended by itself: \(text)")
            text += String(decoding: data, as: UTF8.self)
        }

        process.interrupt()

        text += String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        try process.end(within: 10)
        #expect(process.terminationStatus == 130)
        #expect(text.hasSuffix("\nstore-simulator: interrupted\n"), "\(text)")
    }

    @Test("a database that has events of the app is left alone")
    func usedDatabase() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let command = [
            "--in-step", "--stories", "renewals", "--subscriptions", "1", "--data-folder", folder,
        ]

        let first = try ServerProcess.simulate(command)
        let second = try ServerProcess.simulate(command)

        #expect(first.status == 0, "\(first.output)\(first.error)")
        #expect(second.status == 78)
        #expect(
            second.error
                == "store-simulator: the database has events of com.example.app already: expected a database of its own\n"
        )
    }

    @Test("flags that do not fit are refused")
    func flags() throws {
        let folderless = try ServerProcess.simulate(["--in-step"])
        let posting = try ServerProcess.simulate(
            ["--in-step", "--data-folder", "/nowhere", "--url", "http://127.0.0.1:1"])

        #expect(folderless.status == 64)
        #expect(folderless.error.contains("--in-step requires --data-folder or --database-url."))
        #expect(posting.status == 64)
        #expect(posting.error.contains("--in-step excludes --url"))
    }
}
