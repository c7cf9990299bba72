import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Commands that sign heads and write evidence")
struct HeadCommandTests {
    @Test("head, verify --head, evidence and verify-evidence work beside a server and name what a superuser changed")
    func beside() async throws {
        let folder = TestFolder.path("head")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(arguments + ["--data-folder", folder, "--log-level", "error"])
        }
        let server = try ServerProcess(dataFolder: folder)
        let apple = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
        for number in 1...3 { #expect(try await apple.post(try V1Body(number: number).bytes).status == 200) }

        let head = try run("head")
        #expect(head.status == 0, "\(head.error)")
        let json = try #require(
            try JSONSerialization.jsonObject(with: Data(head.output.utf8)) as? [String: Any])
        let publicKey = try #require(json["publicKey"] as? String)
        #expect(json["position"] as? Int == 3)
        let mode = try FileManager.default.attributesOfItem(atPath: "\(folder)/head-key.pem")[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let heads = "\(folder)/heads.jsonl"
        try Data(head.output.utf8).write(to: URL(fileURLWithPath: heads))
        #expect(try run("head", "--app", "com.example.other").output == "")

        #expect(try await apple.post(try V1Body(number: 4).bytes).status == 200)
        let chain = try run("verify", "--chain-only", "--head", heads)
        #expect(chain.output == "verified: streams 1, events 4, heads 1 (hash chain only)\n", "\(chain.error)")
        let given = try run("verify", "--chain-only", "--head", heads, "--public-key", publicKey)
        #expect(given.status == 0)
        let foreign = try run("verify", "--head", heads, "--public-key", String(repeating: "3", count: 64))
        #expect(foreign.output.contains("position 3: the head is forged"), "\(foreign)")
        #expect(foreign.status == 1)

        let file = "\(folder)/evidence.json"
        let place = ["--app", V1Body.app, "--environment", "production", "--data-folder", folder]
        let written = try ServerProcess.run(["evidence", "2", "--output", file] + place)
        #expect(written.status == 0, "\(written.error)")
        let verified = try ServerProcess.run(["verify-evidence", file, "--public-key", publicKey])
        #expect(verified.output.hasPrefix("verified: \(V1Body.app), production, position 2\n"), "\(verified)")
        #expect(verified.status == 0)
        let earlier = try ServerProcess.run(["evidence", "2", "--head", heads, "--output", file] + place)
        #expect(earlier.status == 0, "\(earlier.error)")
        let unproven = try ServerProcess.run(
            ["verify-evidence", file, "--public-key", String(repeating: "3", count: 64)])
        #expect(unproven.status == 1)
        #expect(unproven.output == "not verified: head: its signature is not of an accepted key\n")

        let checkpoint = "\(folder)/checkpoint"
        let printed = try run("head", "--checkpoint")
        #expect(printed.output.split(separator: "\n").dropFirst().first == "4", "\(printed)")
        #expect(try run("head", "--checkpoint").output == printed.output)
        try Data(printed.output.utf8).write(to: URL(fileURLWithPath: checkpoint))
        let extended = try run("verify", "--chain-only", "--checkpoint", checkpoint, "--public-key", publicKey)
        #expect(extended.output == "verified: streams 1, events 4, checkpoints 1 (hash chain only)\n", "\(extended)")
        let origin = "subledger/\(publicKey.prefix(16))/\(V1Body.app)/production"
        #expect(printed.output.hasPrefix("\(origin)\n"))
        #expect(try run("head", "--verifier-key").output.hasPrefix("\(origin)+"))
        let proven = try ServerProcess.run(["evidence", "2", "--checkpoint", checkpoint, "--output", file] + place)
        #expect(proven.status == 0, "\(proven.error)")
        let byTree = try ServerProcess.run(["verify-evidence", file, "--public-key", publicKey])
        #expect(byTree.output.hasSuffix("\ncheckpoint: \(origin), size 4, by a proof of 2 hashes\n"), "\(byTree)")
        #expect(try ServerProcess.run(["evidence", "5", "--checkpoint", checkpoint] + place).status == 78)
        #expect(try ServerProcess.run(["evidence", "2", "--checkpoint", heads] + place).status == 78)
        #expect(try run("head", "--checkpoint", "--app", "com.example.other").status == 65)
        #expect(try run("head", "--checkpoint", "--installation", "a b").status == 78)
        #expect(try run("witness", "--url", "http://127.0.0.1:9", "--witness-key", "none").status == 78)
        #expect(try ServerProcess.run(["evidence", "5"] + place).status == 65)
        #expect(try ServerProcess.run(["evidence", "4", "--head", heads] + place).status == 78)
        #expect(try ServerProcess.run(["verify-evidence", heads, "--public-key", publicKey]).status == 65)

        try await Self.truncate(folder)
        let truncated = try run("verify", "--chain-only", "--head", heads)
        #expect(truncated.status == 1)
        #expect(
            truncated.output.hasPrefix(
                "stream 1 (\(V1Body.app), production) position 3: event is missing: the log does not extend the head"),
            "\(truncated)")
        let shorter = try run("head", "--checkpoint")
        #expect(shorter.status == 1)
        #expect(
            shorter.error == "subledger: a checkpoint of 4 events was signed, and the log has 2: see the runbook\n",
            "\(shorter)")
        let missing = try run("verify", "--chain-only", "--checkpoint", checkpoint)
        #expect(missing.output.contains("position 3: event is missing: the log does not extend the"), "\(missing)")
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    /// Removes the events after position 2 and mends everything else, as a superuser can.
    private static func truncate(_ folder: String) async throws {
        let connection = try await PostgresConnection.connect(
            ConnectionConfiguration(socketFolder: folder + "/run", user: "subledger", database: "subledger"),
            deadline: .now + .seconds(20))
        try await connection.script(
            """
            alter table subledger.event disable trigger event_append_only;
            delete from subledger.event where position > 2;
            update subledger.stream_head
            set position = 2, chain = (select chain from subledger.event where position = 2)
            """, deadline: .now + .seconds(20))
        await connection.close()
    }

    @Test("a head key that other users may read, or that is no key, is refused")
    func badKeys() throws {
        let folder = TestFolder.path("keys")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let key = "\(folder)/key.pem"
        let head = "\(folder)/head"
        try Data(
            """
            {"app":"a","environment":"sandbox","position":0,"chain":"\(String(repeating: "00", count: 32))",\
            "signedAt":"2026-01-01T00:00:00.000Z","publicKey":"\(String(repeating: "00", count: 32))",\
            "signature":"\(String(repeating: "00", count: 64))"}
            """.utf8
        ).write(to: URL(fileURLWithPath: head))
        func error() throws -> String {
            try ServerProcess.run(["verify", "--head", head, "--head-key", key, "--data-folder", folder]).error
        }

        #expect(try error() == "subledger: no key is known that signs heads: set --public-key\n")
        try Data("no key".utf8).write(to: URL(fileURLWithPath: key))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: key)
        #expect(try error() == "subledger: head key \(key) can be read by other users: expected mode 0600\n")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
        #expect(try error() == "subledger: head key \(key) is not an Ed25519 private key in PEM\n")
        let none = try ServerProcess.run(["head", "--database-url", "postgres://a:b@127.0.0.1:1/none"])
        #expect(none.status != 0)
    }
}
