import Foundation
import Postgres
import TestSupport
import Testing

@Suite("backfill reads histories from the App Store Server API")
struct BackfillTests {
    private static let app = "com.example.app"
    private static let scenario = [
        "--seed", "5", "--stories", "renewals,upgrade,refund-of-old-period,resubscribe-same,prorated-refund",
        "--subscriptions", "10", "--environment", "production", "--apple-id", "1400000001",
    ]

    /// A folder with what a server and the simulated store of a run need, and both of them.
    private struct Bundle {
        let folder: String
        let environment: [String: String]
        let ports: (public: Int, private: Int)
        let token: String

        func file(_ name: String) -> String { "\(folder)/\(name)" }

        func run(_ arguments: [String]) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(arguments, environment: environment)
        }

        func backfill(_ more: [String] = []) throws -> (status: Int32, output: String, error: String) {
            try run(["backfill", "--app", BackfillTests.app] + more)
        }

        func writeApps(keyId: String) throws {
            try Data(
                """
                [{"bundleId":"\(BackfillTests.app)","appAppleId":1400000001,"serverAPI":
                {"issuerId":"57246542-96fe-1a63-e053-0824d011072a","keyId":"\(keyId)","keyFile":"key.p8"}}]
                """.utf8
            ).write(to: URL(fileURLWithPath: file("apps.json")))
        }
    }

    private static func with(_ test: (Bundle) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let store = try StoreProcess(
            ["--write-api-key", "\(folder)/key.p8", "--write-root", "\(folder)/root.pem"] + scenario)
        defer { store.end() }
        let address = try store.address()
        // The server runs as another user if the tests run as root.
        let owner: [FileAttributeKey: Any] = try ServerAccount.ifRoot().map { [.ownerAccountName: $0.name] } ?? [:]
        try FileManager.default.setAttributes(
            owner.merging([.posixPermissions: 0o600]) { $1 }, ofItemAtPath: "\(folder)/key.p8")
        let environment = [
            "SUBLEDGER_APPS_FILE": "\(folder)/apps.json", "SUBLEDGER_SERVER_API_URL": "\(address)/production",
            "SUBLEDGER_SERVER_API_SANDBOX_URL": "\(address)/sandbox", "SUBLEDGER_ROOT_FILES": "\(folder)/root.pem",
            "SUBLEDGER_OCSP": "off", "SUBLEDGER_DATA_FOLDER": "\(folder)/data",
        ]
        var bundle = Bundle(folder: folder, environment: environment, ports: (0, 0), token: "")
        try bundle.writeApps(keyId: "SIMULATED1")
        let server = try ServerProcess(
            dataFolder: "\(folder)/data",
            environment: environment.merging(["SUBLEDGER_ROLES": "receiver,projector,reader"]) { $1 })
        let ports = try await server.ports()
        let token = try ServerProcess.token("link", dataFolder: "\(folder)/data")
        bundle = Bundle(folder: folder, environment: environment, ports: (ports.public, ports.private), token: token)
        try await test(bundle)
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    @Test("an app known by one transaction id of each subscription has the right answers, and a repeat asks nothing")
    func ids() async throws {
        try await Self.with { bundle in
            let expected = try ServerProcess.simulate(["--expected", "-"] + Self.scenario)
            let lines = try expected.output.split(separator: "\n").map { line in
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            }
            let ids = Set(lines.compactMap { $0["originalTransactionId"] as? String }).sorted()
            try Data((ids.joined(separator: "\n") + "\n").utf8)
                .write(to: URL(fileURLWithPath: bundle.file("ids.txt")))

            let first = try bundle.backfill(["--ids-file", bundle.file("ids.txt")])
            let second = try bundle.backfill(["--ids-file", bundle.file("ids.txt")])
            let third = try bundle.backfill()
            let products = try ServerProcess.simulate(
                ["--write-products", bundle.file("products.csv")] + Self.scenario)
            let imported = try bundle.run(["product", "import", bundle.file("products.csv")])
            let compared = try ServerProcess.simulate(
                [
                    "--compare", "http://127.0.0.1:\(bundle.ports.private)", "--token", bundle.token,
                ] + Self.scenario)
            let backend = HTTPClient(port: bundle.ports.private, token: bundle.token)
            let subscription = try await backend.get("/subscriptions/\(ids[0])?at=2026-06-30T00:00:00Z").json

            #expect(ids.count == 10 && products.status == 0 && imported.status == 0)
            #expect(first.status == 0, "\(first.output)\(first.error)")
            #expect(first.output.contains(#""read":10,"known":0,"notFound":0,"refused":0,"unavailable":0"#))
            #expect(second.output.contains(#""read":0,"known":10,"#) && second.status == 0)
            #expect(third.output.contains(#""read":0,"known":0,"#) && third.status == 0)
            #expect(compared.output.hasSuffix(", differences: 0\n"), "\(compared.output)")
            #expect(subscription["coveredSince"] is String)
        }
    }

    @Test("an id that no host knows is named, and a wrong key ends the command")
    func failures() async throws {
        try await Self.with { bundle in
            try Data("2000000999999999\n".utf8).write(to: URL(fileURLWithPath: bundle.file("ids.txt")))

            let unknown = try bundle.backfill(["--ids-file", bundle.file("ids.txt")])
            let other = try bundle.run(["backfill", "--app", "com.example.other"])
            try bundle.writeApps(keyId: "WRONG12345")
            let rejected = try bundle.backfill(["--ids-file", bundle.file("ids.txt")])
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: bundle.file("key.p8"))
            let open = try bundle.backfill()
            // Service managers and container platforms pass a secret as a file of root that its group may read.
            chown(bundle.file("key.p8"), geteuid(), getegid())
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: bundle.file("key.p8"))
            let ofGroup = try bundle.backfill()
            try FileManager.default.setAttributes([.posixPermissions: 0o660], ofItemAtPath: bundle.file("key.p8"))
            let writable = try bundle.backfill()

            let problem = "/key.p8 can be read by others: remove their rights with chmod 600\n"
            #expect(unknown.status == 65)
            #expect(unknown.output.hasPrefix(#"{"id":"2000000999999999","result":"not_found"}"#))
            #expect(other.status == 78)
            #expect(other.error == "subledger: app com.example.other is not configured\n")
            #expect(rejected.status == 78)
            #expect(rejected.error.hasSuffix("subledger: the App Store rejects the key of the app\n"))
            #expect(open.status == 78)
            #expect(open.error.hasSuffix(problem))
            #expect(geteuid() == 0 ? ofGroup.status == 0 : ofGroup.error.hasSuffix(problem), "\(ofGroup.error)")
            #expect(writable.error.hasSuffix(problem))
            #expect(![unknown, rejected, open].contains { $0.error.contains("PRIVATE KEY") })
        }
    }
}
