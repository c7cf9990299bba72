import AppStore
import Foundation
import Simulation
import TestSupport
import Testing

@Suite("The code of the quick start does what it says, in each language that is installed")
struct QuickStartTests {
    private static let app = "com.example.app"
    private static let user = "9edbe9bd-18ad-481d-bd8e-67d8f2af75d5"

    /// Where the code is not run, although the article has it: its compiler is not a package of Debian.
    private static let notRun = ["kotlin"]

    private static func blocks(_ language: String) throws -> [String] {
        try DocumentationArticle("QuickStart").blocks.filter { $0.language == language }.map {
            $0.lines.joined(separator: "\n")
        }
    }

    private static func has(_ program: String) -> Bool {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").contains {
            FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
        }
    }

    /// A server that trusts the signer of the tests, and a token of its backend.
    private static func with(_ test: (TestBundle, URL, String) async throws -> Void) async throws {
        let root = try #require(RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)))
        let configured = App(bundleId: app, appAppleId: 1_234_567_890)
        try await TestBundle.withServer(apps: [configured], roots: root) { server in
            let folder = URL(fileURLWithPath: TestFolder.path("quick-start"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try await test(server, folder, try await TestBundle.token(.link, server.database))
        }
    }

    private static func handIn(_ server: TestBundle, _ token: String) async throws {
        let text = DeviceText.transaction(app: app, environment: "Production", account: user)
        let answer = try await HTTPClient(port: server.backend.port, token: token, patience: .seconds(60)).post(
            Array(#"{"signedTransaction":"\#(text)","customerId":"\#(user)"}"#.utf8),
            to: "/transactions?app=\(app)&environment=any")
        #expect(answer.status == 200, "\(answer.body)")
    }

    /// What a program prints about the customer and another one, and about a server that rejects its token.
    private static let printed = "true false false\nno answer\n"

    @Test("the article has code in these languages, and those that are not run are listed")
    func languages() throws {
        let languages = Set(try DocumentationArticle("QuickStart").blocks.map(\.language)).subtracting(["console"])

        #expect(languages == ["swift", "python", "javascript", "kotlin"])
        #expect(Set(Self.notRun) == ["kotlin"])
    }

    @Test(
        "Swift: the app hands a purchase in, and the backend asks",
        .enabled(if: has("swiftc"), "swiftc is not installed"), .timeLimit(.minutes(5)))
    func swift() async throws {
        let blocks = try Self.blocks("swift")
        #expect(blocks.count == 2)
        try await Self.with { server, folder, token in
            let text = DeviceText.transaction(app: Self.app, environment: "Production", account: Self.user)
            let file = folder.appendingPathComponent("main.swift")
            let program = """
                \(blocks.joined(separator: "\n"))
                let ledger = URL(string: "http://127.0.0.1:\(server.backend.port)")!
                let (token, user) = ("\(token)", "\(Self.user)")
                let backend = URL(string: "\\(ledger)/transactions?app=\(Self.app)&environment=any")!
                try await handIn("\(text)", user: UUID(uuidString: user)!, backend: backend, token: token)
                do {
                    try await handIn("no text", user: UUID(), backend: backend, token: token)
                    print("stored what is no purchase")
                } catch let error as NotStored where error.status == 400 {}
                print(
                    try await isEntitled(user, to: "monthly", ledger: ledger, token: token),
                    try await isEntitled(user, to: "other", ledger: ledger, token: token),
                    try await isEntitled("nobody", to: "monthly", ledger: ledger, token: token))
                do {
                    print(try await isEntitled(user, to: "monthly", ledger: ledger, token: "slt_wrong"))
                } catch is NoAnswer { print("no answer") }
                """
            try program.write(to: file, atomically: true, encoding: .utf8)

            let built = try Process.run(
                command: ["swiftc", "-o", folder.appendingPathComponent("program").path, file.path], limit: 240)
            #expect(built.status == 0, "\(built.errorText)")
            let result = try Process.run(folder.appendingPathComponent("program"), [])

            #expect(result.outputText == Self.printed, "\(result.outputText)\(result.errorText)")
        }
    }

    @Test("Python: the backend asks", .enabled(if: has("python3"), "python3 is not installed"))
    func python() async throws {
        let blocks = try Self.blocks("python")
        #expect(blocks.count == 1)
        try await Self.with { server, _, token in
            try await Self.handIn(server, token)
            let ask = #"is_entitled("\#(Self.user)", "monthly", ledger,"#
            let program = """
                \(blocks[0])
                ledger, token = "http://127.0.0.1:\(server.backend.port)", "\(token)"
                answers = [\(ask) token), is_entitled("\(Self.user)", "other", ledger, token),
                           is_entitled("nobody", "monthly", ledger, token)]
                print(*[str(each).lower() for each in answers])
                try:
                    print(\(ask) "slt_wrong"))
                except urllib.error.HTTPError as error:
                    print("no answer" if error.code == 401 else error.code)
                """

            let result = try Process.run(command: ["python3", "-c", program])

            #expect(result.outputText == Self.printed, "\(result.outputText)\(result.errorText)")
        }
    }

    @Test("Node: the backend asks", .enabled(if: has("node"), "node is not installed"))
    func node() async throws {
        let blocks = try Self.blocks("javascript")
        #expect(blocks.count == 1)
        try await Self.with { server, _, token in
            try await Self.handIn(server, token)
            let program = """
                \(blocks[0])
                const [ledger, token] = ["http://127.0.0.1:\(server.backend.port)", "\(token)"];
                console.log(
                  await isEntitled("\(Self.user)", "monthly", ledger, token),
                  await isEntitled("\(Self.user)", "other", ledger, token),
                  await isEntitled("nobody", "monthly", ledger, token));
                try {
                  console.log(await isEntitled("\(Self.user)", "monthly", ledger, "slt_wrong"));
                } catch (error) {
                  console.log(error.message === "no answer: 401" ? "no answer" : error.message);
                }
                """

            let result = try Process.run(command: ["node", "--input-type=module", "--eval", program])

            #expect(result.outputText == Self.printed, "\(result.outputText)\(result.errorText)")
        }
    }

    @Test("Kotlin: the app's code compiles", .enabled(if: has("kotlinc"), "kotlinc is not installed"))
    func kotlin() async throws {
        let blocks = try Self.blocks("kotlin")
        #expect(blocks.count == 1)
        try await Self.with { _, folder, _ in
            let file = folder.appendingPathComponent("HandIn.kt")
            try blocks[0].write(to: file, atomically: true, encoding: .utf8)

            let result = try Process.run(
                command: ["kotlinc", file.path, "-d", folder.appendingPathComponent("app.jar").path], limit: 240)

            #expect(result.status == 0, "\(result.errorText)")
        }
    }
}
