import AppStore
import Foundation
import Hummingbird
import Logging
import Simulation
import Synchronization
import TestSupport
import Testing

@Suite("Evidence with signed OCSP responses")
struct OCSPEvidenceTests {
    private static let uuids = ["002e14d5-51f5-4503-b5a8-c3a1af68eb21", "002e14d5-51f5-4503-b5a8-c3a1af68eb22"]

    private struct Bundle {
        let certificates: TestCertificates
        /// The last request about each certificate.
        let requests: [TestCertificates.Part: [UInt8]]
        let database: SharedDatabase
        let folder: String

        func evidence(_ position: Int) throws -> String {
            let result = try ServerProcess.run(
                ["evidence", "\(position)", "--app", SignedBody.app, "--environment", "sandbox"],
                environment: database.environment().merging(["SUBLEDGER_HEAD_KEY": folder + "/key.pem"]) { $1 })
            #expect(result.status == 0, "\(result.error)")
            return result.output
        }

        func verify(_ evidence: String) throws -> (status: Int32, output: String) {
            let head = try ServerProcess.run(
                ["head"],
                environment: database.environment().merging(["SUBLEDGER_HEAD_KEY": folder + "/key.pem"]) { $1 })
            let json = try JSONSerialization.jsonObject(with: Data(head.output.utf8)) as? [String: Any]
            let key = json?["publicKey"] as? String ?? ""
            let result = try ServerProcess.run(
                ["verify-evidence", "-", "--public-key", key, "--root", folder + "/root.pem"],
                input: Data(evidence.utf8))
            return (result.status, result.output)
        }

        func response(about part: TestCertificates.Part, _ answer: RevocationAnswer) throws -> String {
            let request = try #require(requests[part])
            return Data(try answer.der(to: request, by: certificates.issuer(of: part))).base64EncodedString()
        }
    }

    /// A server that has stored two notifications, with the responder of their certificates.
    private static func withServer(_ test: (Bundle) async throws -> Void) async throws {
        let requests = Mutex<[TestCertificates.Part: [UInt8]]>([:])
        let (listening, isListening) = AsyncStream<Int>.makeStream()
        let made = Mutex<TestCertificates?>(nil)
        let router = Router()
        router.post("ocsp") { request, _ in
            let request = Array(buffer: try await request.body.collect(upTo: 1 << 20))
            guard let certificates = made.withLock({ $0 }) else { throw HTTPError(.notFound) }
            let part = try certificates.part(in: request)
            requests.withLock { $0[part] = request }
            let answer = try RevocationAnswer().der(to: request, by: certificates.issuer(of: part))
            return Response(status: .ok, body: .init(byteBuffer: ByteBuffer(bytes: answer)))
        }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { isListening.yield($0.localAddress?.port ?? 0) }, logger: logger)
        let responder = Task { try await application.run() }
        var shape = TestCertificates.Shape()
        for await port in listening {
            shape.ocspResponder = "http://127.0.0.1:\(port)/ocsp"
            break
        }
        let certificates = TestCertificates(shape)
        made.withLock { $0 = certificates }
        let folder = NSTemporaryDirectory() + "ocsp-evidence-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try certificates.rootPEM.write(toFile: folder + "/root.pem", atomically: true, encoding: .utf8)
        let database = try await SharedDatabase.make()
        let server = try database.server(
            "receiver",
            more: [
                "SUBLEDGER_OCSP": "required", "SUBLEDGER_ROOT_FILES": folder + "/root.pem",
                "SUBLEDGER_APP_BUNDLE_ID": SignedBody.app,
            ])
        let client = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
        for uuid in uuids {
            let answer = try await client.post(SignedBody.make(uuid: uuid, signer: JWSSigner(certificates)))
            #expect(answer.status == 200, "\(answer.body)")
        }
        _ = try await eventually("the responses are stored") {
            try await database.lines("select status from subledger.ocsp_response").count >= 2 ? true : nil
        }
        try await test(
            Bundle(
                certificates: certificates, requests: requests.withLock { $0 }, database: database, folder: folder))
        server.signal(SIGTERM)
        try await server.hasEnded()
        responder.cancel()
        _ = await responder.result
        try FileManager.default.removeItem(atPath: folder)
    }

    @Test("the responses that the server received are verified offline, and any others are refused")
    func endToEnd() async throws {
        try await Self.withServer { bundle in
            // Once for each certificate, not for each event.
            #expect(
                try await bundle.database.lines("select status from subledger.ocsp_response") == ["good", "good"])
            let text = try bundle.evidence(2)
            let json = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            let ocsp = try #require(json?["ocsp"] as? [String: String])
            let leaf = try #require(ocsp["leaf"])
            let intermediate = try #require(ocsp["intermediate"])
            let ocspMember = "\"ocsp\":{\"leaf\":\"\(leaf)\",\"intermediate\":\"\(intermediate)\"},"
            #expect(text.contains(ocspMember))

            let whole = try bundle.verify(text)
            #expect(whole.status == 0, "\(whole.output)")
            #expect(whole.output.contains("\nocsp: signed responses of the issuers: leaf certificate good from 2"))
            #expect(whole.output.contains(", intermediate certificate good from 2"))

            // What earlier releases wrote.
            let old = try bundle.verify(text.replacing(ocspMember, with: ""))
            #expect(old.status == 0)
            #expect(old.output.contains("\nocsp: no response included\n"))
            let half = try bundle.verify(text.replacing(",\"intermediate\":\"\(intermediate)\"}", with: "}"))
            #expect(half.status == 0)
            #expect(half.output.contains(", no response about the intermediate certificate included\n"))

            var flipped = try #require(Data(base64Encoded: leaf))
            flipped[flipped.count - 1] ^= 1
            var other = TestCertificates.Shape()
            other.label = "another"
            let stranger = TestCertificates(other).issuer(of: .leaf)
            let changes: [(String, String)] = [
                (flipped.base64EncodedString(), "is not signed by the certificate's issuer"),
                (try bundle.response(about: .leaf, RevocationAnswer(signer: stranger)), "is not signed by"),
                (intermediate, "is about another certificate"),
                ("AQID", "cannot be decoded as a successful OCSP response"),
                (
                    try bundle.response(
                        about: .leaf,
                        RevocationAnswer(thisUpdate: Date() - 864_000, nextUpdate: Date() - 691_200)), "is valid from 2"
                ),
                (
                    try bundle.response(
                        about: .leaf, RevocationAnswer(thisUpdate: Date() + 864_000, nextUpdate: Date() + 900_000)),
                    "is valid from 2"
                ),
            ]
            for (changed, problem) in changes {
                let result = try bundle.verify(text.replacing(leaf, with: changed))
                #expect(result.status == 1)
                #expect(
                    result.output.hasPrefix("not verified: ocsp: the response about the leaf certificate \(problem)"),
                    "\(result.output)")
            }
            for (status, word) in [(RevocationAnswer.Status.revoked, "revoked"), (.unknown, "unknown")] {
                let changed = try bundle.response(about: .intermediate, RevocationAnswer(status: status))
                let result = try bundle.verify(text.replacing(intermediate, with: changed))
                #expect(result.status == 1)
                #expect(
                    result.output
                        == "not verified: ocsp: the intermediate certificate was \(word) when the event was received\n")
            }
            #expect(try bundle.verify(text.replacing("\"leaf\":\"\(leaf)\"", with: "\"leaf\":1")).status == 65)
        }
    }
}
