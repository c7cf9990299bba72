import Foundation
import TestSupport
import Testing

@Suite("The database URL in a file")
struct DatabaseURLFileTests {
    private static func file(_ text: String) throws -> String {
        let path = TestFolder.path("url")
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test("the URL of the file selects the database; a line end after it is ignored")
    func read() async throws {
        let database = try await SharedDatabase.make()
        let url = try #require(database.environment()["SUBLEDGER_DATABASE_URL"])
        let file = try Self.file(url + "\n")
        defer { try? FileManager.default.removeItem(atPath: file) }

        let made = try ServerProcess.run(
            ["token", "create", "--scope", "read", "--name", "file"],
            environment: ["SUBLEDGER_DATABASE_URL_FILE": file])

        #expect(made.status == 0, "\(made.error)")
        #expect(try await database.lines("select name from subledger.token") == ["file"])
        try await database.drop()
    }

    @Test("an empty or missing file, or a URL beside it, is an error, and never selects the private PostgreSQL")
    func unusable() throws {
        let empty = try Self.file(" \n")
        let full = try Self.file("postgres:///none")
        defer { for path in [empty, full] { try? FileManager.default.removeItem(atPath: path) } }
        let folder = "/tmp/subledger-url-none"

        for (environment, problem) in [
            (["SUBLEDGER_DATABASE_URL_FILE": empty], "\(empty) is empty: expected a database URL"),
            (["SUBLEDGER_DATABASE_URL_FILE": "/none/url"], "cannot read /none/url"),
            (
                ["SUBLEDGER_DATABASE_URL_FILE": full, "SUBLEDGER_DATABASE_URL": "postgres:///other"],
                "are both set: expected one of them"
            ),
        ] {
            let result = try ServerProcess.run(
                ["migrate", "--data-folder", folder], environment: environment)

            #expect(result.status == 78)
            #expect(result.error.hasSuffix("\(problem)\n"), "\(result.error)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder))
    }
}
