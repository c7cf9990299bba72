import AppStore
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import Server
import Simulation
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("Verify goes on where it ended, in parallel, and on a standby")
struct VerifyProgressTests {
    private static let stream = StreamKey(app: V1Body.app, environment: .sandbox)
    private static let name = "stream 1 (com.example.magazine, sandbox)"

    /// What a run found, and up to where it says that nothing is wrong.
    private struct Run {
        let outcome: VerificationOutcome
        /// In the order in which they were noted.
        let places: [VerifiedPlace]

        var findings: [String] { outcome.findings.map(\.description) }
        var last: [StreamKey: VerifiedPlace] { places.last.map { [VerifyProgressTests.stream: $0] } ?? [:] }
    }

    private struct Interrupted: Error {}

    /// Verifies the log alone.
    ///
    /// - Parameter interruptedAfter: Ends the run with an error after it has noted this many places.
    private static func run(
        _ log: SimulatedLog, workers: Int = 2, from places: [StreamKey: VerifiedPlace] = [:], heads: HeadCheck = .none,
        interruptedAfter: Int = .max
    ) async throws -> Run {
        var connections: [PostgresConnection] = []
        for _ in 0...workers {
            connections.append(try await TestCluster.connect(log.database.with(role: "subledger_projector")))
        }
        let audits = connections.map { LogAudit(connection: $0) }
        let verifier = DatabaseVerifier(
            log: audits[0], workers: Array(audits.dropFirst()), projections: nil,
            signatures: SignatureVerifier(roots: SimulatedLog.roots), extent: .all, heads: heads, from: places,
            rangeEventsMax: 7)
        var noted: [VerifiedPlace] = []
        var outcome = VerificationOutcome()
        do {
            outcome = try await verifier.run(onVerified: { place in
                noted.append(place)
                if noted.count >= interruptedAfter { throw Interrupted() }
            })
        } catch is Interrupted {}
        for connection in connections { await connection.close() }
        return Run(outcome: outcome, places: noted)
    }

    /// A log of every story, with its last position.
    private static func withLongLog(_ test: (SimulatedLog, Int64) async throws -> Void) async throws {
        try await SimulatedLog.withEveryStory { log in
            let last = try await log.lines("select position::text from subledger.stream_head")[0]
            try await test(log, try #require(Int64(last)))
        }
    }

    @Test("any number of workers finds the same, in order of position, and notes the same last place")
    func workers() async throws {
        try await Self.withLongLog { log, last in
            let clean = try await Self.run(log, workers: 1)
            let parallel = try await Self.run(log, workers: 3)

            #expect(clean.findings == [])
            #expect(clean.outcome.events == last)
            #expect(clean.places.count >= 15)
            #expect(clean.places.last?.head.position == last)
            #expect(parallel.places == clean.places)
            #expect(
                try await log.lines("select encode(chain, 'hex') from subledger.stream_head")
                    == clean.places.suffix(1).map { $0.head.chain.map { String(format: "%02x", $0) }.joined() })

            try await log.damage(
                """
                update subledger.event set type = 'OTHER' where position in (9, 17, 40);
                update subledger.event set received_at = received_at + interval '1 second' where position = 23;
                delete from subledger.event where position in (30, 33, 34, 50, 51)
                """)
            let found = try await Self.run(log, workers: 1)
            #expect(found.findings.count >= 7, "\(found.findings)")
            #expect(found.places.map(\.head.position) == [7])
            for workers in [2, 4] {
                let again = try await Self.run(log, workers: workers)
                #expect(again.findings == found.findings)
                #expect(again.outcome.events == last - 5)
            }
        }
    }

