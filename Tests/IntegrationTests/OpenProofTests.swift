import Encoding
import EventLog
import Foundation
import Postgres
import Subscriptions
import TestSupport
import Testing

/// Go's packages `golang.org/x/mod/sumdb/note` and `tlog`, which nobody here wrote, in a small program.
enum GoProgram {
    /// Where Debian's package golang-golang-x-mod-dev has its sources.
    private static let sources = "/usr/share/gocode"

    static let isInstalled =
        FileManager.default.fileExists(atPath: "\(sources)/src/golang.org/x/mod/sumdb/tlog/tlog.go")
        && FileManager.default.isExecutableFile(atPath: "/usr/bin/go")

    struct Question: Encodable {
        var check: String
        var key = ""
        var note = ""
        var old = ""
        var hashes: [String] = []
        var proof = ""
        var digest = ""
        var witness = ""
    }

    private static let program = Task { () throws -> String in
        let folder = TestFolder.path("go")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/tlog/main.go").path
        let built = try Process.run(
            command: ["go", "build", "-o", "\(folder)/check", file],
            environment: ProcessInfo.processInfo.environment.merging([
                "GO111MODULE": "off", "GOPATH": sources, "GOCACHE": "\(folder)/cache", "GOFLAGS": "",
            ]) { $1 }, limit: 300)
        try #require(built.status == 0, "\(built.errorText)")
        return "\(folder)/check"
    }

    /// The program's answer to each question: `accepted`, or `refused: ` and why.
    static func answers(_ questions: [Question]) async throws -> [String] {
        let encoder = JSONEncoder()
        let lines = try questions.map { String(decoding: try encoder.encode($0), as: UTF8.self) + "\n" }.joined()
        let result = try Process.run(command: [try await program.value], input: Data(lines.utf8))
        try #require(result.status == 0, "\(result.errorText)")
        return result.outputText.split(separator: "\n").map(String.init)
    }
}

@Suite(
    "Go's packages for transparency logs accept checkpoints and proofs, and refuse every kind of tampering",
    .enabled(if: GoProgram.isInstalled, "golang-go and golang-golang-x-mod-dev are not installed"),
    .timeLimit(.minutes(10)))
struct OpenProofTests {
    private typealias Question = GoProgram.Question

    private static func record(
        _ tree: TreeLog, _ store: TreeStore, _ position: Int64, under checkpoint: SignedCheckpoint
    ) async throws -> Question {
        let state = try await tree.state(store)
        let hashes = try await StreamTree(store, of: state.id)
            .inclusion(of: position, size: checkpoint.checkpoint.size)
        let stream = try #require(try await store.audit.streams().first { $0.key == TreeLog.stream })
        let link = try #require(try await store.audit.links(of: stream, after: position - 1, limit: 1).first)
        return Question(
            check: "record", key: tree.signer.verifierKey(of: TreeLog.stream).text,
            proof: TreeProof(position: position, hashes: hashes, checkpoint: checkpoint).encoded,
            digest: Hex.text(link.digest))
    }

    private static func growth(
        _ tree: TreeLog, _ store: TreeStore, from old: SignedCheckpoint, to new: SignedCheckpoint
    ) async throws -> Question {
        let state = try await tree.state(store)
        let proof = try await StreamTree(store, of: state.id)
            .consistency(from: old.checkpoint.size, to: new.checkpoint.size)
        return Question(
            check: "tree", key: tree.signer.verifierKey(of: TreeLog.stream).text, note: new.note.encoded,
            old: old.note.encoded, hashes: proof.map { Base64.text($0) })
    }

    @Test("checkpoints, every event's proof, the growth between checkpoints and a cosignature are accepted")
    func accepted() async throws {
        try await TreeLog.with { tree in
            let key = tree.signer.verifierKey(of: TreeLog.stream).text
            var signed = [try await tree.sign()]
            for count in [255, 256, 300, 1000] {
                try await tree.fill(to: count)
                signed.append(try await tree.sign())
            }
            try await tree.withStore { store in
                var questions = signed.map { Question(check: "note", key: key, note: $0.note.encoded) }
                for position in Int64(1)...300 {
                    questions.append(try await Self.record(tree, store, position, under: signed[3]))
                }
                questions.append(try await Self.record(tree, store, 1, under: signed[0]))
                questions.append(try await Self.record(tree, store, 1000, under: signed[4]))
                for old in signed.indices {
                    for new in old..<signed.count {
                        questions.append(try await Self.growth(tree, store, from: signed[old], to: signed[new]))
                    }
                }
                let witness = HeadKey()
                let cosigned = signed[4].with([
                    try witness.cosign(signed[4].note.text, as: TestWitness.name, at: 1_800_000_000)
                ])
                let witnessKey = NoteKey(name: TestWitness.name, key: witness.publicKey, kind: .cosignature)
                questions.append(
                    Question(check: "cosignature", note: cosigned.note.encoded, witness: witnessKey.text))

                let answers = try await GoProgram.answers(questions)

                #expect(answers.count == questions.count)
                for (question, answer) in zip(questions, answers) where answer != "accepted" {
                    Issue.record("\(answer): \(question)")
                }
            }
        }
    }

