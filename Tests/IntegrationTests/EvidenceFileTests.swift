import AppStore
import Crypto
import Encoding
import EventLog
import Foundation
import PlayStore
import Postgres
import Subscriptions
import TestSupport
import Testing

@testable import Verification

@Suite("Evidence proves an event without the database")
struct EvidenceFileTests {
    private static let key = HeadKey()
    private static let stream = StreamKey(app: V1Body.app, environment: .sandbox)

    private struct Bundle {
        let log: SimulatedLog
        let connection: PostgresConnection

        /// A head of the last position.
        func head() async throws -> SignedHead {
            let heads = try await StreamHead.all(on: connection)
            return try EvidenceFileTests.key.sign(try #require(heads.first), at: TestBundle.now)
        }

        func evidence(at position: Int64) async throws -> EvidenceFile {
            try await EvidenceReader(log: LogAudit(connection: connection)).evidence(
                at: position, head: try await head())
        }

        /// The first position of an event of a source.
        func position(of source: EventSource) async throws -> Int64 {
            let rows = try await connection.query(
                Statement("first", "select min(position) from subledger.event where source = $1 and position > 1"),
                [Parameter(source.rawValue)], deadline: .now + .seconds(20))
            return try rows[0].value(at: 0)
        }
    }

    private static func withLog(_ test: (Bundle) async throws -> Void) async throws {
        let template = try await SimulatedLog.fewStories.value
        try await SimulatedLog.with(from: template) { log in
            let owner = try await TestCluster.connect(log.database)
            try await test(Bundle(log: log, connection: owner))
            await owner.close()
        }
    }

    /// The hash chain of evidence that leads to a head.
    private static func path(_ evidence: EvidenceFile) throws -> ChainPath {
        guard case .chain(let path) = evidence.path else { throw ExpectedChain() }
        return path
    }

    private struct ExpectedChain: Error {}

    private static func text(_ evidence: EvidenceFile) -> String {
        var writer = JSONWriter()
        evidence.write(to: &writer)
        return writer.text
    }

