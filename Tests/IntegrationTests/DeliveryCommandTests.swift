import Foundation
import Postgres
import TestSupport
import Testing

@Suite("The commands probe and audit against the simulated App Store")
struct DeliveryCommandTests {
    private static let app = "com.example.app"

    /// A folder with what the commands need, and the simulated store of a sandbox app that posts to the URL.
    private static func with(
        postingTo port: Int, _ test: (String, String, [String: String]) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let store = try StoreProcess([
            "--write-api-key", "\(folder)/key.p8", "--write-root", "\(folder)/root.pem", "--subscriptions", "1",
            "--stories", "renewals", "--store-notifications", "http://127.0.0.1:\(port)/apple/notifications",
        ])
        defer { store.end() }
        let address = try store.address()
        // The server runs as another user if the tests run as root.
        let owner: [FileAttributeKey: Any] = try ServerAccount.ifRoot().map { [.ownerAccountName: $0.name] } ?? [:]
        try FileManager.default.setAttributes(
            owner.merging([.posixPermissions: 0o600]) { $1 }, ofItemAtPath: "\(folder)/key.p8")
        try Data(
            """
            [{"bundleId":"\(app)","serverAPI":{"issuerId":"57246542-96fe-1a63-e053-0824d011072a","keyId":"SIMULATED1",
            "keyFile":"key.p8"}}]
            """.utf8
        ).write(to: URL(fileURLWithPath: "\(folder)/apps.json"))
        try await test(
            folder, address,
            [
                "SUBLEDGER_APPS_FILE": "\(folder)/apps.json", "SUBLEDGER_SERVER_API_URL": "\(address)/production",
                "SUBLEDGER_SERVER_API_SANDBOX_URL": "\(address)/sandbox", "SUBLEDGER_OCSP": "off",
                "SUBLEDGER_ROOT_FILES": "\(folder)/root.pem", "SUBLEDGER_DATA_FOLDER": "\(folder)/data",
            ])
    }

    @Test("a probe names what works, and the audit of its day finds the notification that did not arrive")
    func commands() async throws {
        let port = try FreePort.find()
        try await Self.with(postingTo: port) { folder, address, environment in
            let storePort = try #require(URL(string: address)?.port)
            let clock = HTTPClient(port: storePort)
            let now = Date()
            let noon = (now.timeIntervalSince1970 / 86_400).rounded(.down) * 86_400 - 43_200
            let yesterday = Date(timeIntervalSince1970: noon)
            let tomorrow = Date(timeIntervalSince1970: noon + 2 * 86_400)
            func set(_ date: Date) async throws {
                _ = try await clock.put(#"{"now":"\#(date.ISO8601Format())"}"#, to: "/clock")
            }
            func run(_ arguments: [String]) throws -> (status: Int32, output: String, error: String) {
                try ServerProcess.run(arguments + ["--app", Self.app], environment: environment)
            }
            func day(_ date: Date) -> String { String(date.ISO8601Format().prefix(10)) }
            // All stories have ended, and their notifications were sent to nobody.
            try await set(yesterday)
            let server = try ServerProcess(
                dataFolder: "\(folder)/data",
                environment: environment.merging(["SUBLEDGER_ROLES": "receiver,projector,reader"]) { $1 },
                publicPort: port)
            _ = try await server.ports()

            let works = try run(["probe", "--environment", "sandbox", "--wait", "30"])
            let unknown = try run(["probe"])
            server.signal(SIGTERM)
            try await server.hasEnded()
            let down = try run(["probe", "--environment", "sandbox", "--wait", "30"])
            try await set(now)
            let audit = try run(["audit", "--environment", "sandbox", "--day", day(yesterday)])
            let again = try run(["audit", "--environment", "sandbox", "--day", day(yesterday)])
            let early = try run(["audit", "--day", day(tomorrow)])
            let wrong = try run(["audit", "--day", "2026-02-30"])

            #expect(works.status == 0, "\(works.output)\(works.error)")
            #expect(
                works.output
                    == "ok      request\nok      attempt\nok      connection\nok      TLS\nok      route\n"
                    + "ok      signature\nok      log\n")
            #expect(unknown.status == 78)
            #expect(unknown.output.hasPrefix("failed  request: App Store Connect has no notification URL"))
            #expect(down.status == 69 || down.status == 1, "\(down.output)\(down.error)")
            #expect(down.output.contains("failed  connection: Apple reaches no server"), "\(down.output)\(down.error)")
            #expect(audit.status == 0, "\(audit.output)\(audit.error)")
            #expect(
                audit.output.contains(
                    #""made":2,"delivered":1,"arrived":1,"fetched":1,"refused":0,"lost":0,"before":0,"answeredLate":0,"onlyInLog":0,"#
                ), "\(audit.output)")
            #expect(again.output == audit.output)
            #expect(early.status == 78 && early.error.contains("has not ended in UTC"))
            #expect(wrong.status == 64 && wrong.error.contains("--day is no date"))
        }
    }
}
