import Foundation
import Postgres
import TestSupport
import Testing

@Suite("import takes customers over from another service")
struct ImportTests {
    private static let app = "com.example.app"
    private static let googleApp = "com.example.app.android"

    /// A server of both stores, with an empty log, and the simulated stores of a run, both after its end.
    private struct Bundle {
        let folder: String
        let environment: [String: String]
        let port: Int
        let token: String

        func file(_ name: String) -> String { "\(folder)/\(name)" }

        func write(_ text: String, _ name: String) throws {
            try Data(text.utf8).write(to: URL(fileURLWithPath: file(name)))
        }

        func read(_ name: String) throws -> String { try String(contentsOfFile: file(name), encoding: .utf8) }

        func run(
            _ arguments: [String], input: String? = nil, limit: Double = 120
        ) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                arguments, environment: environment, input: input.map { Data($0.utf8) }, limit: limit)
        }

        /// The results in order.
        func results(_ name: String) throws -> [[String: Any]] {
            try read(name).split(separator: "\n").map {
                try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
            }
        }
    }

    /// - Parameter scenario: Of the stores; nil for a server without stores.
    private static func with(
        _ scenario: [String]?, roles: String = "receiver,projector,reader,poller", _ test: (Bundle) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let store = try scenario.map { scenario in
            try StoreProcess(
                [
                    "--store", "both", "--package-name", googleApp, "--write-api-key", "\(folder)/key.p8",
                    "--write-root", "\(folder)/root.pem",
                    "--write-service-account", "\(folder)/account.json",
                ] + scenario)
        }
        defer { store?.end() }
        let address = try store?.address() ?? "http://127.0.0.1:9"
        if store == nil {
            _ = try ServerProcess.simulate([
                "--write-api-key", "\(folder)/key.p8", "--write-root", "\(folder)/root.pem",
            ])
        }
        let owner: [FileAttributeKey: Any] = try ServerAccount.ifRoot().map { [.ownerAccountName: $0.name] } ?? [:]
        for name in ["key.p8", "account.json"] where FileManager.default.fileExists(atPath: "\(folder)/\(name)") {
            try FileManager.default.setAttributes(
                owner.merging([.posixPermissions: 0o600]) { $1 }, ofItemAtPath: "\(folder)/\(name)")
        }
        let google =
            store == nil
            ? ""
            : """
            ,{"packageName":"\(googleApp)","serviceAccount":"account.json","joinedWith":"\(app)",\
            "push":{"authentication":"none"}}
            """
        try Data(
            """
            [{"bundleId":"\(app)","appAppleId":1400000001,"serverAPI":
            {"issuerId":"57246542-96fe-1a63-e053-0824d011072a","keyId":"SIMULATED1","keyFile":"key.p8"}}\(google)]
            """.utf8
        ).write(to: URL(fileURLWithPath: "\(folder)/apps.json"))
        let environment = [
            "SUBLEDGER_APPS_FILE": "\(folder)/apps.json", "SUBLEDGER_SERVER_API_URL": "\(address)/production",
            "SUBLEDGER_SERVER_API_SANDBOX_URL": "\(address)/sandbox", "SUBLEDGER_GOOGLE_API_URL": "\(address)/google",
            "SUBLEDGER_ROOT_FILES": "\(folder)/root.pem", "SUBLEDGER_OCSP": "off",
            "SUBLEDGER_DATA_FOLDER": "\(folder)/data",
        ]
        let server = try ServerProcess(
            dataFolder: "\(folder)/data", environment: environment.merging(["SUBLEDGER_ROLES": roles]) { $1 })
        let ports = try await server.ports()
        try await test(
            Bundle(
                folder: folder, environment: environment, port: ports.private,
                token: try ServerProcess.token("link", dataFolder: "\(folder)/data")))
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    private static let header = "customerId,originalTransactionId\n"

    @Test("each row has a result; a repeat knows all of it, and a restart goes on after the last result")
    func results() async throws {
        try await Self.with(nil, roles: "receiver,projector,reader") { bundle in
            let rows = """
                customerId,originalTransactionId,purchaseToken,note
                u-1,1000000000000001,,"a, ""quoted"" note
                in two lines"
                u-1,1000000000000002,,
                ,1000000000000003,,
                u-3,,,
                u-4,GPA.1234,,
                u-5,1000000000000004,token,
                u-1,1000000000000001,,again
                u-6,1000000000000001,,taken over

                """
            try bundle.write("\u{FEFF}" + rows, "rows.csv")

            let first = try bundle.run(["import", bundle.file("rows.csv")])
            let results = try bundle.results("rows.csv.results.jsonl")
            let skipped = try bundle.run(["import", bundle.file("rows.csv")])
            let repeated = try bundle.run(["import", bundle.file("rows.csv"), "--results", bundle.file("second")])
            // A torn line, and the two before it, are not done.
            let text = try bundle.read("rows.csv.results.jsonl")
            let lines = text.split(separator: "\n")
            try bundle.write(lines.dropLast(2).joined(separator: "\n") + "\n{\"line\":9,\"cust", "torn")
            let resumed = try bundle.run(["import", bundle.file("rows.csv"), "--results", bundle.file("torn")])
            try bundle.write(Self.header + "u-9,1\nu-9,2\nu-9,3\n", "other.csv")
            let other = try bundle.run(["import", bundle.file("other.csv"), "--results", bundle.file("torn")])

            #expect(first.status == 65, "\(first.error)")
            #expect(first.output == #"{"rows":8,"taken":3,"known":1,"refused":4,"skipped":0}"# + "\n")
            #expect(
                results.map { $0["result"] as? String ?? "" }.joined(separator: " ")
                    == "taken taken refused refused refused refused known taken")
            #expect(results.map { $0["line"] as? Int } == [2, 4, 5, 6, 7, 8, 9, 10])
            #expect(results[2]["reason"] as? String == "customerId is missing")
            #expect((results[3]["reason"] as? String)?.hasPrefix("the row names no purchase") == true)
            #expect(results[4]["reason"] as? String == "originalTransactionId must be a number of Apple's")
            #expect((results[5]["reason"] as? String)?.hasPrefix("the row names purchases of both stores") == true)
            #expect(skipped.output == #"{"rows":8,"taken":0,"known":0,"refused":0,"skipped":8}"# + "\n")
            #expect(skipped.status == 0)
            // The last row took the purchase over, so that the first one takes it again, and the last one, too.
            #expect(repeated.output == #"{"rows":8,"taken":2,"known":2,"refused":4,"skipped":0}"# + "\n")
            #expect(resumed.output.hasSuffix(#""skipped":6}"# + "\n"))
            #expect(try bundle.results("torn").count == 8)
            #expect(other.status == 65 && other.error.contains("is of another file"), "\(other.error)")
        }
    }

    @Test("a file that is none is refused as a whole, with the reason")
    func badFiles() async throws {
        try await Self.with(nil, roles: "receiver,projector,reader") { bundle in
            let many = (1...98).map { "column\($0)" }.joined(separator: ",")
            let cells = (1...98).map { "value \($0)" }.joined(separator: ",")
            try bundle.write("customerId,originalTransactionId,\(many)\nu-1,11,\(cells)\nu-2,12\n", "wide.csv")
            try bundle.write("customerId\toriginalTransactionId\nu-1\t11\n\"u\t2\"\t13\n", "tabs.csv")
            try Data(("customerId,originalTransactionId\nu-1,11\n").data(using: .utf16) ?? Data())
                .write(to: URL(fileURLWithPath: bundle.file("utf16.csv")))
            try Data(Array("customerId,originalTransactionId\n".utf8) + [0x75, 0xFC] + Array(",14\nu-1,11\n".utf8))
                .write(to: URL(fileURLWithPath: bundle.file("latin1.csv")))
            try bundle.write(Self.header + "\"u-1,11\nu-2,12\n", "quote.csv")
            try bundle.write("name,id\nu-1,11\n", "unknown.csv")
            try bundle.write("", "empty.csv")
            try bundle.write(
                #"{"customerId":"u-1","originalTransactionId":"11","more":1}"# + "\n" + "{\n"
                    + #"{"customerId":"u-1","originalTransactionId":12}"# + "\n", "rows.jsonl")
            func summary(_ name: String) throws -> (status: Int32, output: String, error: String) {
                try bundle.run(["import", bundle.file(name), "--results", bundle.file("\(name).out")])
            }

            let wide = try summary("wide.csv")
            let tabs = try summary("tabs.csv")
            let (utf16, latin1) = (try summary("utf16.csv"), try summary("latin1.csv"))
            let (quote, unknown) = (try summary("quote.csv"), try summary("unknown.csv"))
            let (empty, json) = (try summary("empty.csv"), try summary("rows.jsonl"))

            #expect(wide.output.contains(#""taken":1,"known":0,"refused":1"#), "\(wide.error)")
            #expect(
                try bundle.results("wide.csv.out")[1]["reason"] as? String
                    == "2 fields: expected 100, as in the header")
            #expect(tabs.output.contains(#""taken":1,"known":1,"refused":0"#), "\(tabs.output)")
            #expect(utf16.status == 65 && utf16.error.contains("is UTF-16: save it as UTF-8"))
            #expect(latin1.output.contains(#""known":1,"refused":1"#), "\(latin1.output)")
            #expect(quote.status == 65 && quote.error.contains(":2: unterminated quoted field"), "\(quote.error)")
            #expect(unknown.status == 65 && unknown.error.contains("unknown columns"))
            #expect(empty.output == #"{"rows":0,"taken":0,"known":0,"refused":0,"skipped":0}"# + "\n")
            #expect(json.output.contains(#""taken":0,"known":1,"refused":2"#), "\(json.output)")
        }
    }

    @Test("rows are taken over HTTP, up to a thousand at a time")
    func overHTTP() async throws {
        try await Self.with(nil, roles: "receiver,projector,reader") { bundle in
            let backend = HTTPClient(port: bundle.port, token: bundle.token)
            func post(_ body: String, _ query: String = "?app=\(Self.app)") async throws -> HTTPAnswer {
                try await backend.post(Array(body.utf8), to: "/imports" + query)
            }
            let row = #"{"customerId":"u-1","originalTransactionId":"11"}"#

            let first = try await post(#"{"rows":[\#(row),{"customerId":"u-2"},\#(row),7]}"#)
            let second = try await post(#"{"rows":[\#(row)]}"#)
            let otherApp = try await post(#"{"rows":[\#(row)]}"#, "?app=com.example.other")
            let noApp = try await post(#"{"rows":[\#(row)]}"#, "")
            let none = try await post(#"{"rows":[]}"#)
            let many = try await post("{\"rows\":[\(Array(repeating: row, count: 1001).joined(separator: ","))]}")
            let full = try await post("{\"rows\":[\(Array(repeating: row, count: 1000).joined(separator: ","))]}")

            #expect(first.status == 200)
            let results = try #require(first.json["rows"] as? [[String: Any]])
            #expect(results.map { $0["result"] as? String } == ["taken", "refused", "known", "refused"])
            #expect(second.body.contains(#"{"rows":[{"result":"known"}]}"#))
            #expect(otherApp.body.contains("app is not configured"))
            #expect(noApp.body.contains("app is missing"))
            #expect(none.status == 400 && many.status == 400)
            #expect((full.json["rows"] as? [Any])?.count == 1000)
        }
    }

    /// One owner each, since an export states one, and access that the stores' answers show.
    private static let appleStories = [
        "renewals", "upgrade", "grace-recovered", "retry-never-recovered", "refund-of-current-period",
        "prorated-refund", "resubscribe-same", "price-rise-refused", "extension",
    ]
    private static let googleStories = [
        "cancelled", "grace-not-recovered", "hold-recovered", "paused", "downgrade-deferred", "refund-of-newest",
        "deferral", "add-ons", "prepaid", "one-time-pending", "promotion",
    ]

    @Test("customers of both stores get the access of the books from a service's export, though its import is killed")
    func switchOver() async throws {
        // The stories end an hour ago, and the stores' clocks stand there, behind that of the server.
        let at = Date(timeIntervalSinceNow: -3600).ISO8601Format()
        let scenario = [
            "--seed", "7", "--subscriptions", "40", "--environment", "production", "--apple-id", "1400000001",
            "--until", at, "--stories", (Self.appleStories + Self.googleStories).joined(separator: ","),
        ]
        try await Self.with(scenario) { bundle in
            let made = try ServerProcess.simulate(
                [
                    "--store", "both", "--package-name", Self.googleApp, "--write-export", bundle.file("export.csv"),
                    "--write-access", bundle.file("access.csv"), "--write-products", bundle.file("products.csv"),
                    "--export-at", at,
                ] + scenario)
            #expect(made.status == 0, "\(made.error)")
            let products = try bundle.run(["product", "import", bundle.file("products.csv")])
            #expect(products.status == 0, "\(products.error)")
            let compare = [
                "compare-access", bundle.file("access.csv"), "--at", at, "--app", Self.app,
            ]

            let before = try bundle.run(compare)
            for milliseconds in [30, 60, 100, 150, 200, 300] {
                try Self.runAndKill(
                    ["import", bundle.file("export.csv")], bundle.environment, after: .milliseconds(milliseconds))
            }
            let imported = try bundle.run(["import", bundle.file("export.csv")])
            var compared = try bundle.run(compare)
            _ = try? await eventually(within: .seconds(120), "the stores were asked") { () -> Bool? in
                compared = try bundle.run(compare)
                return compared.status == 0 ? true : nil
            }

            let export = try bundle.read("export.csv").split(separator: "\n").dropFirst()
            let rows = export.count
            let ofGoogle = export.filter { $0.contains(",play_store,") }
            let losses = before.output.components(separatedBy: #""difference":"loses""#).count - 1
            #expect(ofGoogle.count >= 40 && rows - ofGoogle.count == 40)
            #expect(before.status == 1 && losses >= 10, "\(before.output)")
            #expect(imported.status == 0, "\(imported.output)\(imported.error)")
            #expect(try bundle.results("export.csv.results.jsonl").count == rows)
            #expect(compared.status == 0, "\(compared.output)")
            #expect(compared.output.contains(#""gains":0,"loses":0,"later":0,"earlier":0,"reasons":[]"#))
        }
    }

    @Test("purchases of Google Play are found by the order numbers of an export")
    func orders() async throws {
        let scenario = ["--seed", "7", "--subscriptions", "10", "--package-name", Self.googleApp]
        try await Self.with(["--environment", "production", "--apple-id", "1400000001"] + scenario) { bundle in
            let made = try ServerProcess.simulate(
                ["--store", "google", "--write-export", bundle.file("export.csv")] + scenario)
            let imported = try bundle.run(["import", bundle.file("export.csv")])
            try bundle.write("customerId,orderId\nu-1,GPA.0000-0000-0000-00000\n", "unknown.csv")
            let unknown = try bundle.run(["import", bundle.file("unknown.csv")])

            #expect(made.status == 0 && imported.status == 0, "\(imported.output)\(imported.error)")
            #expect(imported.output.contains(#""refused":0"#), "\(imported.output)")
            #expect(unknown.status == 65)
            #expect(try bundle.read("unknown.csv.results.jsonl").contains("Google Play does not know this order"))
            let stranger = try bundle.run(["poll", "--app", Self.googleApp, "--subscription", "stranger"])
            #expect(stranger.status == 65)
            #expect(stranger.error == "subledger: no subscription stranger of \(Self.googleApp) is known\n")
        }
    }

    @Test("order numbers are looked up together, and one by one beside one that Google does not know")
    func ordersAtOnce() async throws {
        let scenario = [
            "--seed", "7", "--subscriptions", "30", "--package-name", Self.googleApp, "--stories", "cancelled",
        ]
        let apple = ["--environment", "production", "--apple-id", "1400000001"]
        // A server that asks nothing itself.
        try await Self.with(apple + scenario, roles: "receiver,projector,reader") { bundle in
            let made = try ServerProcess.simulate(
                ["--store", "google", "--write-export", bundle.file("export.csv")] + scenario)
            #expect(made.status == 0, "\(made.error)")
            let address = try #require(URL(string: bundle.environment["SUBLEDGER_GOOGLE_API_URL"] ?? ""))
            let store = HTTPClient(port: try #require(address.port))
            func asked() async throws -> [String: Int] {
                let answer = try await store.get("/google/requests")
                let requests = try #require(answer.json["apiRequests"] as? [[String: Any]])
                return Dictionary(
                    requests.map { ($0["endpoint"] as? String ?? "", $0["count"] as? Int ?? 0) }, uniquingKeysWith: +)
            }
            let lines = try bundle.read("export.csv").split(separator: "\n")
            try bundle.write(lines.dropLast(3).map { $0 + "\n" }.joined(), "export.csv")
            let named = lines.suffix(3).compactMap { line in line.split(separator: ",").first { $0.hasPrefix("GPA.") } }
            let orders = named + ["GPA.0000-0000-0000-00000"]
            try bundle.write("customerId,orderId\n" + orders.map { "u-1,\($0)\n" }.joined(), "unknown.csv")

            let imported = try bundle.run(["import", bundle.file("export.csv")])
            let together = try await asked()
            let unknown = try bundle.run(["import", bundle.file("unknown.csv")])
            let alone = try await asked()
            let results = try bundle.read("unknown.csv.results.jsonl")

            #expect(imported.output == #"{"rows":27,"taken":27,"known":0,"refused":0,"skipped":0}"# + "\n")
            #expect(together == ["orders": 2])
            #expect(
                unknown.output == #"{"rows":4,"taken":3,"known":0,"refused":1,"skipped":0}"# + "\n",
                "\(results)")
            #expect(alone == ["orders": 3, "order": 4])
        }
    }

    /// Starts a command and kills it.
    private static func runAndKill(
        _ arguments: [String], _ environment: [String: String], after pause: Duration
    ) throws {
        let process = Process()
        process.executableURL = ServerProcess.executable
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        Thread.sleep(forTimeInterval: Double(pause.components.attoseconds) / 1e18)
        kill(process.processIdentifier, SIGKILL)
        try process.end(within: 10)
    }
}
