import Foundation
import Simulation
import TestSupport
import Testing

@Suite("store-simulator with Google Play")
struct SimulateGoogleTests {
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    private func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

    private func lines(_ name: String) throws -> [[String: Any]] {
        try String(contentsOfFile: path(name), encoding: .utf8).split(separator: "\n").map {
            try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    @Test("purchases and expected answers are written; equal seeds give equal answers")
    func files() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let arguments = ["--store", "google", "--subscriptions", "\(PlayStory.allCases.count)", "--seed", "5"]

        let first = try ServerProcess.simulate(
            arguments + [
                "--expected", path("a"), "--write-purchases", path("purchases"), "--write-license-key", path("key"),
            ])
        let second = try ServerProcess.simulate(arguments + ["--expected", path("b")])

        #expect(first.status == 0 && second.status == 0, "\(first.error)\(second.error)")
        let texts = try ["a", "b"].map { try String(contentsOfFile: path($0), encoding: .utf8) }
        #expect(texts[0] == texts[1])
        let answers = try lines("a")
        let purchases = try lines("purchases")
        #expect(Set(answers.compactMap { $0["story"] as? String }) == Set(PlayStory.allCases.map(\.name)))
        let bought = Set(purchases.compactMap { $0["purchaseToken"] as? String })
        #expect(bought.count == purchases.count && bought.count > 42)
        #expect(answers.filter { $0["purchaseToken"] != nil }.allSatisfy { $0["active"] is Bool })
        #expect(answers.contains { $0["environment"] as? String == "sandbox" })
        let key = try String(contentsOfFile: path("key"), encoding: .utf8)
        #expect(key.hasPrefix("MIIB"))
    }

    @Test("the products of both stores are written, those of Google Play with their base plans")
    func products() throws {
        defer { try? FileManager.default.removeItem(at: folder) }

        let result = try ServerProcess.simulate([
            "--store", "both", "--package-name", "com.example.play", "--write-products", path("products"),
        ])

        #expect(result.status == 0, "\(result.error)")
        let text = try String(contentsOfFile: path("products"), encoding: .utf8)
        #expect(text.contains("com.example.app,com.example.app.plus.monthly,auto-renewable,,plus\n"))
        #expect(text.contains("com.example.play,plus:monthly,auto-renewable,,plus\n"))
        #expect(text.contains("com.example.play,lifetime,non-consumable,,premium\n"))
    }

    @Test("with both stores, customers of both have one statement about what they have in either")
    func both() throws {
        defer { try? FileManager.default.removeItem(at: folder) }

        let result = try ServerProcess.simulate([
            "--store", "both", "--subscriptions", "42", "--stories", "renewals,cancelled", "--expected",
            path("a"),
        ])

        #expect(result.status == 0, "\(result.error)")
        let answers = try lines("a")
        let apple = answers.filter { $0["originalTransactionId"] != nil }
        let google = answers.filter { $0["purchaseToken"] != nil }
        #expect(!apple.isEmpty && !google.isEmpty)
        #expect(Set(google.compactMap { $0["story"] as? String }) == ["renewals", "cancelled"])
        #expect(Set(apple.compactMap { $0["story"] as? String }) == ["renewals"])
    }

    @Test(
        "options of another store are refused with exit status 64",
        arguments: [
            (["--write-purchases", "-"], "options of Google Play require --store google or --store both."),
            (
                ["--store", "google", "--url", "http://127.0.0.1/"],
                "--store google excludes the options of the App Store"
            ),
            (["--store", "google", "--expected", "-", "--outage", "store"], "--outage requires --in-step."),
            (
                ["--store", "google", "--stories", "upgrade,family", "--expected", "-"],
                "unknown story \"family\": expected"
            ),
            (["--store", "both", "--stories", "nope", "--expected", "-"], "unknown story \"nope\": expected"),
            (
                ["--store", "google", "--expected", "-", "--write-service-account", "a"],
                "--write-service-account and --google-notifications require --serve-store."
            ),
            (
                ["--store", "google", "--serve-store", "0", "--push-audience", "a"],
                "--push-audience requires --google-notifications."
            ),
            (
                ["--store", "google", "--serve-store", "0", "--google-notifications", "nowhere"],
                "invalid URL \"nowhere\": expected an http or https URL."
            ),
        ])
    func misuse(_ arguments: [String], _ message: String) throws {
        let result = try ServerProcess.simulate(arguments)

        #expect(result.status == 64)
        #expect(result.error.contains(message), "\(result.error)")
    }

    @Test("the stories of each store are listed")
    func list() throws {
        let google = try ServerProcess.simulate(["--store", "google", "--list-stories"])
        let both = try ServerProcess.simulate(["--store", "both", "--list-stories"])

        #expect(google.output.split(separator: "\n").count == PlayStory.allCases.count)
        #expect(both.output.split(separator: "\n").count == PlayStory.allCases.count + Story.allCases.count)
    }
}
