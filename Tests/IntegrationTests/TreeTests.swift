import AppStore
import Encoding
import EventLog
import Foundation
import HTTPServer
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("The tree of a stream follows the log, and only what extends the last checkpoint is signed")
struct TreeTests {
    @Test("an existing log gets its tiles, on three levels, and every root and proof is that of the log itself")
    func existing() async throws {
        try await TreeLog.with { tree in
            let count = 256 * 256 + 300
            try await tree.fill(to: count)
            let leaves = try await tree.leaves()
            #expect(leaves.count == count)

            let signed = try await tree.sign()

            #expect(signed.checkpoint.size == Int64(count))
            #expect(signed.checkpoint.root == MerkleTree.root(of: leaves))
            #expect(signed.isSigned(byOneOf: [tree.key.publicKey]))
            let tiles = try await tree.log.lines(
                """
                select concat_ws(' ', level, count(*), max(number)) from subledger.head_tile group by level order by level
                """)
            #expect(tiles == ["0 257 256", "1 1 0"])
            try await tree.withStore { store in
                let stream = try await StreamTree(store, of: try await tree.state(store).id)
                #expect(stream.size == Int64(count))
                for size in [1, 255, 256, 257, 4096, 65535, 65536, 65537, 65792, count - 1, count] {
                    let root = MerkleTree.root(of: leaves.prefix(size))
                    #expect(try await stream.root(size: Int64(size)) == root, "\(size)")
                    let proof = try await stream.consistency(from: Int64(size), to: Int64(count))
                    #expect(
                        MerkleTree.isConsistent(
                            root, size: Int64(size), with: signed.checkpoint.root, size: Int64(count), proof: proof))
                    for position in Set([1, size / 2 + 1, size]) {
                        let proof = try await stream.inclusion(of: Int64(position), size: Int64(size))
                        #expect(
                            MerkleTree.includes(
                                leaves[position - 1], at: Int64(position - 1), size: Int64(size), root: root,
                                proof: proof), "\(position) of \(size)")
                    }
                }
            }
        }
    }

    @Test("a builder that is killed again and again, and two that work at once, make the same tiles as one")
    func killed() async throws {
        try await TreeLog.with { tree in
            try await tree.fill(to: 256 * 120 + 7)
            let leaves = try await tree.leaves()
            var generator = SeededGenerator(seed: TestSeed.value)
            let killer = try await TestCluster.connect(tree.log.database)
            var (kills, rounds) = (0, 0)
            var isDone = false
            while !isDone, rounds < 200 {
                rounds += 1
                let victim = try await TestCluster.connect(tree.log.database.with(role: "subledger_projector"))
                let (pid, pause) = (victim.backendPID, Int64.random(in: 0...40, using: &generator))
                async let built = Self.build(victim)
                if rounds <= 20 {
                    try await Task.sleep(for: .milliseconds(pause))
                    let rows = try await killer.query(
                        Statement("kill", "select pg_terminate_backend($1)"), [Parameter(pid)],
                        deadline: .now + .seconds(20))
                    if try rows[0].value(at: 0) as Bool { kills += 1 }
                }
                isDone = await built
                await victim.close()
            }
            await killer.close()

            #expect(isDone && kills > 0, "\(kills) of \(rounds), seed \(TestSeed.value)")
            #expect(try await tree.sign().checkpoint.root == MerkleTree.root(of: leaves))
            let made = try await tree.log.lines(Self.tiles)
            try await tree.forgetTiles()
            let (one, other) = (tree.keeper(), tree.keeper())
            async let first: Void = one.keeper.round()
            async let second: Void = other.keeper.round()
            _ = await (first, second)
            await one.keeper.round()
            #expect(await one.keeper.problems.isEmpty)
            #expect(await other.keeper.problems.isEmpty)
            await one.pool.close()
            await other.pool.close()
            #expect(try await tree.log.lines(Self.tiles) == made)
        }
    }

    private static let tiles: StaticString = """
        select format('%s %s %s %s', level, number, encode(root, 'hex'), encode(sha256(hashes), 'hex'))
        from subledger.head_tile
        order by level, number
        """

    /// - Returns: Whether all tiles were made.
    private static func build(_ connection: PostgresConnection) async -> Bool {
        let store = TreeStore(connection: connection)
        guard let stream = try? await store.streams().first else { return false }
        return (try? await TreeBuilder(store).build(stream, waits: true)) ?? false
    }

    @Test("each checkpoint extends the one before, and a log that has not grown has one")
    func growing() async throws {
        try await TreeLog.with { tree in
            var signed = [try await tree.sign()]
            #expect(try await tree.sign() == signed[0])
            for count in [200, 256, 257, 700] {
                try await tree.fill(to: count)
                signed.append(try await tree.sign())
            }

            try await tree.withStore { store in
                let stream = try await StreamTree(store, of: try await tree.state(store).id)
                for (old, new) in zip(signed.map(\.checkpoint), signed.dropFirst().map(\.checkpoint)) {
                    let proof = try await stream.consistency(from: old.size, to: new.size)
                    #expect(
                        MerkleTree.isConsistent(
                            old.root, size: old.size, with: new.root, size: new.size, proof: proof))
                }
            }
            #expect(signed.map(\.checkpoint.size).sorted() == signed.map(\.checkpoint.size))
            let outcome = try await Self.verify(tree, checkpoints: signed)
            #expect(outcome == nil)
        }
    }

    @Test("a database that was restored to an older state signs nothing, even after it has grown past the checkpoint")
    func restored() async throws {
        let folder = TestFolder.path("record")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (key, record) = (HeadKey(), CheckpointRecord(folder: folder))
        var size: Int64 = 0
        try await TreeLog.with(key: key, record: record) { tree in
            try await tree.sign()
            try await tree.fill(to: 400)
            size = try await tree.sign().checkpoint.size
        }
        // The backup is from before the log was filled.
        try await TreeLog.with(key: key, record: record) { tree in
            let events = Int64(try await tree.leaves().count)
            #expect(try await tree.problem() == .shorter(signed: size, events: events))

            // What arrives again is the same in another order.
            try await tree.log.script(
                "update subledger.event set received_at = received_at + interval '1 s' where position = 2")
            try await tree.fill(to: 500)
            let recorder = LogRecorder()
            let (keeper, pool) = tree.keeper(recorder)
            for _ in 0..<3 { await keeper.round() }
            await pool.close()

            #expect(await keeper.problems.map(\.problem) == [.fork(signed: size)])
            #expect(recorder.text.split(separator: "\n").filter { $0.contains("no checkpoint is signed") }.count == 1)
            #expect(try await tree.log.lines("select note from subledger.head_checkpoint") == [])
            // The tree itself is that of the log, under a name that nothing was signed under.
            let renamed = CheckpointSigner(
                key: key, installation: "test-2", record: record, now: { TestBundle.now })
            let signed = try await tree.withStore { store in
                try await renamed.buildAndSign(try await tree.state(store), in: store)
            }
            #expect(signed?.checkpoint.size == 500)
        }
    }

    @Test(
        "tiles that are not those of the log are noticed before anything is signed",
        arguments: [
            // A backup of the log was restored beside newer tiles.
            (
                "delete from subledger.event where position > 250;" + ChainTests.recompute,
                TreeProblem.chain(position: 256)
            ),
            // The log was rewritten before the end of the tiles, and after it.
            (ChainTests.rewritten + ";" + ChainTests.recompute, .chain(position: 256)),
            (
                "update subledger.event set received_at = received_at + interval '1 s' where position = 270",
                .chain(position: 270)
            ),
            ("delete from subledger.event where position = 270", .chain(position: 270)),
            ("delete from subledger.head_tile", .tile(TreeTile(level: 1, number: 0))),
        ] as [(String, TreeProblem)])
    func unlikeLog(_ change: String, _ expected: TreeProblem) async throws {
        try await TreeLog.with { tree in
            try await tree.fill(to: 300)
            let signed = try await tree.sign()
            // Something else to sign.
            try await tree.fill(to: 310)
            try await tree.log.script(change)
            let registry = MetricsRegistry()
            let pool = PostgresPool(
                tree.log.database.with(role: "subledger_projector"), limit: 1, logger: LogRecorder().logger)
            let keeper = TreeKeeper(
                pool: pool, signer: tree.signer, metrics: registry, logger: LogRecorder().logger)

            await keeper.round()
            await pool.close()

            #expect(await keeper.problems.map(\.problem) == [expected])
            #expect(registry.prometheusText.contains("\nsubledger_tree_problems 1.0\n"), "\(registry.prometheusText)")
            #expect(try await tree.problem() == expected)
            let kept = try await tree.log.lines("select note from subledger.head_checkpoint")
            #expect(kept == [signed.note.encoded])
        }
    }

    @Test("what the database refuses for a stream is a problem of that stream, until it does not")
    func refused() async throws {
        try await TreeLog.with { tree in
            try await tree.sign()
            try await tree.fill(to: 600)
            try await tree.log.script("alter table subledger.head_tree add constraint broken check (false) not valid")
            let recorder = LogRecorder()
            let (keeper, pool) = tree.keeper(recorder)

            await keeper.round()
            #expect(await keeper.problems.map(\.problem) == [.refused(sqlstate: "23514")])
            #expect(!recorder.text.contains("trees not brought up to date"))
            try await tree.log.script("alter table subledger.head_tree drop constraint broken")
            await keeper.round()
            await pool.close()

            #expect(await keeper.problems.isEmpty)
            #expect(recorder.text.contains("checkpoints are signed again"))
        }
    }

    @Test(
        "verify finds with a checkpoint what was changed with the whole chain computed again",
        arguments: [ChainTests.rewritten, ChainTests.insertion, ChainTests.swap, ChainTests.removal])
    func rechained(_ change: String) async throws {
        try await TreeLog.with { tree in
            let signed = try await tree.sign()
            let size = signed.checkpoint.size
            try await tree.log.script(
                "delete from subledger.head_checkpoint; delete from subledger.head_tile; delete from subledger.head_tree"
            )
            #expect(try await Self.verify(tree, checkpoints: [signed]) == nil)
            try await tree.log.script(change + ";" + ChainTests.recompute)

            let finding = try await Self.verify(tree, checkpoints: [signed])
            let forged = try await Self.verify(tree, checkpoints: [signed], keys: [HeadKey().publicKey])

            let isShorter = change == ChainTests.removal
            let place =
                isShorter ? "position \(size): event is missing" : "positions 1 to \(size): an event was changed"
            #expect(finding?.contains(place) == true, "\(finding ?? "none")")
            #expect(forged?.contains("the checkpoint is forged") == true, "\(forged ?? "none")")
            #expect(try await Self.verify(tree, checkpoints: []) == nil)
        }
    }

    @Test("verify compares the tiles and the last checkpoint in the database too")
    func storedRoots() async throws {
        try await TreeLog.with { tree in
            try await tree.fill(to: 300)
            try await tree.sign()
            #expect(try await Self.verify(tree, checkpoints: []) == nil)
            try await tree.log.script(ChainTests.rewritten + ";" + ChainTests.recompute)

            let tiles = try await Self.verify(tree, checkpoints: [])
            try await tree.forgetTiles()
            let checkpoint = try await Self.verify(tree, checkpoints: [])

            #expect(tiles?.contains("the log does not extend the tiles of 256 events") == true, "\(tiles ?? "none")")
            #expect(
                checkpoint?.contains("the log does not extend the checkpoint of 300 events in table") == true,
                "\(checkpoint ?? "none")")
        }
    }

    /// The first finding.
    private static func verify(
        _ tree: TreeLog, checkpoints: [SignedCheckpoint], keys: [HeadPublicKey]? = nil
    ) async throws -> String? {
        try await tree.withStore { store in
            try await ChainVerifier(
                log: store.audit,
                heads: HeadCheck(heads: [], checkpoints: checkpoints, keys: keys ?? [tree.key.publicKey])
            ).run().finding?.description
        }
    }

    @Test("evidence of any event is a proof of the tree, from a checkpoint after it, and each changed part is refused")
    func evidence() async throws {
        try await TreeLog.with { tree in
            try await tree.fill(to: 600)
            let signed = try await tree.sign()
            try await tree.withStore { store in
                let reader = EvidenceReader(log: store.audit)
                for position in [Int64(1), 2, 3, 20, 256, 257, 600] {
                    let evidence = try await reader.evidence(at: position, checkpoint: signed)
                    let text = Self.text(evidence)
                    // What follows the simulated events are copies of them, whose keys are not those of their bodies.
                    let problem = try await Self.problem(text, tree)
                    #expect(position < 100 ? problem == nil : problem?.contains("dedupe_key") == true, "\(position)")
                    #expect(text.contains(#""evidence":2"#) && !text.contains(#""digests""#))
                }
                let evidence = try await reader.evidence(at: 2, checkpoint: signed)
                let other = try await reader.evidence(at: 3, checkpoint: signed)
                let text = Self.text(evidence)
                guard case .tree(let proof) = evidence.path else {
                    Issue.record("expected a proof of the tree")
                    return
                }
                #expect(proof.hashes.count == 10)
                let size = "sandbox\(Self.newline)600\(Self.newline)"
                let changes = [
                    ("a hash", Base64.text(proof.hashes[3]), Base64.text(proof.hashes[4]), "proof: "),
                    ("the index", "index 1\(Self.newline)", "index 2\(Self.newline)", "proof: "),
                    ("the position", #"{"position":2,"#, #"{"position":3,"#, "proof: "),
                    ("the size", size, "sandbox\(Self.newline)599\(Self.newline)", "checkpoint: "),
                    ("the stream", "sandbox\(Self.newline)600", "production\(Self.newline)600", "checkpoint: "),
                    ("the time", "\(evidence.receivedAt)", "2031-01-01T00:00:00.000Z", "proof: "),
                    ("the digest", Hex.text(evidence.event.bodyDigest), Hex.text(other.event.bodyDigest), "proof: "),
                    ("the form", "tlog-proof@v1", "tlog-proof@v2", "unreadable"),
                    ("the version", #""evidence":2"#, #""evidence":1"#, "unreadable"),
                ]
                for (name, old, new, expected) in changes {
                    #expect(text.contains(old), "\(name)")
                    let problem = try await Self.problem(text.replacing(old, with: new), tree)
                    #expect(problem?.hasPrefix(expected) == true, "\(name): \(problem ?? "nothing")")
                }
                let forged = try HeadKey().sign(signed.checkpoint)
                let underForged = TreeProof(position: 2, hashes: proof.hashes, checkpoint: forged)
                let replaced = text.replacing(
                    Self.json(proof.encoded), with: Self.json(underForged.encoded))
                #expect(try await Self.problem(replaced, tree)?.hasPrefix("checkpoint: its signature") == true)

                await #expect(throws: EvidenceReader.Refusal.noEvent(position: 601)) {
                    try await reader.evidence(at: 601, checkpoint: signed)
                }
                let early = try tree.key.sign(
                    TreeCheckpoint(origin: signed.checkpoint.origin, size: 5, root: signed.checkpoint.root))
                await #expect(throws: EvidenceReader.Refusal.checkpointTooEarly(position: 6, size: 5)) {
                    try await reader.evidence(at: 6, checkpoint: early)
                }
                let unlike = EvidenceReader.Refusal.damaged("the tree does not lead from the event to the checkpoint")
                await #expect(throws: unlike) { try await reader.evidence(at: 5, checkpoint: early) }
                let late = try tree.key.sign(
                    TreeCheckpoint(origin: signed.checkpoint.origin, size: 601, root: signed.checkpoint.root))
                await #expect(throws: EvidenceReader.Refusal.checkpointTooLate(size: 601, events: 600)) {
                    try await reader.evidence(at: 5, checkpoint: late)
                }
            }
        }
    }

    private static func text(_ evidence: EvidenceFile) -> String {
        var writer = JSONWriter()
        evidence.write(to: &writer)
        return writer.text
    }

    private static func json(_ text: String) -> String { text.replacing("\n", with: newline) }

    /// As a JSON text has it.
    private static let newline = "\\u000a"

    private static func problem(_ text: String, _ tree: TreeLog) async throws -> String? {
        guard let evidence = EvidenceFile(json: try JSONDocument(Array(text.utf8)).root) else { return "unreadable" }
        let verifier = EvidenceVerifier(
            signatures: SignatureVerifier(roots: SimulatedLog.roots), keys: [tree.key.publicKey])
        do throws(EvidenceProblem) {
            _ = try await verifier.verify(evidence)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("a head from before the tree existed still proves the log and an event, and says nothing against the tree")
    func earlierHead() async throws {
        try await TreeLog.with { tree in
            let owner = try await TestCluster.connect(tree.log.database)
            let current = try #require(try await StreamHead.all(on: owner).first)
            await owner.close()
            let head = try tree.key.sign(current, at: TestBundle.now)
            try await tree.fill(to: 300)
            try await tree.sign()

            try await tree.withStore { store in
                let outcome = try await ChainVerifier(
                    log: store.audit, heads: HeadCheck(heads: [head], keys: [tree.key.publicKey])
                ).run()
                #expect(outcome.finding == nil)
                let evidence = try await EvidenceReader(log: store.audit).evidence(at: 2, head: head)
                #expect(try await Self.problem(Self.text(evidence), tree) == nil)
            }
        }
    }

    @Test("a record of signed checkpoints that cannot be read or written stops the signing")
    func record() async throws {
        try await TreeLog.with { tree in
            let size = try await tree.sign().checkpoint.size
            let files = try FileManager.default.contentsOfDirectory(atPath: tree.record.folder)
            let path = "\(tree.record.folder)/\(try #require(files.first))"
            #expect(files == ["subledger+test+\(V1Body.app)+sandbox"])
            try await tree.fill(to: Int(size) + 1)

            try Data("no checkpoint".utf8).write(to: URL(fileURLWithPath: path))
            #expect(try await tree.problem() == .record(path))
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            #expect(try await tree.problem() == .record(path))
            try FileManager.default.removeItem(atPath: path)
            #expect(try await tree.sign().checkpoint.size == size + 1)
        }
    }
}
