import Foundation
import Postgres
import TestSupport
import Testing

@Suite("The dbt source says of the analyst views what the database says")
struct DbtSourcesTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("deploy/dbt")

    @Test("sources.yml is what sources.sql prints")
    func equal() async throws {
        let database = try await SharedDatabase.make()
        let printed = try Process.run(
            command: [
                "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--host", database.socketFolder, "--username",
                "subledger", "--dbname", database.name, "--file",
                Self.folder.appendingPathComponent("sources.sql").path,
            ])
        try await database.drop()

        #expect(printed.status == 0, "\(printed.errorText)")
        #expect(
            printed.outputText
                == (try String(contentsOf: Self.folder.appendingPathComponent("sources.yml"), encoding: .utf8)),
            "make it again as its first line says")
    }
}
