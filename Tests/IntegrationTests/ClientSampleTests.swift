import Foundation
import Simulation
import Synchronization
import TestSupport
import Testing

@Suite("The command-line sample of the client library")
struct ClientSampleTests {
    private static let app = "com.example.magazine"

    static var program: URL {
        ServerProcess.executable.deletingLastPathComponent().appendingPathComponent("ClientSample")
    }

    /// The sample as a process, which answers each command with a line.
    private final class Sample {
        private let process = Process()
        private let input = Pipe()
        private let received = Received()
        private var linesRead = 0

        private final class Received: Sendable {
            let text = Mutex("")
        }

        init() throws {
            let output = Pipe()
            process.executableURL = ClientSampleTests.program
            process.standardInput = input
            process.standardOutput = output
            output.fileHandleForReading.readabilityHandler = { [received] handle in
                let part = handle.availableData
                guard !part.isEmpty else {
                    handle.readabilityHandler = nil
                    return
                }
                received.text.withLock { $0 += String(decoding: part, as: UTF8.self) }
            }
            try process.run()
        }

        /// Sends a command and returns the lines of its answer.
        func send(_ command: [String: Any]) async throws -> [String] {
            let line = try JSONSerialization.data(withJSONObject: command) + Data("\n".utf8)
            try input.fileHandleForWriting.write(contentsOf: line)
            let answer = try await eventually(within: .seconds(120), "an answer") { () -> [String]? in
                let text = received.text.withLock { $0 }
                let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
                    .dropFirst(linesRead).map(String.init)
                return lines.last?.contains("\"ok\":") == true ? lines : nil
            }
            linesRead += answer.count
            return answer
        }

        func end() throws {
            try input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
    }

    /// A transaction of now, as Apple signs it.
    private static func transaction(_ number: Int, _ product: String, _ user: String) -> [String: Any] {
        let id = "\(2_000_000_000_000_000 + number)"
        let now = Date().timeIntervalSince1970
        let milliseconds = Int64(now * 1000)
        let payload = """
            {"transactionId":"\(id)","originalTransactionId":"\(id)","bundleId":"\(app)","productId":"\(product)",\
            "purchaseDate":\(milliseconds),"expiresDate":\(milliseconds + 2_592_000_000),"appAccountToken":"\(user)",\
            "type":"Auto-Renewable Subscription","environment":"Production","signedDate":\(milliseconds)}
            """
        let text = String(decoding: JWSSigner(.standard).sign(Array(payload.utf8)), as: UTF8.self)
        return [
            "id": id, "productId": product, "text": text, "appAccountToken": user, "purchaseDate": now,
            "expirationDate": now + 2_592_000, "isVerified": true,
        ]
    }

    @Test("it buys, loses its network, restarts, restores and says what is active, which the console shows as well")
    func session() async throws {
        let folder = TestFolder.path("sample")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let (root, apps) = ("\(folder)/root.der", "\(folder)/apps.json")
        try Data(TestCertificates.standard.rootDER).write(to: URL(fileURLWithPath: root))
        try Data(#"[{"bundleId":"\#(Self.app)","assertions":{"secrets":["\#(AssertionText.secret)"]}}]"#.utf8)
            .write(to: URL(fileURLWithPath: apps))
        let data = "\(folder)/data"
        let server = try ServerProcess(
            dataFolder: data,
            environment: [
                "SUBLEDGER_APPS_FILE": apps, "SUBLEDGER_APP_BUNDLE_ID": "", "SUBLEDGER_APP_SHARED_SECRET": "",
                "SUBLEDGER_ROOT_FILES": root, "SUBLEDGER_OCSP": "off", "SUBLEDGER_PUBLIC_APPS": "on",
            ])
        let ports = try await server.ports()
        func token(_ arguments: String...) throws -> String {
            try ServerProcess.run(
                ["token", "create"] + arguments + ["--data-folder", data, "--log-level", "error"]
            ).output.trimmingCharacters(in: .whitespacesAndNewlines)
        }
        let publishable = try token("--scope", "publishable", "--app", Self.app)
        let reading = try token("--scope", "read")
        let reader = HTTPClient(port: ports.private, token: reading)
        let keySet = try #require(try await reader.get("/.well-known/jwks.json").json["keys"] as? [[String: Any]])
        let user = UUID().uuidString.lowercased()
        let begun = Date().timeIntervalSince1970
        let assertion = AssertionText.hs256(AssertionText.claims(user, exp: Int64(begun) + 600))
        let login: [String: Any] = ["do": "login", "user": user, "customerId": user, "assertions": [assertion]]
        let sample = try Sample()
        var lines: [String] = []
        func send(_ command: [String: Any]) async throws {
            let answer = try await sample.send(command)
            lines += answer
        }
        func buy(_ number: Int, _ product: String) async throws -> String {
            let transaction = Self.transaction(number, product, user)
            try await send(["do": "purchase", "product": product, "outcome": "bought", "transaction": transaction])
            let text = try #require(transaction["text"] as? String)
            return #"{"event":"finished","id":"\#(2_000_000_000_000_000 + number)","text":"\#(text)"}"#
        }

        try await send([
            "do": "setup", "base": "http://127.0.0.1:\(ports.public)", "token": publishable, "app": Self.app,
            "keys": keySet.compactMap { $0["x"] as? String }, "products": [String: [String]](), "now": begun,
            "uptime": 1000,
        ])
        try await send(login)
        try await send(["do": "state"])
        let monthly = try await buy(1, "monthly")
        try await send(["do": "refresh"])
        try await send(["do": "state"])
        try await send(["do": "network", "away": true])
        let yearly = try await buy(2, "yearly")
        try await send(["do": "refresh"])
        try await send(["do": "restart"])
        try await send(login)
        try await send(["do": "state"])
        try await send(["do": "network", "away": false])
        try await send(["do": "refresh"])
        try await send(["do": "restore"])
        try await send(["do": "state"])
        try sample.end()
        let stored = try await reader.get("/customers/\(user)/entitlements?app=\(Self.app)&as=link")
        let browser = ConsoleBrowser(port: ports.private)
        let page = try await browser.get(
            "/console/customers/\(user)?as=link&stream=production%3A\(Self.app)",
            cookie: try await browser.login(reading))
        server.signal(SIGTERM)
        try await server.hasEnded()

        let ok = #"{"ok":true}"#
        let both = #"{"active":["monthly","yearly"],"ok":true,"trust":"verified","unfinished":["#
        #expect(
            lines == [
                ok, ok, #"{"active":[],"ok":true,"trust":"unverified","unfinished":[]}"#,
                monthly, ok, ok, #"{"active":["monthly"],"ok":true,"trust":"verified","unfinished":[]}"#,
                // Without network, the device grants what it knows.
                ok, ok, #"{"error":"unreachable","ok":false}"#, ok, ok, both + #""2000000000000002"]}"#,
                ok, yearly, ok,
                // What restoring hands in is finished once more.
                monthly, yearly, #"{"found":["monthly","yearly"],"ok":true,"refused":[]}"#, both + "]}",
            ], "\(server.log)")
        let names = (stored.json["entitlements"] as? [[String: Any]])?.compactMap { $0["entitlement"] as? String }
        #expect(names == ["monthly", "yearly"], "\(stored.body)")
        #expect(page.status == 200)
        // In a sentence for each, or in one for both.
        #expect(page.body.contains(/monthly (is|and yearly are) active until/), "\(page.body)")
        #expect(page.body.contains(/(yearly is|monthly and yearly are) active until/), "\(page.body)")
    }
}
