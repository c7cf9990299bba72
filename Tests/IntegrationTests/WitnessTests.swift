import AppStore
import Encoding
import EventLog
import Foundation
import Server
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("A witness cosigns checkpoints, by the protocol tlog-witness")
struct WitnessTests {
    private static func run(
        _ tree: TreeLog, _ witness: TestWitness, url: String? = nil
    ) async throws -> (checkpoint: SignedCheckpoint, time: Instant)? {
        let client = try WitnessClient(url: url ?? witness.url)
        let outcome: Result<(checkpoint: SignedCheckpoint, time: Instant)?, any Error>
        do {
            outcome = .success(
                try await tree.withStore { store in
                    let run = WitnessRun(
                        client: client, witness: try Settings.witnessKey(witness.verifierKey), signer: tree.signer,
                        store: store)
                    return try await run.cosign(try await tree.state(store))
                })
        } catch {
            outcome = .failure(error)
        }
        await client.shutDown()
        return try outcome.get()
    }

    private static func problem(_ tree: TreeLog, _ witness: TestWitness, url: String? = nil) async throws
        -> WitnessProblem?
    {
        do {
            _ = try await run(tree, witness, url: url)
            return nil
        } catch let problem as WitnessProblem {
            return problem
        }
    }

    @Test("each checkpoint is posted with the proof from the one before, and evidence carries the cosignature")
    func cosigned() async throws {
        try await TreeLog.with { tree in
            try await TestWitness.with(log: tree.key.publicKey) { witness in
                var cosigned: [SignedCheckpoint] = []
                for count in [200, 256, 700] {
                    try await tree.fill(to: count)
                    cosigned.append(try #require(try await Self.run(tree, witness)).checkpoint)
                }
                let again = try #require(try await Self.run(tree, witness))

                #expect(
                    witness.requests.map { $0.prefix { $0 != "\n" } } == ["old 0", "old 200", "old 256", "old 700"])
                #expect(again.time == TestWitness.time)
                #expect(again.checkpoint.checkpoint == cosigned[2].checkpoint)
                let key = try #require(NoteKey(text: witness.verifierKey))
                #expect(cosigned.allSatisfy { $0.note.cosignatureTime(of: key) == TestWitness.time })
                let kept = try await tree.log.lines("select witness || ' ' || size from subledger.head_cosignature")
                #expect(kept == ["\(TestWitness.name) 700"])

                // The newest checkpoint has no cosignature; the last one that has covers the event.
                try await tree.fill(to: 701)
                try await tree.sign()
                try await tree.withStore { store in
                    let stream = try await tree.state(store)
                    let known = try #require(
                        try await tree.signer.checkpoint(of: stream, covering: 5, in: store))
                    let last = try #require(
                        try await tree.signer.checkpoint(of: stream, covering: 701, in: store))
                    #expect(known.note == again.checkpoint.note)
                    #expect(last.checkpoint.size == 701)
                    let reader = EvidenceReader(log: store.audit)
                    for (checkpoint, isCosigned) in [(known, true), (last, false)] {
                        let evidence = try await reader.evidence(at: 5, checkpoint: checkpoint)
                        let verifier = EvidenceVerifier(
                            signatures: SignatureVerifier(roots: SimulatedLog.roots), keys: [tree.key.publicKey],
                            witnesses: [key])
                        let problem: String?
                        do throws(EvidenceProblem) {
                            _ = try await verifier.verify(evidence)
                            problem = nil
                        } catch {
                            problem = error.description
                        }
                        let missing = "checkpoint: it has no valid cosignature of \(TestWitness.name)"
                        #expect(problem == (isCosigned ? nil : missing))
                    }
                }
            }
        }
    }

    @Test("a witness that knows another size says so and is asked again, and one that knows a larger one ends the run")
    func otherSizes() async throws {
        try await TreeLog.with { tree in
            try await TestWitness.with(log: tree.key.publicKey) { witness in
                try await tree.fill(to: 200)
                _ = try await Self.run(tree, witness)
                try await tree.log.script("delete from subledger.head_cosignature")
                try await tree.fill(to: 300)
                #expect(try await Self.problem(tree, witness) == nil)
                #expect(witness.requests.map { $0.prefix { $0 != "\n" } } == ["old 0", "old 0", "old 200"])

                witness.answerOnce(409, "301\n")
                #expect(try await Self.problem(tree, witness) == .larger(size: 301, log: 300))
                witness.answerOnce(409, "300\n")
                #expect(try await Self.problem(tree, witness) == .inconsistent(size: 300))
            }
        }
    }

    @Test("a log that was rewritten is refused by a witness, even with the owner's key and records removed")
    func rewritten() async throws {
        try await TreeLog.with { tree in
            try await TestWitness.with(log: tree.key.publicKey) { witness in
                try await tree.fill(to: 300)
                _ = try await Self.run(tree, witness)
                try await tree.forgetTiles()
                try await tree.log.script(
                    "delete from subledger.head_checkpoint;" + ChainTests.rewritten + ";" + ChainTests.recompute)
                try FileManager.default.removeItem(atPath: tree.record.folder)
                #expect(try await Self.problem(tree, witness) == .inconsistent(size: 300))
                try await tree.fill(to: 310)
                #expect(try await Self.problem(tree, witness) == .inconsistent(size: 300))
                #expect(
                    try await tree.log.lines("select size::text from subledger.head_cosignature") == ["300"])
            }
        }
    }

    @Test("an answer that is none keeps nothing, and says what is wrong")
    func badAnswers() async throws {
        try await TreeLog.with { tree in
            try await TestWitness.with(log: tree.key.publicKey) { witness in
                let foreign = try HeadKey().cosign("text\n", as: TestWitness.name, at: 1)
                let line = String(SignedNote(text: "\n", signatures: [foreign]).encoded.dropFirst(2))
                let answers: [(Int, String, WitnessProblem)] = [
                    (403, "", .unknownKey), (404, "", .unknownOrigin), (422, "", .inconsistent(size: 0)),
                    (500, "", .status(500)), (302, "", .status(302)), (200, "", .unreadable),
                    (200, "hello\n", .unreadable), (409, "many\n", .unreadable), (409, "-1\n", .unreadable),
                    (200, line, .notCosigned(by: TestWitness.name)),
                ]
                for (status, body, expected) in answers {
                    witness.answerOnce(status, body)
                    #expect(try await Self.problem(tree, witness) == expected, "\(status) \(body)")
                }
                #expect(try await Self.problem(tree, witness, url: "http://127.0.0.1:9") == .unreachable)
                #expect(try await tree.log.lines("select witness from subledger.head_cosignature") == [])
            }
        }
        #expect(throws: SettingError.self) { try WitnessClient(url: "ftp://witness.example") }
        #expect(throws: SettingError.self) { try WitnessClient(url: "witness.example") }
        let log = NoteKey(name: "log", key: HeadKey().publicKey)
        #expect(throws: SettingError.self) { try Settings.witnessKey(log.text) }
    }
}
