import Foundation
import Simulation
import TestSupport
import Testing

@Suite("store-simulator --in-step with Google Play")
struct GoogleInStepTests {
    private static let scenarios = [
        [
            "--store", "google", "--subscriptions", "\(TestScale.count(10, full: PlayStory.allCases.count))", "--lose",
            "0.3", "--order", "shuffled", "--duplicate", "0.2", "--store-faults", "0.05", "--restore",
        ],
        ["--store", "both", "--subscriptions", "8", "--lose", "0.3", "--order", "shuffled", "--duplicate", "0.2"],
    ]

    /// GoogleAnswerKeyTests uses all stories of Google Play, and ErasureTests both stores; in full, these runs do as well.
    @Test(
        "every answer about Google Play is right in the end, and every purchase is acknowledged in time",
        arguments: scenarios.prefix(TestScale.count(1, full: 2)))
    func foundInGooglePlay(_ scenario: [String]) throws {
        let run = try Self.runWithGooglePlay(scenario)

        #expect(run.status == 0, "\(run.output)\(run.error)")
        #expect(run.output.contains(/compared \d{3,} answers about Google Play, differences: 0(\n|, and)/))
        #expect(run.error.contains(/asked about purchases: [1-9]\d/))
        #expect(
            run.error.contains(/restored the database, which lacked [1-9]\d* events/) == scenario.contains("--restore"))
    }

    /// A purchase falls into the day of the outage, and is acknowledged after it.
    @Test(
        "after an outage of a day, no purchase is unacknowledged for longer than minutes, and none was not granted",
        arguments: ["store", "server"])
    func outage(_ part: String) throws {
        let run = try Self.runWithGooglePlay([
            "--store", "google", "--outage", part, "--lose", "0.3", "--subscriptions",
            "\(TestScale.count(3, full: 6))", "--stories", "token-chain,one-time-purchase,prepaid",
        ])

        #expect(run.status == 0, "\(run.output)\(run.error)")
        #expect(
            run.output.contains(
                /acknowledged [1-9]\d+ purchases, [1-9]\d* after an outage, the last one [\d.]+ s after it was known, differences: 0\n/
            ))
        #expect(run.output.contains(/compared \d{2,} answers about Google Play, differences: 0(\n|, and)/))
    }

    @Test("subscriptions of both stores go on until an instant, and every answer about the time before it is right")
    func untilInstant() throws {
        let run = try Self.runWithGooglePlay([
            "--store", "both", "--until", "2026-10-20", "--subscriptions", "\(TestScale.count(4, full: 60))",
        ])

        #expect(run.status == 0, "\(run.output)\(run.error)")
        #expect(run.output.contains(/compared \d{2,} answers, differences: 0\n/))
        #expect(run.output.contains(/compared \d{2,} answers about Google Play, differences: 0(\n|, and)/))
    }

    private static func runWithGooglePlay(
        _ scenario: [String]
    ) throws -> (status: Int32, output: String, error: String) {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let run = try ServerProcess.simulate(
            ["--in-step", "--seed", "7", "--data-folder", folder] + scenario, limit: 300)
        return (run.status, run.output, run.error)
    }
}