    /// What is wrong with a file; nil if everything is proven, "unreadable" if it is not evidence.
    private static func problem(
        _ text: String, roots: RootCertificates = SimulatedLog.roots,
        keys: [HeadPublicKey] = [EvidenceFileTests.key.publicKey]
    ) async throws -> String? {
        guard let evidence = EvidenceFile(json: try JSONDocument(Array(text.utf8)).root) else { return "unreadable" }
        let verifier = EvidenceVerifier(signatures: SignatureVerifier(roots: roots), keys: keys)
        do throws(EvidenceProblem) {
            _ = try await verifier.verify(evidence)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("evidence of each event is verified from its text, and the certificates are those of the signature")
    func sound() async throws {
        try await Self.withLog { bundle in
            let last = try await bundle.head().head.position
            var signed = 0
            for position in [1, 2, 3, 4, 5, 6, 7, 8, last - 1, last] {
                let evidence = try await bundle.evidence(at: position)

                #expect(try await Self.problem(Self.text(evidence)) == nil, "\(position)")
                #expect(try Self.path(evidence).digests.count == Int(last - position))
                #expect(evidence.certificates.isEmpty == (evidence.event.chainId == nil))
                if !evidence.certificates.isEmpty { signed += 1 }
            }
            #expect(signed > 0)
        }
    }

    @Test("evidence contains the recorded revocation checks of its certificates")
    func verdicts() async throws {
        try await Self.withLog { bundle in
            let position = try await bundle.position(of: .appleV2)
            try await bundle.log.script(
                """
                insert into subledger.certificate_verdict (chain_id, decided_at, verdict)
                select chain_id, timestamptz '2026-01-01', 'good' from subledger.event where position = \(position)
                union all
                select sha256('x'), timestamptz '2026-01-01', 'revoked'
                """)

            let evidence = try await bundle.evidence(at: position)

            #expect(evidence.verdicts.map(\.verdict) == ["good"])
            #expect(try await Self.problem(Self.text(evidence)) == nil)
        }
    }

    @Test("evidence contains the OCSP response in force: the last one before the event, else the first one after it")
    func responses() async throws {
        try await Self.withLog { bundle in
            let position = try await bundle.position(of: .appleV2)
            let leaf = Hex.text(try #require(try await bundle.evidence(at: position).certificates.first))
            /// - Parameters: Hours after the event was received.
            func write(_ name: String, answered: Double, from first: Double, to last: Double) async throws {
                try await bundle.log.script(
                    """
                    insert into subledger.ocsp_response (
                      certificate_sha256, response_sha256, status, this_update, next_update, answered_at, response
                    )
                    select sha256(decode('\(leaf)', 'hex')), sha256('\(name)'), 'good',
                      received_at + interval '\(first) hours', received_at + interval '\(last) hours',
                      received_at + interval '\(answered) hours', '\(name)'
                    from subledger.event
                    where position = \(position)
                    """)
            }
            func chosen() async throws -> String? {
                let responses = try await bundle.evidence(at: position).responses
                #expect(responses[.intermediate] == nil)
                return responses[.leaf].map { String(decoding: $0, as: UTF8.self) }
            }

            try await write("over", answered: -9, from: -10, to: -1.3)
            try await write("later", answered: 2, from: 1.3, to: 9)
            #expect(try await chosen() == nil)
            try await write("second after", answered: 1, from: 1.2, to: 9)
            #expect(try await chosen() == "second after")
            try await write("first after", answered: 0.5, from: 0, to: 9)
            #expect(try await chosen() == "first after")
            try await write("early", answered: -8, from: -9, to: -1.2)
            #expect(try await chosen() == "early")
            try await write("before", answered: -1, from: -2, to: 1)
            #expect(try await chosen() == "before")
        }
    }

    @Test("evidence with any changed part, under another key or another root is refused")
    func tampered() async throws {
        try await Self.withLog { bundle in
            let position = try await bundle.position(of: .appleV2)
            let evidence = try await bundle.evidence(at: position)
            let text = Self.text(evidence)
            let other = try await bundle.evidence(at: position + 1)
            let certificate = Base64.text(try #require(evidence.certificates.first))
            let digests = try Self.path(evidence).digests.map { Hex.text($0) }
            let starts = try [evidence, other].map { Hex.text(try Self.path($0).start) }
            let changes: [(String, String, String, String)] = [
                ("a body", Base64.text(evidence.body), Base64.text(other.body), "event: body does not match"),
                ("the time", "\(evidence.receivedAt)", "2031-01-01T00:00:00.000Z", "path: "),
                ("the source", "\"source\":\"apple-v2\"", "\"source\":\"apple-history\"", "path: "),
                ("the key", Hex.text(evidence.event.dedupeKey), Hex.text(Array(repeating: 0, count: 16)), "path: "),
                ("the digest", Hex.text(evidence.event.bodyDigest), Hex.text(other.event.bodyDigest), "path: "),
                ("the revocation", "\"revocation\":\"off\"", "\"revocation\":\"good\"", "path: "),
                ("the start", starts[0], starts[1], "path: "),
                ("a later digest", "\"\(digests[0])\"", "\"\(digests[1])\"", "path: "),
                ("no later digest", "\"\(digests[0])\",", "", "path: "),
                ("the position", "{\"position\":\(position),", "{\"position\":\(position + 1),", "path: "),
                ("the head", "\"chain\":\"", "\"chain\":\"00", "unreadable"),
                ("the head's time", "\"signedAt\":\"2019", "\"signedAt\":\"2020", "head: "),
                ("certificates", "\"certificates\":[\"\(certificate)\",", "\"certificates\":[", "certificates: "),
                ("no body", "\"body\":", "\"bodies\":", "unreadable"),
            ]

            for (name, old, new, expected) in changes {
                #expect(text.contains(old), "\(name)")
                let problem = try await Self.problem(text.replacing(old, with: new))
                #expect(problem?.hasPrefix(expected) == true, "\(name): \(problem ?? "nothing")")
            }
            #expect(try await Self.problem(text, keys: [HeadKey().publicKey])?.hasPrefix("head: ") == true)
            #expect(try await Self.problem(text, roots: .apple)?.hasPrefix("event: body fails verification: ") == true)
        }
    }

    @Test("evidence of what nobody signed names neither a chain nor a revocation, whatever head the operator signed")
    func unsigned() async throws {
        let chain = Array(SHA256.hash(data: Array("a chain".utf8)))
        let events = try Self.unsignedEvents()
        #expect(
            Set(events.map(\.event.source))
                == Set(EventSource.allCases).subtracting([.appleV2, .appleHistory, .appleDevice, .appleAPI]))

        for (event, body) in events {
            let honest = Self.text(try Self.evidence(of: event, body))
            #expect(try await Self.problem(honest) == nil, "\(event.source)")
            for (chainId, revocation) in [(chain, "good"), (chain, nil), (nil, "good")] as [([UInt8]?, String?)] {
                let claimed = Self.text(
                    try Self.evidence(of: event, body, chainId: chainId, revocation: revocation))
                let problem = try await Self.problem(claimed)
                #expect(problem == "event: chain_id does not match the body", "\(event.source)")
            }
        }
        let (event, body) = try #require(events.first { $0.event.source == .backend })
        let honest = try Self.verifyCommand(try Self.evidence(of: event, body))
        #expect(honest.status == 0)
        #expect(honest.output.contains("\norigin: not signed; only what the operator signed proves it\n"), "\(honest)")
        let claimed = try Self.verifyCommand(
            try Self.evidence(of: event, body, chainId: chain, revocation: "good"))
        #expect(claimed.status == 1)
        #expect(claimed.output == "not verified: event: chain_id does not match the body\n")
    }

    private static func verifyCommand(_ evidence: EvidenceFile) throws -> (status: Int32, output: String) {
        let result = try ServerProcess.run(
            ["verify-evidence", "-", "--public-key", Hex.text(key.publicKey.bytes)], input: Data(text(evidence).utf8))
        return (result.status, result.output)
    }

    /// Evidence of the first event of a stream, under a head that the operator signed.
    private static func evidence(
        of event: Event, _ body: [UInt8], chainId: [UInt8]? = nil, revocation: String? = nil
    ) throws -> EvidenceFile {
        let stream = StreamKey(app: V1Body.app, environment: event.environment)
        let receivedAt = Timestamptz(microsecondsSinceUnixEpoch: TestBundle.now.milliseconds * 1000)
        let chained = ChainedEvent(
            receivedAt: receivedAt, source: event.source.rawValue, dedupeKey: event.dedupeKey.bytes,
            bodyDigest: Array(SHA256.hash(data: body)), chainId: chainId, revocation: revocation)
        let start = LogChain(startOf: stream, createdAt: receivedAt)
        var chain = start
        chain.append(chained.digest)
        return EvidenceFile(
            position: 1, receivedAt: TestBundle.now, event: chained, body: body, certificates: [], verdicts: [],
            responses: [:],
            path: .chain(
                ChainPath(
                    start: start.value, digests: [],
                    head: try key.sign(
                        StreamHead(stream: stream, position: 1, chain: chain.value), at: TestBundle.now))))
    }

    /// An event of each source that nobody signs, with its body as stored.
    private static func unsignedEvents() throws -> [(event: Event, body: [UInt8])] {
        let (app, now) = (V1Body.app, TestBundle.now)
        let links = LinkStatement(backendCustomerId: "customer-1", links: [CustomerKey(.subscription, "1")])
        let write = StoreWrite(
            .setAccountToken(originalTransactionId: "1", appAccountToken: "7e3fb204-2ea0-4e9b-8d1d-3a2c5a3c9d4f"),
            requestIdentifier: "7e3fb204-2ea0-4e9b-8d1d-3a2c5a3c9d50", by: "support", reason: "asked for it")
        let notification = try Apps([App(bundleId: app, sharedSecrets: [V1Body.secret])])
            .verify(try V1Body(number: 1).bytes, receivedAt: now)
        let receipt = Array(
            """
            {"status":0,"environment":"Production","receipt":{"bundle_id":"\(app)","in_app":[{"quantity":"1",\
            "product_id":"lamp","transaction_id":"1","original_transaction_id":"1",\
            "purchase_date_ms":"1572600000000","original_purchase_date_ms":"1572600000000"}]}}
            """.utf8)
        let notice = Base64.text(
            Array(#"{"version":"1.0","packageName":"\#(app)","testNotification":{"version":"1.0"}}"#.utf8))
        let push = try PushMessage(
            decoding: Array(
                #"{"message":{"data":"\#(notice)","messageId":"1"},"subscription":"projects/p/subscriptions/s"}"#.utf8))
        let gone = try PlayStatement.gone(
            about: PlayStatement.Subject(
                packageName: app, purchaseToken: try #require(PurchaseToken("token-1")), environment: .production),
            answeredAt: now
        ).evidence.bytes
        let ofGoogle = try [EventSource.googleAPI, .googleDevice, .googleVoided].map { source in
            let event = try PlayStatement.event(
                decoding: gone, source: source, environment: .production, answeredAt: now)
            return (event, gone)
        }
        return [
            (links.event(environment: .production, app: app, receivedAt: now), links.canonicalText),
            (write.event(environment: .production, app: app, receivedAt: now), write.canonicalText),
            (notification.event, notification.evidence.bytes),
            (
                try StoredAnswer(decoding: receipt).event(app: app, environment: .production, receivedAt: now),
                receipt
            ),
            (push.event(), push.evidence.bytes),
        ] + ofGoogle
    }

    @Test("there is no evidence of an event that is not there, or from a log that does not lead to the head")
    func refused() async throws {
        try await Self.withLog { bundle in
            let head = try await bundle.head()
            let reader = EvidenceReader(log: LogAudit(connection: bundle.connection))
            let elsewhere = StreamHead(
                stream: StreamKey(app: "com.example.other", environment: .sandbox), position: 1, chain: head.head.chain)
            let early = StreamHead(stream: Self.stream, position: 2, chain: head.head.chain)

            await #expect(throws: EvidenceReader.Refusal.noEvent(position: 0)) {
                try await reader.evidence(at: 0, head: head)
            }
            await #expect(throws: EvidenceReader.Refusal.noEvent(position: 100_000)) {
                try await reader.evidence(at: 100_000, head: head)
            }
            await #expect(throws: EvidenceReader.Refusal.noStream) {
                try await reader.evidence(at: 1, head: try Self.key.sign(elsewhere, at: TestBundle.now))
            }
            await #expect(throws: EvidenceReader.Refusal.headTooEarly(position: 3, head: 2)) {
                try await reader.evidence(at: 3, head: try Self.key.sign(early, at: TestBundle.now))
            }
            let broken = EvidenceReader.Refusal.damaged("the hash chain does not lead from the event to the head")
            await #expect(throws: broken) {
                try await reader.evidence(at: 1, head: try Self.key.sign(early, at: TestBundle.now))
            }
        }
    }
}