    @Test("a run that was ended goes on where it ended, and never past a bad event")
    func goesOn() async throws {
        try await Self.withLongLog { log, last in
            let first = try await Self.run(log, interruptedAfter: 5)
            let ended = try #require(first.places.last)
            #expect(ended.head.position < last)
            let second = try await Self.run(log, from: first.last)
            #expect(second.findings == [])
            #expect(second.outcome.events == last - ended.head.position)
            #expect(second.outcome.verifiedBefore == ended.head.position)
            let whole = try await Self.run(log)
            #expect(second.places.last == whole.places.last, "the tree is taken up, too")
            let nothing = try await Self.run(log, from: second.last)
            #expect(nothing.outcome.events == 0)
            #expect(nothing.findings == [])

            try await log.damage(
                """
                update subledger.event set type = 'OTHER' where position = 17;
                update subledger.event set type = 'OTHER' where position = \(last - 3)
                """)
            let third = try await Self.run(log, from: first.last)
            // What is before the place was verified once, and is not looked at again.
            #expect(third.findings == ["\(Self.name) position \(last - 3): type does not match the body"])
            #expect(third.places.allSatisfy { $0.head.position < last - 3 })
            let fourth = try await Self.run(log, from: third.places.isEmpty ? first.last : third.last)
            #expect(fourth.findings == third.findings)
            #expect(try await Self.run(log).findings.count == 2)
        }
    }

    @Test("a log that is another one up to the place is checked from the start, and the change is reported")
    func otherLog() async throws {
        let template = try await SimulatedLog.fewStories.value
        try await SimulatedLog.with(from: template) { log in
            let verified = try await Self.run(log)
            #expect(verified.findings == [])
            let last = try #require(verified.places.last?.head.position)
            try await log.damage(ChainTests.rewritten + ";" + ChainTests.recompute)

            let changed = try await Self.run(log, from: verified.last)
            try await log.damage("delete from subledger.event where position > 5; " + ChainTests.recompute)
            let shorter = try await Self.run(log, from: verified.last)

            let problem = "an event was changed, inserted or removed since this was verified"
            #expect(changed.findings.first == "\(Self.name) positions 1 to \(last): \(problem)")
            #expect(changed.outcome.events == last)
            #expect(shorter.findings.first == "\(Self.name) positions 1 to \(last): \(problem)")
            #expect(changed.places.isEmpty && shorter.places.isEmpty)
        }
    }

    @Test("heads and checkpoints from before the place are compared with the chain and the tree up to it")
    func earlierHeads() async throws {
        try await TreeLog.with { tree in
            let verified = try await Self.run(tree.log)
            let place = try #require(verified.places.last)
            let checkpoint = try await tree.sign()
            let key = HeadKey()
            func check(_ heads: [StreamHead], _ checkpoints: [SignedCheckpoint] = []) async throws -> [String] {
                let signed = try heads.map { try key.sign($0, at: TestBundle.now) }
                let keys = [key.publicKey, tree.key.publicKey]
                let heads = HeadCheck(heads: signed, checkpoints: checkpoints, keys: keys)
                return try await Self.run(tree.log, from: verified.last, heads: heads).findings
            }
            let chain = try await tree.log.lines("select encode(chain, 'hex') from subledger.event where position = 4")
            let fourth = stride(from: 0, to: 64, by: 2).compactMap { offset in
                UInt8(chain[0].dropFirst(offset).prefix(2), radix: 16)
            }
            let right = StreamHead(stream: Self.stream, position: 4, chain: fourth)
            let wrong = StreamHead(stream: Self.stream, position: 4, chain: place.head.chain)

            #expect(try await check([right, place.head], [checkpoint]) == [])
            let problem = "an event was changed, inserted or removed: the log does not extend the head signed at"
            #expect(try await check([wrong]).first?.hasPrefix("\(Self.name) positions 1 to 4: \(problem)") == true)

            // Another tree of this size, of events that are valid by themselves.
            try await tree.log.script(
                """
                update subledger.event
                set revocation = case when revocation = 'pending' then 'off' else 'pending' end
                where position = (select min(position) from subledger.event where chain_id is not null);
                delete from subledger.head_checkpoint;
                \(ChainTests.recompute)
                """)
            let now = try await Self.run(tree.log)
            #expect(now.findings == [])
            #expect(now.places.last?.head.position == place.head.position)
            let signed = HeadCheck(heads: [], checkpoints: [checkpoint], keys: [tree.key.publicKey])
            let findings = try await Self.run(tree.log, from: now.last, heads: signed).findings
            #expect(findings.contains { $0.contains("does not extend the signed checkpoint of") }, "\(findings)")
        }
    }

