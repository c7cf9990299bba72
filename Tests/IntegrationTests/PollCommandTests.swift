import Foundation
import TestSupport
import Testing

@Suite("poll asks about one subscription beside a running server")
struct PollCommandTests {
    private static let subscription = "2000000000000001"
    private static let withoutReceipt = "2000000000000002"

    /// The command and the database that it runs on.
    private struct Bundle {
        let database: SharedDatabase

        func poll(
            _ subscription: String, app: String = V1Body.app, more: [String] = []
        ) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                ["poll", "--app", app, "--subscription", subscription] + more,
                environment: database.environment().merging([
                    "SUBLEDGER_APP_BUNDLE_ID": V1Body.app, "SUBLEDGER_APP_SHARED_SECRET": V1Body.secret,
                    "SUBLEDGER_LOG_LEVEL": "error",
                ]) { $1 })
        }

        func checks() async throws -> [String] {
            try await database.lines(
                """
                select concat_ws(' ', original_transaction_id, reason, result, status, next_at is null)
                from subledger.store_check
                order by asked_at
                """)
        }
    }

    /// A server that makes no checks by itself, with one subscription that has a receipt and one that has none.
    private static func withServer(_ test: (Bundle) async throws -> Void) async throws {
        let database = try await SharedDatabase.make()
        let server = try database.server("receiver,projector,reader")
        let ports = try await server.ports()
        let apple = HTTPClient(port: ports.public, patience: .seconds(60))
        let backend = HTTPClient(port: ports.private, token: try await database.token())
        let row = V1Body.Row(
            withoutReceipt, subscription: withoutReceipt, purchase: 1_519_084_800_000, expires: 1_521_504_000_000)
        let second = V1Body(type: "INITIAL_BUY", rows: [row], subscription: withoutReceipt, autoRenew: true)
        #expect(try await apple.post(try V1Body(number: 1).bytes).status == 200)
        #expect(try await apple.post(try second.bytes).status == 200)
        for id in [subscription, withoutReceipt] {
            _ = try await eventually("\(id) is folded") {
                try await backend.get("/subscriptions/\(id)").status == 200 ? true : nil
            }
        }
        try await test(Bundle(database: database))
        server.signal(SIGTERM)
        try await server.hasEnded()
        try await database.drop()
    }

    @Test("an unknown subscription exits with 65 and an app that is not configured with 78, and no check is recorded")
    func unknown() async throws {
        try await Self.withServer { bundle in
            let unknown = try bundle.poll("4711")
            let elsewhere = try bundle.poll(Self.subscription, more: ["--environment", "sandbox"])
            let other = try bundle.poll(Self.subscription, app: "com.example.other")

            #expect(unknown.status == 65)
            #expect(unknown.error == "subledger: no subscription 4711 of \(V1Body.app) is known\n")
            #expect(elsewhere.status == 65)
            #expect(
                elsewhere.error == "subledger: no subscription \(Self.subscription) of \(V1Body.app) is known\n")
            #expect(other.status == 78)
            #expect(other.error == "subledger: app com.example.other is not configured\n")
            #expect(unknown.output + elsewhere.output + other.output == "")
            #expect(try await bundle.checks().isEmpty)
        }
    }

    @Test("a store that cannot be reached exits with 69; the check is recorded, and the schedule is unchanged")
    func unreachable() async throws {
        try await Self.withServer { bundle in
            let result = try bundle.poll(Self.subscription)

            #expect(result.status == 69)
            #expect(result.error.hasSuffix("subledger: the App Store cannot be asked now\n"), "\(result.error)")
            // The period ends on 2018-03-20T00:00:00Z.
            #expect(
                result.output == """
                    {"app":"com.example.magazine","environment":"production",\
                    "originalTransactionId":"2000000000000001","result":"unavailable",\
                    "nextAt":"2018-03-20T01:00:00.000Z"}

                    """)
            #expect(try await bundle.checks() == ["\(Self.subscription) unavailable t"])
        }
    }

    @Test("a subscription without a receipt exits with 65, and the check is recorded")
    func noReceipt() async throws {
        try await Self.withServer { bundle in
            let result = try bundle.poll(Self.withoutReceipt)

            #expect(result.status == 65)
            #expect(result.error == "subledger: no receipt of the subscription is stored\n")
            #expect(result.output.contains(#""result":"no_receipt""#))
            #expect(try await bundle.checks() == ["\(Self.withoutReceipt) no_receipt t"])
        }
    }

    @Test("without a database, the command exits with 69 and says why")
    func noDatabase() throws {
        let result = try ServerProcess.run(
            [
                "poll", "--app", V1Body.app, "--subscription", Self.subscription, "--database-url",
                "postgres://canary:hush@127.0.0.1:1/none",
            ],
            environment: ["SUBLEDGER_APP_BUNDLE_ID": V1Body.app, "SUBLEDGER_APP_SHARED_SECRET": V1Body.secret])

        #expect(result.status == 69)
        #expect(result.error.hasPrefix("subledger: database: "), "\(result.error)")
        #expect(!result.error.contains("hush"))
        #expect(result.output.isEmpty)
    }
}
