import Foundation
import Simulation
import TestSupport
import Testing

@Suite("The command-line sample of the client library")
struct ClientSampleTests {
    /// Runs the sample beside the test bundle with the lines as its input.
    private static func run(_ arguments: [String], _ lines: [String]) throws -> String {
        try Process.run(
            ServerProcess.executable.deletingLastPathComponent().appendingPathComponent("ClientSample"), arguments,
            input: Data((lines.joined(separator: "\n") + "\n").utf8), limit: 120
        ).outputText
    }

    @Test("it buys, loses its network, restarts, restores and prints its entitlements, which the server has as well")
    func session() async throws {
        let folder = TestFolder.path("sample")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let (root, apps) = ("\(folder)/root.der", "\(folder)/apps.json")
        try Data(TestCertificates.standard.rootDER).write(to: URL(fileURLWithPath: root))
        try Data(
            #"[{"bundleId":"com.example.magazine","assertions":{"secrets":["\#(AssertionText.secret)"]}}]"#.utf8
        ).write(to: URL(fileURLWithPath: apps))
        let data = "\(folder)/data"
        let server = try ServerProcess(
            dataFolder: data,
            environment: [
                "SUBLEDGER_APPS_FILE": apps, "SUBLEDGER_APP_BUNDLE_ID": "", "SUBLEDGER_APP_SHARED_SECRET": "",
                "SUBLEDGER_ROOT_FILES": root, "SUBLEDGER_OCSP": "off",
            ])
        let port = try await server.ports().private
        func token(_ arguments: String...) throws -> String {
            try ServerProcess.run(
                ["token", "create"] + arguments + ["--data-folder", data, "--log-level", "error"]
            ).output.trimmingCharacters(in: .whitespacesAndNewlines)
        }
        let publishable = try token("--scope", "publishable", "--app", "com.example.magazine")
        let reader = HTTPClient(port: port, token: try token("--scope", "read"))
        let user = UUID().uuidString.lowercased()
        let assertion = AssertionText.hs256(
            AssertionText.claims(user, exp: Int64(Date().timeIntervalSince1970) + 600))

        let printed = try Self.run(
            ["http://127.0.0.1:\(port)", publishable, assertion, user],
            [
                "start", "entitlements", "buy monthly", "refresh", "lose network", "buy yearly", "refresh", "restart",
                "start", "entitlements", "find network", "refresh", "restore",
            ])
        let stored = try await reader.get("/customers/\(user)/entitlements?app=com.example.magazine&as=link")
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(
            printed == """
                > start
                > entitlements
                  nothing, unverified
                > buy monthly
                  monthly (server), verified
                > refresh
                  monthly (server), verified
                > lose network
                > buy yearly
                  monthly (server), yearly (device), verified
                > refresh
                  the server cannot be reached
                > restart
                > start
                > entitlements
                  monthly (cached), yearly (device), verified
                > find network
                > refresh
                  monthly (server), yearly (server), verified
                > restore
                  found: monthly, yearly
                  monthly (server), yearly (server), verified

                """)
        let names = (stored.json["entitlements"] as? [[String: Any]])?.compactMap { $0["entitlement"] as? String }
        #expect(names == ["monthly", "yearly"], "\(stored.body)\(server.log)")
    }
}
