import Foundation
import Testing

@testable import Postgres

/// The other user is `nobody`. Running a command as `nobody` requires root.
@Suite("A data folder that another user can change is rejected", .enabled(if: geteuid() == 0))
struct DataFolderTests {
    /// Runs a command as `nobody`.
    private static func asNobody(_ command: [String]) throws -> (status: Int32, output: String) {
        let result = try Process.run(
            command: ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"] + command, joined: true)
        return (result.status, result.outputText)
    }

    private static func refusal(of folder: String) async throws -> String {
        let error = await #expect(throws: EmbeddedServerError.self) {
            let server = try await EmbeddedServer.start(folder: folder, logger: .quiet)
            await server.stop()
        }
        return "\(try #require(error))"
    }

    private static func mode(_ path: String) -> mode_t {
        var status = stat()
        lstat(path, &status)
        return status.st_mode & 0o777
    }

    private static func owner(_ path: String) -> uid_t {
        var status = stat()
        lstat(path, &status)
        return status.st_uid
    }

    @Test("a folder of another user is rejected, and its links are not followed")
    func otherOwner() async throws {
        let (folder, victims) = (temporaryFolder(), temporaryFolder())
        defer { for path in [folder, victims] { try? FileManager.default.removeItem(atPath: path) } }
        try FileManager.default.createDirectory(atPath: victims + "/run", withIntermediateDirectories: true)
        for name in ["lock", "postgres.log"] {
            try "kept".write(toFile: "\(victims)/\(name)", atomically: false, encoding: .utf8)
        }
        #expect(try Self.asNobody(["mkdir", folder]).status == 0)
        for name in ["run", "lock", "postgres.log"] {
            #expect(try Self.asNobody(["ln", "-s", "\(victims)/\(name)", "\(folder)/\(name)"]).status == 0)
        }

        let problem = try await Self.refusal(of: folder)

        #expect(problem == "the folder \(folder) belongs to user nobody: expected root or \(try Self.account())")
        for name in ["lock", "postgres.log"] {
            #expect(try String(contentsOfFile: "\(victims)/\(name)", encoding: .utf8) == "kept")
            #expect(Self.owner("\(victims)/\(name)") == 0)
        }
        #expect(Self.owner(victims + "/run") == 0 && Self.mode(victims + "/run") == 0o755)
    }

    @Test("a folder that other users can write to is rejected")
    func writable() async throws {
        let folder = temporaryFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        chmod(folder, 0o777)

        #expect(try await Self.refusal(of: folder).contains("other users can write to the folder \(folder)"))
    }

    @Test("a folder inside a world-writable or another user's folder, or behind another user's link, is rejected")
    func above() async throws {
        let (open, owned, link) = (temporaryFolder(), temporaryFolder(), temporaryFolder())
        let target = temporaryFolder()
        defer { for path in [open, owned, link, target] { try? FileManager.default.removeItem(atPath: path) } }
        for path in [open + "/data", target] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        chmod(open, 0o777)
        #expect(try Self.asNobody(["mkdir", owned]).status == 0)
        #expect(try Self.asNobody(["ln", "-s", target, link]).status == 0)

        #expect(try await Self.refusal(of: open + "/data").contains("all users can write to \(open),"))
        #expect(try await Self.refusal(of: owned + "/data").contains("\(owned) belongs to user nobody"))
        #expect(try await Self.refusal(of: link).contains("\(link) belongs to user nobody"))
        #expect(access(owned + "/data", F_OK) != 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: target) == [])
    }

    @Test(
        "a symbolic or hard link inside the folder is not written through", arguments: ["lock", "postgres.log", "run"])
    func links(_ name: String) async throws {
        let (folder, victim) = (temporaryFolder(), temporaryFolder())
        defer { for path in [folder, victim] { try? FileManager.default.removeItem(atPath: path) } }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try "kept".write(toFile: victim, atomically: false, encoding: .utf8)

        try FileManager.default.createSymbolicLink(atPath: "\(folder)/\(name)", withDestinationPath: victim)
        #expect(try await Self.refusal(of: folder).contains("\(folder)/\(name)"))
        unlink("\(folder)/\(name)")
        if name != "run" {
            try #require(link(victim, "\(folder)/\(name)") == 0)
            #expect(try await Self.refusal(of: folder).contains("expected a file with one name"))
        }

        #expect(try String(contentsOfFile: victim, encoding: .utf8) == "kept")
        #expect(Self.owner(victim) == 0)
    }

    @Test("a folder of root is assigned to the server's account only if empty, and other users cannot enter it")
    func giving() async throws {
        let folder = temporaryFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try "kept".write(toFile: folder + "/passwd", atomically: false, encoding: .utf8)
        #expect(try await Self.refusal(of: folder).contains("contains other files, such as passwd"))
        #expect(Self.owner(folder) == 0)
        unlink(folder + "/passwd")

        let server = try await EmbeddedServer.start(folder: folder, logger: .quiet)

        let account = try #require(try ServerAccount.ifRoot())
        #expect(Self.mode(folder) == 0o700)
        for name in ["", "/lock", "/postgres.log", "/run", "/postgres", "/pg_hba.conf", "/pg_ident.conf"] {
            #expect(Self.owner(folder + name) == account.user, "\(name)")
        }
        await server.stop()
    }

    @Test("a system user with access to the socket cannot log in; root and the account can")
    func peers() async throws {
        let folder = temporaryFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try await EmbeddedServer.start(folder: folder, logger: .quiet)
        for path in [folder, server.socketFolder] { chmod(path, 0o755) }
        chmod(server.socketFolder + "/.s.PGSQL.5432", 0o777)
        let question = [
            "psql", "-X", "-w", "-h", server.socketFolder, "-U", "subledger", "-d", "postgres", "-Atc",
            "select current_user",
        ]
        let account = try #require(try ServerAccount.ifRoot())

        let nobody = try Self.asNobody(question)
        let own = try ChildProcess.start(account.command(["/usr/bin/env"] + question), output: folder + "/own.txt")
        let ownStatus = await own.wait()
        let root = try await PostgresConnection.connect(server.configuration(database: "postgres"), deadline: soon())

        #expect(nobody.status == 2)
        #expect(nobody.output.contains("Peer authentication failed"), "\(nobody.output)")
        #expect(ownStatus == 0)
        await root.close()
        await server.stop()
    }

    private static func account() throws -> String {
        try #require(try ServerAccount.ifRoot()).name
    }
}