    @Test("the command keeps its place in a signed file, and works on a standby, which takes no writes")
    func command() async throws {
        let folder = TestFolder.path("verify-progress")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let file = folder + ".progress"
        defer { try? FileManager.default.removeItem(atPath: file) }
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(arguments + ["--data-folder", folder, "--log-level", "error"])
        }
        func folded() async throws {
            _ = try await eventually("all events are folded") {
                try run("projector", "status").output.contains("lag 0") ? true : nil
            }
        }
        let server = try ServerProcess(dataFolder: folder)
        let apple = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
        for number in 1...3 { #expect(try await apple.post(try V1Body(number: number).bytes).status == 200) }
        try await folded()

        let first = try run("verify", "--log-only", "--progress", file)
        #expect(first.output == "verified: streams 1, events 3 (log only)\n", "\(first.error)")
        let again = try run("verify", "--progress", file, "--seed", "7", "--workers", "1")
        #expect(
            again.output
                == "verified: streams 1, events 0 (3 verified before), subscriptions 3 (sample with seed 7)\n",
            "\(again)")
        #expect(try await apple.post(try V1Body(number: 4).bytes).status == 200)
        try await folded()
        let all = try run("verify", "--progress", file, "--all")
        #expect(all.output == "verified: streams 1, events 4, subscriptions 4 (all subscriptions)\n", "\(all)")

        // Other roots, by which other signatures are valid.
        let root = folder + ".pem"
        defer { try? FileManager.default.removeItem(atPath: root) }
        try Data(TestCertificates.standard.rootPEM.utf8).write(to: URL(fileURLWithPath: root))
        let rooted = try run("verify", "--log-only", "--progress", file, "--root", root)
        #expect(rooted.output == "verified: streams 1, events 4 (log only)\n", "\(rooted)")

        let kept = try String(contentsOfFile: file, encoding: .utf8)
        for (text, problem) in [
            (kept.replacing("\"position\":4", with: "\"position\":3"), "expected a file that"),
            (kept.replacing("0.1.0", with: "0.1.1"), "the head key did not sign it"), ("{}\n", "expected a file that"),
        ] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: file))
            let refused = try run("verify", "--log-only", "--progress", file)
            #expect(refused.status == 78)
            #expect(refused.error.contains(problem), "\(refused)")
        }
        #expect(try run("verify", "--log-only", "--progress", folder + "/none/file").status == 78)
        #expect(try run("verify", "--log-only", "--chain-only").status == 64)
        #expect(try run("verify", "--workers", "0").status == 64)
        try Data(kept.utf8).write(to: URL(fileURLWithPath: file))
        server.signal(SIGTERM)
        try await server.hasEnded()

        // A server that is in recovery for good, as a standby is.
        try Data().write(to: URL(fileURLWithPath: folder + "/postgres/standby.signal"))
        let standby = try await Database.startServer(
            folder: folder, logger: Logger(label: "standby", factory: { _ in SwiftLogNoOpLogHandler() }))
        let results = try [
            run("verify", "--log-only", "--progress", file, "--root", root), run("verify", "--log-only"),
            run("verify", "--all"),
        ]
        await standby.stop()
        #expect(results[0].output == "verified: streams 1, events 0 (4 verified before) (log only)\n", "\(results[0])")
        #expect(results[1].output == "verified: streams 1, events 4 (log only)\n", "\(results[1])")
        #expect(results[2].status == 69)
        #expect(results[2].error.contains("the database is a standby"), "\(results[2])")
    }
}
