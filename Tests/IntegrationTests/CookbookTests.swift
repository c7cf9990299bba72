import Foundation
import Postgres
import StoreSimulator
import Subscriptions
import TestSupport
import Testing

@Suite("Query cookbook")
struct CookbookTests {
    /// A query of the cookbook, and the output below it in the article.
    struct Recipe {
        let sql: String
        let output: String
    }

    /// Set SUBLEDGER_WRITE_COOKBOOK to replace the outputs in the article with the actual ones.
    private static var isWriting: Bool { ProcessInfo.processInfo.environment["SUBLEDGER_WRITE_COOKBOOK"] != nil }

    /// Every SQL block in the article, with the text block after it.
    static func recipes(in text: String) -> [Recipe] {
        text.matches(of: /```sql\n([^`]*)```\n\n```text\n([^`]*)```/)
            .map { Recipe(sql: String($0.output.1), output: String($0.output.2)) }
    }

    /// The output of psql for the SQL, with the analyst role.
    private static func psql(_ sql: String, database: String, folder: String, user: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "psql", "-X", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", user, "-d", database, "-f", "-",
        ]
        process.environment = ProcessInfo.processInfo.environment.merging([
            "PGOPTIONS": "-c role=subledger_analyst -c default_transaction_read_only=on -c statement_timeout=60s",
            "PGPORT": "5432", "PGTZ": "UTC", "PAGER": "cat", "LC_ALL": "C.UTF-8",
        ]) { $1 }
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(sql.utf8))
        try input.fileHandleForWriting.close()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(text)")
        return text
    }

    /// Without whitespace at the ends of lines and newlines around the text.
    private static func trimmed(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.replacing(/\s+$/, with: "") }.joined(separator: "\n")
            .trimmingCharacters(in: .newlines)
    }

    @Test("each query returns the output in the article, over the simulated run that it names", .timeLimit(.minutes(5)))
    func answers() async throws {
        let article = try DocumentationArticle("QueryCookbook")
        var text = article.text
        let recipes = Self.recipes(in: text)
        let simulation = try #require(AnalystLog.simulation(seed: 7, subscriptions: 280, format: .v2))
        #expect(recipes.count >= 12)
        #expect(recipes.count == article.blocks.count { $0.language == "sql" })

        try await SimulatedLog.with { log in
            try await log.append(try await AnalystLog.verified(simulation.deliveries))
            try await log.append(linksOf: simulation)
            try await AnalystLog.fold(log)
            let place = try await log.lines(
                """
                select unnest(array[
                  current_database(), trim('"' from current_setting('unix_socket_directories')), current_user
                ]::text[])
                """)
            for recipe in recipes {
                let printed = Self.trimmed(
                    try Self.psql(recipe.sql, database: place[0], folder: place[1], user: place[2]))
                if Self.isWriting {
                    text.replace(
                        "```sql\n\(recipe.sql)```\n\n```text\n\(recipe.output)```",
                        with: "```sql\n\(recipe.sql)```\n\n```text\n\(printed)\n```")
                } else {
                    #expect(printed == Self.trimmed(recipe.output), "\(recipe.sql)")
                }
            }
        }

        if Self.isWriting { try text.write(to: article.file, atomically: false, encoding: .utf8) }
    }
}
