import Foundation
import Postgres
import TestSupport
import Testing

@Suite("A server started by root drops its privileges", .enabled(if: geteuid() == 0))
struct ServiceAccountTests {
    private static let account = (try? ServerAccount.ifRoot())?.name ?? "none"

    private static func folder() -> String { TestFolder.path("account") }

    /// The words of a line of `/proc/<pid>/status`.
    private static func status(_ pid: Int32, _ name: String) throws -> [String] {
        let text = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + ":") })
        return line.split(whereSeparator: \.isWhitespace).dropFirst().map(String.init)
    }

    private static func user(_ name: String) throws -> String {
        "\(try #require(getpwnam(name)).pointee.pw_uid)"
    }

    /// A port below 1024 without a listener.
    private static func lowPort() throws -> Int {
        try #require((700...1000).first { (try? RawConnection(port: $0)) == nil })
    }

    @Test("the server runs as the service account, cannot gain privileges, and listens on a port below 1024")
    func serves() async throws {
        let folder = Self.folder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let port = try Self.lowPort()
        let server = try ServerProcess(dataFolder: folder, publicPort: port)
        let ports = try await server.ports()
        let postmaster = try #require(
            Int32(
                try String(contentsOfFile: folder + "/postgres/postmaster.pid", encoding: .utf8)
                    .split(separator: "\n")[0]))

        #expect(ports.public == port)
        #expect(try await HTTPClient(port: port).get("/health").status == 200)
        let user = try Self.user(Self.account)
        for process in [server.pid, postmaster] {
            #expect(try Self.status(process, "Uid") == [user, user, user, user])
            #expect(try Self.status(process, "NoNewPrivs") == ["1"])
        }
        #expect(try Self.status(server.pid, "CapEff") == ["0000000000000400"])
        #expect(try Self.status(server.pid, "CapBnd") == ["0000000000000400"])
        #expect(try Self.status(postmaster, "CapEff") == ["0000000000000000"])
        #expect(try Self.status(postmaster, "PPid") == ["\(server.pid)"])
        // Commands of root work on the folder while the server runs and after it has ended.
        _ = try ServerProcess.token(dataFolder: folder)
        server.signal(SIGTERM)
        try await server.hasEnded()
        #expect(server.exitStatus == 0)
        _ = try ServerProcess.token(dataFolder: folder)
        let again = try ServerProcess(dataFolder: folder)
        _ = try await again.ports()
        again.signal(SIGTERM)
        try await again.hasEnded()
    }

    @Test("a server with a database URL drops root too")
    func databaseURL() async throws {
        let database = try await SharedDatabase.make()
        let server = try database.server("receiver")
        _ = try await server.ports()

        #expect(try Self.status(server.pid, "Uid").allSatisfy { $0 != "0" })

        server.signal(SIGTERM)
        try await server.hasEnded()
        try await database.drop()
    }

    @Test("an error for a file that only root can read names the file and the account")
    func unreadable() async throws {
        let folder = Self.folder()
        let file = folder + ".json"
        defer { for path in [folder, file] { try? FileManager.default.removeItem(atPath: path) } }
        try Data("[]".utf8).write(to: URL(fileURLWithPath: file))
        chmod(file, 0o600)

        let server = try ServerProcess(dataFolder: folder, environment: ["SUBLEDGER_APPS_FILE": file])
        try await server.hasEnded()

        #expect(server.exitStatus == 78)
        #expect(
            server.log.hasSuffix("subledger: user \(Self.account) cannot read \(file): grant read permission\n"))
    }
}
