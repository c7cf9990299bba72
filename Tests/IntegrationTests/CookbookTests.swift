import Foundation
import Postgres
import Server
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("Query cookbook")
struct CookbookTests {
    /// A query of the cookbook, and the output below it in the article.
    struct Recipe {
        let sql: String
        let output: String
        /// Whether the output is another one each day: the query is about now.
        let isOfNow: Bool
    }

    /// Set SUBLEDGER_WRITE_COOKBOOK to replace the outputs in the article with the actual ones.
    private static var isWriting: Bool { ProcessInfo.processInfo.environment["SUBLEDGER_WRITE_COOKBOOK"] != nil }

    /// Every SQL block in the article, with the text block after it.
    static func recipes(in text: String) -> [Recipe] {
        text.matches(of: /(<!-- of now -->\n)?```sql\n([^`]*)```\n\n```text\n([^`]*)```/)
            .map { Recipe(sql: String($0.output.2), output: String($0.output.3), isOfNow: $0.output.1 != nil) }
    }

    /// The output of psql for the SQL, with the analyst role.
    private static func psql(_ sql: String, database: String, folder: String, user: String) throws -> String {
        let result = try Process.run(
            command: ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", user, "-d", database, "-f", "-"],
            environment: ProcessInfo.processInfo.environment.merging([
                "PGOPTIONS": "-c role=subledger_analyst -c default_transaction_read_only=on -c statement_timeout=60s",
                "PGPORT": "5432", "PGTZ": "UTC", "PAGER": "cat", "LC_ALL": "C.UTF-8",
            ]) { $1 }, input: Data(sql.utf8), joined: true, limit: 120)
        #expect(result.status == 0, "\(result.outputText)")
        return result.outputText
    }

    /// The names in the first line of an output.
    private static func columns(of output: String) -> [String] {
        output.prefix { $0 != "\n" }.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    /// Without whitespace at the ends of lines and newlines around the text.
    private static func trimmed(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.replacing(/\s+$/, with: "") }.joined(separator: "\n")
            .trimmingCharacters(in: .newlines)
    }

    /// A euro on every day of the runs; none for BRL.
    private static let rates = """
        insert into subledger.exchange_rate (currency, day, per_euro)
        select currency, day, per_euro
        from (values ('USD', 1.10), ('GBP', 0.85), ('JPY', 160)) as rate (currency, per_euro)
        cross join generate_series(date '2025-01-01', greatest(current_date, '2026-07-01'), interval '1 day') as day;
        insert into subledger.commission (store, kind, starts_on, percent, later_percent)
        values ('apple', 'subscription', '2016-09-01', 30, 15), ('apple', 'one_time', '2008-07-10', 30, 30);
        insert into subledger.tax_rate (country, starts_on, percent)
        values ('DEU', '2021-01-01', 19), ('AUT', '2020-01-01', 20);
        """

    @Test("each query returns the output in the article, over the simulated run that it names", .timeLimit(.minutes(5)))
    func answers() async throws {
        let articles = [try DocumentationArticle("QueryCookbook"), try DocumentationArticle("Money")]
        let simulation = try #require(AnalystLog.simulation(seed: 7, subscriptions: 280, format: .v2))

        try await SimulatedLog.with { log in
            try await log.script(Self.rates)
            try await log.append(try await AnalystLog.verified(simulation.deliveries))
            try await log.append(linksOf: simulation)
            try await AnalystLog.fold(log)
            for article in articles { try await Self.check(article, isOfNow: false, log) }
        }
    }

    @Test(
        "each query about now returns rows with the columns in the article, over a run of both stores until now",
        .timeLimit(.minutes(5)))
    func answersOfNow() async throws {
        let articles = [try DocumentationArticle("QueryCookbook"), try DocumentationArticle("Money")]
        let window = StoryWindow(until: SystemClock.now(), churn: 0.06)
        let stories: [Story] = [.renewals, .graceRecovered, .retryRecovered, .priceRiseAccepted]
        let simulation = try #require(
            AnalystLog.simulation(seed: 7, subscriptions: 40, format: .v2, stories: stories, window: window))
        var google = PlayStoryteller.Settings()
        google.seed = 7
        google.stories = [.renewals, .graceRecovered, .holdRecovered, .holdEnded]
        google.window = window
        google.packageName = "com.example.app.android"

        try await SimulatedLog.with { log in
            try await log.script(Self.rates)
            try await log.append(try await AnalystLog.verified(simulation.deliveries))
            _ = try await log.append(try AnalystLog.told(by: PlaySimulation(google, count: 12)).events)
            try await AnalystLog.fold(log)
            for article in articles { try await Self.check(article, isOfNow: true, log) }
        }
    }

    private static func check(_ article: DocumentationArticle, isOfNow: Bool, _ log: SimulatedLog) async throws {
        var text = article.text
        let all = recipes(in: text)
        #expect(all.count == article.blocks.count { $0.language == "sql" })
        let recipes = all.filter { $0.isOfNow == isOfNow }
        #expect(recipes.count >= (isOfNow ? 1 : 7))
        let place = try await log.lines(
            """
            select unnest(array[
              current_database(), trim('"' from current_setting('unix_socket_directories')), current_user
            ]::text[])
            """)
        for recipe in recipes {
            let printed = trimmed(try psql(recipe.sql, database: place[0], folder: place[1], user: place[2]))
            if isWriting {
                text.replace(
                    "```sql\n\(recipe.sql)```\n\n```text\n\(recipe.output)```",
                    with: "```sql\n\(recipe.sql)```\n\n```text\n\(printed)\n```")
            } else if isOfNow {
                #expect(columns(of: printed) == columns(of: recipe.output), "\(recipe.sql)")
                #expect(!printed.hasSuffix("(0 rows)"), "\(recipe.sql)")
            } else {
                #expect(printed == trimmed(recipe.output), "\(recipe.sql)")
            }
        }
        if isWriting { try text.write(to: article.file, atomically: false, encoding: .utf8) }
    }
}
