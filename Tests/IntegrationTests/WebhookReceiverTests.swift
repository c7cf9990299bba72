import Encoding
import Foundation
import HTTPTypes
import Hummingbird
import Outbound
import StandardWebhooks
import TestSupport
import Testing

@Suite("The receivers of the article about webhooks accept what is sent, and nothing else")
struct WebhookReceiverTests {
    /// A receiver in another language.
    struct Program: Sendable, CustomTestStringConvertible {
        let language: String
        let command: [String]
        let signature: Endpoint.Signature
        /// What must be installed: exits with 0 if it is.
        let probe: [String]

        var testDescription: String { language }

        var isInstalled: Bool { (try? WebhookReceiverTests.status(of: probe)) == 0 }
    }

    static let programs = [
        Program(
            language: "python", command: ["python3"], signature: .v1,
            probe: ["python3", "-c", "import standardwebhooks"]),
        Program(language: "javascript", command: ["node"], signature: .v1a, probe: ["node", "--version"]),
    ]

    private static func status(of command: [String]) throws -> Int32 {
        try Process.run(command: command).status
    }

    private static var now: Instant { Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest }

    /// Waits until a receiver refuses a message that nobody signed.
    private static func isRefusing(_ url: String) async throws {
        let client = EndpointClient(url: url, EndpointClientSettings(allowsPrivate: true), now: { now })
        _ = try await eventually(within: .seconds(60), "the receiver answers") { () -> Bool? in
            let request = OutboundRequest(headers: [("content-type", "application/json")], body: Array("{}".utf8))
            return await client.post(request)?.status == 401 ? true : nil
        }
        await client.shutDown()
    }

    @Test("a receiver in another language, where it is installed", arguments: programs.filter(\.isInstalled))
    func program(_ program: Program) async throws {
        let block = try #require(
            try DocumentationArticle("Webhooks").blocks.first { $0.language == program.language })
        try await OutboundBundle.with(endpoint: false) { bundle in
            bundle.clock.set(Self.now)
            let port = try FreePort.find()
            try await bundle.add(signature: program.signature, url: "http://127.0.0.1:\(port)/")
            let now = bundle.clock.now
            let secret = try bundle.keys.change { $0.rotate(OutboundBundle.id, at: now) }
            let key = program.signature == .v1 ? secret : try #require(bundle.keys.read().published(at: now).first)
            let source = block.lines.joined(separator: "\n").replacing("whsec_…", with: key)
                .replacing("whpk_…", with: key).replacing("8000", with: String(port))
            let file = TestFolder.path("receiver-\(program.language)")
            try Data(source.utf8).write(to: URL(fileURLWithPath: file))
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = program.command + [file]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            defer {
                // It inherits that the tests block other signals.
                kill(process.processIdentifier, SIGKILL)
                try? process.end(within: 10)
            }
            try await Self.isRefusing("http://127.0.0.1:\(port)/")

            try await bundle.publish(["a", "b", "a"])
            try await bundle.delivering { _ in
                try await bundle.delivered()
                #expect(try await bundle.attempts().map(\.status) == [204, 204, 204])
                _ = try bundle.keys.change { keys in
                    // The old keys sign no more.
                    _ = keys.rotateServer(at: now.advanced(by: .seconds(-100_000)))
                    _ = keys.rotate(OutboundBundle.id, at: now.advanced(by: .seconds(-100_000)))
                }
                try await bundle.publish(["a"])
                let attempts = try await bundle.attempted(4)
                #expect(attempts.last?.status == 401)
            }
        }
    }

    @Test("the receiver in Swift is the code of the article, and accepts what is sent")
    func swift() async throws {
        let block = try #require(try DocumentationArticle("Webhooks").blocks.first { $0.language == "swift" })
        let source = try String(contentsOfFile: #filePath, encoding: .utf8).split(separator: "\n")
            .map { $0.trimmingCharacters(in: .whitespaces) }
        for line in block.lines.map({ $0.trimmingCharacters(in: .whitespaces) }) where !line.isEmpty {
            // The key, and where it listens, differ.
            guard !line.contains("whpk_…"), !line.hasPrefix("try await Application") else { continue }
            #expect(source.contains(line), "\(line)")
        }

        try await OutboundBundle.with(endpoint: false) { bundle in
            bundle.clock.set(Self.now)
            let key = try #require(bundle.keys.read().published(at: bundle.clock.now).first)
            let port = try FreePort.find()
            let router = Self.receiver(WebhookVerifier(keys: [try VerificationKey(key)]))
            let server = Task {
                try await Application(
                    router: router, configuration: .init(address: .hostname("127.0.0.1", port: port))
                ).run()
            }
            defer { server.cancel() }
            try await Self.isRefusing("http://127.0.0.1:\(port)/subledger")
            try await bundle.add(url: "http://127.0.0.1:\(port)/subledger")
            try await bundle.publish(["a", "b", "a"])
            try await bundle.delivering { _ in try await bundle.delivered() }

            #expect(try await bundle.attempts().map(\.status) == [204, 204, 204])
        }
    }

    private static func receiver(_ verifier: WebhookVerifier) -> Router<BasicRequestContext> {
        let router = Router()
        router.post("/subledger") { request, _ in
            let body = Data(buffer: try await request.body.collect(upTo: 1 << 20))
            do {
                try verifier.verify(body, now: Date()) { name in
                    HTTPField.Name(name).flatMap { request.headers[$0] }
                }
            } catch {
                return HTTPResponse.Status.unauthorized
            }
            // Store webhook-id and what follows from the body in one transaction.
            return .noContent
        }
        return router
    }
}
