import Foundation
import Testing

@testable import Postgres

/// Each test uses a copy of the installed PostgreSQL, which finds its libraries relative to its own path.
@Suite("The embedded server during an upgrade of its files")
struct ServerReplacementTests {
    private static let function = Statement("r_insert", "insert into kept (v) values ($1) returning v")

    /// A copy in a separate folder, and a server that runs from it.
    private struct Copy {
        let folder = temporaryFolder()
        let installed: ServerBinaries
        var root: String { "\(folder)/lib/postgresql/\(installed.version)" }
        var binaries: ServerBinaries { ServerBinaries(folder: root + "/bin", version: installed.version) }
        var data: String { folder + "/data" }

        init() throws {
            installed = try ServerBinaries.find(version: nil)
            let files = FileManager.default
            let source = (installed.folder as NSString).deletingLastPathComponent
            try files.createDirectory(
                atPath: (root as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
            try files.copyItem(atPath: source, toPath: root)
            try files.createDirectory(atPath: folder + "/share", withIntermediateDirectories: true)
            try files.createSymbolicLink(
                atPath: folder + "/share/postgresql", withDestinationPath: "/usr/share/postgresql")
        }

        func start() async throws(EmbeddedServerError) -> EmbeddedServer {
            try await EmbeddedServer.start(folder: data, binaries: binaries, logger: .quiet)
        }

        /// As a package manager does: the new file is written beside the old one and renamed.
        func replace(_ file: String, with content: Data) throws {
            let path = "\(root)/\(file)"
            try content.write(to: URL(fileURLWithPath: path + ".new"))
            chmod(path + ".new", 0o755)
            rename(path + ".new", path)
        }

        func content(_ file: String) throws -> Data {
            try Data(contentsOf: URL(fileURLWithPath: "\(root)/\(file)"))
        }

        func remove() { try? FileManager.default.removeItem(atPath: folder) }
    }

    /// A table whose every insert runs PL/pgSQL, as appends to the log do.
    private static func makeTable(_ server: EmbeddedServer) async throws {
        let connection = try await PostgresConnection.connect(
            server.configuration(database: "postgres"), deadline: soon())
        try await connection.script(
            """
            create table kept (v bigint primary key);
            create function seal() returns trigger language plpgsql as 'begin return new; end';
            create trigger seal before insert on kept for each row execute function seal();
            """, deadline: soon())
        await connection.close()
    }

    private static func insert(_ value: Int64, _ server: EmbeddedServer) async throws {
        let connection = try await PostgresConnection.connect(
            server.configuration(database: "postgres"), deadline: soon())
        defer { Task { await connection.close() } }
        _ = try await connection.query(Self.function, [Parameter(value)], deadline: soon())
    }

    @Test("a session started after PL/pgSQL's library was replaced runs functions as before")
    func library() async throws {
        let copy = try Copy()
        defer { copy.remove() }
        let server = try await copy.start()
        try await Self.makeTable(server)

        try copy.replace("lib/plpgsql.so", with: Data("of another release".utf8))
        try await Self.insert(1, server)

        await server.stop()
    }

    @Test("a server whose binary was replaced is restarted with a clean shutdown and keeps all stored rows")
    func binary() async throws {
        let copy = try Copy()
        defer { copy.remove() }
        let server = try await copy.start()
        try await Self.makeTable(server)
        let before = try #require(await server.postmasterPID)
        let supervisor = Task { await server.supervise() }

        try copy.replace("bin/postgres", with: try copy.content("bin/postgres"))
        var stored: [Int64] = []
        var value: Int64 = 0
        try await eventually(within: .seconds(40)) {
            value += 1
            if (try? await Self.insert(value, server)) != nil { stored.append(value) }
            return await server.postmasterPID.map { $0 != before } ?? false
        }
        try await eventually { (try? await Self.insert(-1, server)) != nil }

        let connection = try await PostgresConnection.connect(
            server.configuration(database: "postgres"), deadline: soon())
        let rows = try await connection.query(
            Statement("r_kept", "select v from kept where v > 0 order by v"), deadline: soon())
        let kept = try Set(rows.map { try $0.value(Int64.self, at: 0) })
        #expect(stored.count > 1 && kept.isSuperset(of: stored))
        let log = try String(contentsOfFile: copy.data + "/postgres.log", encoding: .utf8)
        #expect(!log.contains("was not properly shut down"))
        await connection.close()
        supervisor.cancel()
        await supervisor.value
        await server.stop()
    }

    @Test("moving the files away and back does not restart the server; connected sessions continue")
    func movedAway() async throws {
        let copy = try Copy()
        defer { copy.remove() }
        let server = try await copy.start()
        try await Self.makeTable(server)
        let before = await server.postmasterPID
        let start = ContinuousClock.now
        let connected = try await PostgresConnection.connect(
            server.configuration(database: "postgres"), deadline: soon())
        _ = try await connected.query(Self.function, [Parameter(Int64(10))], deadline: soon())

        #expect(await !server.isReplaced(now: start))
        rename(copy.root, copy.root + ".away")
        for second in 1...10 { #expect(await !server.isReplaced(now: start + .seconds(second))) }
        _ = try await connected.query(Self.function, [Parameter(Int64(11))], deadline: soon())
        do {
            try await Self.insert(1, server)
        } catch let error as PostgresError {
            #expect(error.isTransient, "\(error.debugDescription)")
        }
        rename(copy.root + ".away", copy.root)
        for second in 11...20 { #expect(await !server.isReplaced(now: start + .seconds(second))) }
        try await Self.insert(2, server)

        #expect(await server.postmasterPID == before)
        await connected.close()
        await server.stop()
    }

    @Test("a binary of another major version is not started")
    func otherMajorVersion() async throws {
        let copy = try Copy()
        defer { copy.remove() }
        let server = try await copy.start()
        let start = ContinuousClock.now

        try copy.replace("bin/postgres", with: Data("#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n".utf8))

        for second in 1...10 { #expect(await !server.isReplaced(now: start + .seconds(second))) }
        await server.stop()
    }
}