    @Test(
        "after a change of the log with the whole chain, tree and checkpoint made again, nothing leads from what was signed",
        arguments: [
            ("rewritten", ChainTests.rewritten), ("inserted", ChainTests.insertion), ("swapped", ChainTests.swap),
            ("removed", ChainTests.removal),
            ("body exchanged", ChainTests.exchanged),
            ("revocation changed", "update subledger.event set revocation = 'pending' where position = 9"),
            ("truncated and grown", "delete from subledger.event where position > 10"),
        ])
    func rewritten(_ name: String, _ change: String) async throws {
        try await TreeLog.with { tree in
            try await tree.fill(to: 400)
            let old = try await tree.sign()
            let honest = try await tree.withStore { try await Self.record(tree, $0, 9, under: old) }
            let key = tree.signer.verifierKey(of: TreeLog.stream).text
            try await tree.log.script(change + ";" + ChainTests.recompute)
            if name == "truncated and grown" {
                // Others than those that were there.
                try await tree.log.script(
                    "update subledger.event set received_at = received_at + interval '1 s' where position = 1")
            }
            try await tree.fill(to: 450)
            try await tree.forgetTiles()
            let refusal = try await tree.problem()
            // The operator signs all the same.
            try await tree.log.script("delete from subledger.head_checkpoint")
            try FileManager.default.removeItem(atPath: tree.record.folder)
            let new = try await tree.sign()
            try await tree.withStore { store in
                let growth = try await Self.growth(tree, store, from: old, to: new)
                var moved = try await Self.record(tree, store, 9, under: new)
                moved.digest = honest.digest
                // What the log has now, under the checkpoint that somebody kept.
                var other = try await Self.record(tree, store, 9, under: old)
                var questions = [growth, other]
                // With the same neighbours, what was kept is still proven: only the event itself is another one.
                if !["rewritten", "body exchanged", "revocation changed"].contains(name) {
                    other.digest = honest.digest
                    questions.append(other)
                }
                if name != "truncated and grown" { questions.append(moved) }

                let answers = try await GoProgram.answers([honest] + questions)

                #expect(refusal == .fork(signed: 400), "\(name): \(refusal.map(\.description) ?? "signed")")
                #expect(answers.first == "accepted", "what was kept is still proven: \(answers)")
                #expect(answers.dropFirst().allSatisfy { $0.hasPrefix("refused: ") }, "\(name): \(answers)")
                let own = Question(check: "note", key: key, note: new.note.encoded)
                #expect(try await GoProgram.answers([own]) == ["accepted"])
            }
        }
    }

    @Test("a forged or foreign checkpoint, a proof with a byte changed and a truncated log are refused")
    func forged() async throws {
        try await TreeLog.with { tree in
            try await tree.fill(to: 300)
            let signed = try await tree.sign()
            let key = tree.signer.verifierKey(of: TreeLog.stream).text
            try await tree.withStore { store in
                let honest = try await Self.record(tree, store, 9, under: signed)
                let size = signed.checkpoint.size
                let forged = try HeadKey().sign(signed.checkpoint)
                let smaller = try tree.key.sign(
                    TreeCheckpoint(origin: signed.checkpoint.origin, size: 200, root: signed.checkpoint.root))
                var questions = [
                    Question(check: "note", key: key, note: forged.note.encoded),
                    Question(
                        check: "note", key: key, note: signed.note.encoded.replacing("\n\(size)\n", with: "\n1\n")),
                    Question(
                        check: "note", key: key, note: signed.note.encoded.replacing("sandbox\n", with: "production\n")),
                    try await Self.growth(tree, store, from: smaller, to: signed),
                    Question(check: "tree", key: key, note: smaller.note.encoded, old: signed.note.encoded),
                ]
                let bytes = Array(honest.proof.utf8)
                for index in bytes.indices {
                    var changed = bytes
                    changed[index] ^= 1
                    // Go ignores the unused bits of the last digit.
                    guard index + 1 == bytes.count || bytes[index + 1] != UInt8(ascii: "=") else { continue }
                    guard let text = String(validating: changed, as: UTF8.self) else { continue }
                    var question = honest
                    question.proof = text
                    questions.append(question)
                }
                for digit in stride(from: 0, to: 64, by: 2) {
                    var question = honest
                    var digest = Array(question.digest.utf8)
                    digest[digit] = digest[digit] == UInt8(ascii: "0") ? UInt8(ascii: "1") : UInt8(ascii: "0")
                    question.digest = String(decoding: digest, as: UTF8.self)
                    questions.append(question)
                }

                let answers = try await GoProgram.answers([honest] + questions)

                #expect(answers.first == "accepted")
                let accepted = zip(questions, answers.dropFirst()).filter { $1 == "accepted" }
                #expect(accepted.isEmpty, "\(accepted)")
                #expect(answers.count == questions.count + 1)
            }
        }
    }
}
