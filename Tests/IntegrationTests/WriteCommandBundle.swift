import Encoding
import Foundation
import Postgres
import Simulation
import TestSupport
import Testing

/// A server that makes no checks by itself, whose ledger knows two subscriptions in their last period, and the simulated
/// store that has them.
struct WriteCommandBundle {
    static let app = "com.example.app"

    let folder: String
    let environment: [String: String]
    let backend: HTTPClient
    let store: HTTPClient
    /// The address of the store.
    let address: String
    /// In the order of their ends.
    let subscriptions: [SimulatedSubscription]
    /// The store's clock, by which the ledger must be asked.
    let now: Instant

    func run(
        _ arguments: [String], environment more: [String: String] = [:], terminal: PseudoTerminal? = nil
    ) throws -> (status: Int32, output: String, error: String) {
        try ServerProcess.run(
            arguments + ["--app", Self.app], environment: environment.merging(more) { $1 }, terminal: terminal)
    }

    /// The state of a subscription at the store's time, once every event is folded.
    func subscription(_ id: String) async throws -> [String: Any] {
        try await backend.get("/subscriptions/\(id)?at=\(now)").json
    }

    func events(_ query: String = "source=operator") async throws -> [[String: Any]] {
        try await backend.get("/events?app=\(Self.app)&\(query)").json["events"] as? [[String: Any]] ?? []
    }

    func setStoreClock(_ instant: Instant) async throws {
        _ = try await store.put(#"{"now":"\#(instant)"}"#, to: "/clock")
    }

    static func with(_ test: (WriteCommandBundle) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let store = try StoreProcess([
            "--write-api-key", "\(folder)/key.p8", "--write-root", "\(folder)/root.pem", "--seed", "5", "--stories",
            "renewals", "--subscriptions", "2", "--environment", "production", "--apple-id", "1400000001",
        ])
        defer { store.end() }
        let address = try store.address()
        // The server runs as another user if the tests run as root.
        let owner: [FileAttributeKey: Any] = try ServerAccount.ifRoot().map { [.ownerAccountName: $0.name] } ?? [:]
        try FileManager.default.setAttributes(
            owner.merging([.posixPermissions: 0o600]) { $1 }, ofItemAtPath: "\(folder)/key.p8")
        try Data(
            """
            [{"bundleId":"\(app)","appAppleId":1400000001,"serverAPI":{"issuerId":"\(SimulatedAPIKey.standard.issuerId)",
            "keyId":"\(SimulatedAPIKey.standard.keyId)","keyFile":"key.p8"}}]
            """.utf8
        ).write(to: URL(fileURLWithPath: "\(folder)/apps.json"))
        let environment = [
            "SUBLEDGER_APPS_FILE": "\(folder)/apps.json", "SUBLEDGER_SERVER_API_URL": "\(address)/production",
            "SUBLEDGER_SERVER_API_SANDBOX_URL": "\(address)/sandbox", "SUBLEDGER_ROOT_FILES": "\(folder)/root.pem",
            "SUBLEDGER_OCSP": "off", "SUBLEDGER_DATA_FOLDER": "\(folder)/data", "SUBLEDGER_LOG_LEVEL": "error",
        ]
        let server = try ServerProcess(
            dataFolder: "\(folder)/data",
            environment: environment.merging([
                "SUBLEDGER_ROLES": "receiver,projector,reader", "SUBLEDGER_LOG_LEVEL": "info",
            ]) { $1 })
        let ports = try await server.ports()
        let (subscriptions, now) = try lastPeriods()
        let bundle = WriteCommandBundle(
            folder: folder, environment: environment,
            backend: HTTPClient(port: ports.private, token: try ServerProcess.token(dataFolder: "\(folder)/data")),
            store: HTTPClient(port: try #require(URL(string: address)?.port)), address: address,
            subscriptions: subscriptions, now: now)
        try await bundle.fill()
        try await test(bundle)
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    /// The subscriptions of the store, and an hour before the end of the one that ends first.
    private static func lastPeriods() throws -> ([SimulatedSubscription], Instant) {
        var run = Simulation.Settings(
            app: SimulatedApp(bundleId: app, appAppleId: 1_400_000_001, environment: .production))
        run.seed = 5
        run.stories = [.renewals]
        run.subscriptions = 2
        let simulation = try #require(Simulation(run))
        let subscriptions = (0..<2).flatMap { simulation.storyteller.accounts(ofStory: $0).flatMap(\.subscriptions) }
        let ends = subscriptions.map { $0.purchases.last?.expiresDate ?? .earliest }
        let sorted = zip(subscriptions, ends).sorted { $0.1 < $1.1 }
        return (sorted.map(\.0), try #require(ends.min()).advanced(byMilliseconds: -3_600_000))
    }

    /// Lets the ledger read what the store has.
    private func fill() async throws {
        try await setStoreClock(now)
        let ids = subscriptions.map(\.originalTransactionId)
        try Data((ids.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: "\(folder)/ids.txt"))
        let filled = try run(["backfill", "--ids-file", "\(folder)/ids.txt"])
        #expect(filled.status == 0, "\(filled.output)\(filled.error)")
        for id in ids {
            _ = try await eventually("\(id) is folded") {
                try await backend.get("/subscriptions/\(id)").status == 200 ? true : nil
            }
        }
    }
}
