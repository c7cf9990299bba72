import Encoding
import Foundation
import Subscriptions
import TestSupport
import Testing

@testable import subledger

@Suite("Products by command: set, list, remove, import")
struct ProductCommandTests {
    @Test("the commands print their results and exit statuses beside a running server")
    func beside() async throws {
        let folder = TestFolder.path("product")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: [String], input: String? = nil) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                ["product"] + arguments + ["--data-folder", folder, "--log-level", "error"],
                input: input.map { Data($0.utf8) })
        }
        let server = try ServerProcess(dataFolder: folder)
        _ = try await server.ports()
        let app = ["--app", "com.example.magazine"]

        let season = try run(
            ["set", "season"] + app + ["--kind", "non-renewing", "--duration", "P3M", "--entitlement", "plus", "gold"])
        #expect(season.status == 0, "\(season.error)")
        #expect(season.output == "com.example.magazine, season: non-renewing P3M, grants gold, plus\n")
        let again = try run(
            ["set", "season"] + app + ["--kind", "consumable", "--entitlement", "a", "--entitlement", "b"])
        #expect(again.output == "com.example.magazine, season: consumable, grants a, b\n")
        let named = try run(["set", "season"] + app + ["--name", "Season pass"])
        #expect(named.output == "com.example.magazine, season (Season pass): grants season\n")
        #expect(try run(["list", "--json"]).output.contains(#""name":"Season pass""#))
        let bare = try run(["set", "season"] + app)
        #expect(bare.output == "com.example.magazine, season: grants season\n")

        let csv = """
            product_id,app,entitlements,kind,duration,name\r
            monthly,com.example.magazine,plus archive,,,A month of plus\r
            "coins, many",com.example.magazine,,consumable,,\r
            season,com.example.magazine,plus;archive,non-renewing,P3M,\r

            """
        let imported = try run(["import", "-"], input: csv)
        #expect(imported.status == 0, "\(imported.error)")
        #expect(imported.output == "products imported: 3\n")
        let broken = try run(["import", "-"], input: csv + "yearly,com.example.magazine,,yearly,,\r\n")
        #expect(broken.status == 65)
        #expect(
            broken.error
                == """
                -:5: kind must be one of auto-renewable, non-renewing, consumable, non-consumable, or absent

                """.replacing("-:5", with: "subledger: -:5"))
        let list = try run(["list"])
        #expect(
            list.output == """
                com.example.magazine, coins, many: consumable, grants coins, many
                com.example.magazine, monthly (A month of plus): grants archive, plus
                com.example.magazine, season: non-renewing P3M, grants archive, plus

                """)

        #expect(try run(["remove", "season"] + app).output == "com.example.magazine, season: removed\n")
        let gone = try run(["remove", "season"] + app)
        #expect(gone.status == 65)
        #expect(
            gone.error
                == "subledger: no settings for season of com.example.magazine: see `subledger product list`\n")
        let json = try run(["list", "--json"] + app)
        #expect(
            json.output == """
                {"app":"com.example.magazine","productId":"coins, many","kind":"consumable",\
                "entitlements":["coins, many"]}
                {"app":"com.example.magazine","productId":"monthly","name":"A month of plus",\
                "entitlements":["archive","plus"]}

                """)
        #expect(try run(["list", "--app", "com.example.none"]).output == "")
        server.signal(SIGTERM)
        try await server.hasEnded()
        #expect(try run(["list"] + app).output.split(separator: "\n").count == 2)
    }

    @Test("invalid arguments are reported as wrong usage before the database is contacted")
    func usage() throws {
        let app = ["--app", "a", "--database-url", "postgres://127.0.0.1:1/none"]

        for (arguments, says) in [
            (["set", "p"] + app + ["--kind", "weekly"], "kind must be"),
            (["set", "p"] + app + ["--kind", "non-renewing"], "duration must be set for a non-renewing product"),
            (["set", "p"] + app + ["--duration", "P1M"], "duration must be set for a non-renewing product"),
            (["set", ""] + app, "product id must not be empty"), (["set", "p"], "Missing expected argument '--app"),
        ] {
            let result = try ServerProcess.run(["product"] + arguments)
            #expect(result.status == 64, "\(arguments)")
            #expect(result.error.contains(says), "\(result.error)")
        }
        let missing = try ServerProcess.run(["product", "import", "/nowhere.csv"])
        #expect(missing.status == 65)
        #expect(missing.error == "subledger: /nowhere.csv: cannot read file\n")
        let away = try ServerProcess.run([
            "product", "list", "--database-url", "postgres://canary:hush@127.0.0.1:1/none",
        ])
        #expect(away.status == 69)
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        let text: String
        let line: Int
        let says: String

        var testDescription: String { says }
    }

    static let bad = [
        Bad(
            text: "", line: 1,
            says: "missing header line: expected app,product_id,kind,duration,level,entitlements,name"),
        Bad(text: "app\n", line: 1, says: "missing column \"product_id\""),
        Bad(text: "app,product_id,app\n", line: 1, says: "duplicate column \"app\""),
        Bad(
            text: "app,product_id,price\n", line: 1,
            says: "unknown column \"price\": expected app, product_id, kind, duration, level, entitlements, name"),
        Bad(text: "app,product_id\na,p\nb\n", line: 3, says: "1 fields: expected 2, as in the header"),
        Bad(text: "app,product_id\na,p,q\n", line: 2, says: "3 fields: expected 2, as in the header"),
        Bad(text: "app,product_id\n\n\na,\n", line: 4, says: "product id must not be empty"),
        Bad(text: "app,product_id\na,p\n\na,q\na,p\n", line: 5, says: "duplicate product p of a, first on line 2"),
        Bad(text: "app,product_id\na,\"p\n", line: 2, says: "unterminated quoted field"),
        Bad(text: "app,product_id\na,p\"q\n", line: 2, says: "quote inside an unquoted field"),
        Bad(
            text: "app,product_id\na,\"p\"q\n", line: 2,
            says: "text after a closing quote: expected a comma or line end"),
        Bad(text: "app,product_id\n\"a\nb\",p\n", line: 2, says: "app must not contain control characters"),
        Bad(
            text: "app,product_id,duration\na,p,\n\"b\",q,P1M\n", line: 3,
            says: "duration must be set for a non-renewing product, and only for one"),
    ]

    @Test("an invalid line of a file is reported with its number", arguments: bad)
    func badLine(_ bad: Bad) throws {
        let error = #expect(throws: CSVRecords.Malformed.self) {
            try ProductFile.products(CSVRecords.read(Array(bad.text.utf8)))
        }

        #expect(error?.line == bad.line)
        #expect(error?.problem == bad.says)
    }

    @Test("quotes, line ends and a byte order mark are read as in RFC 4180 and spreadsheet exports")
    func quoting() throws {
        let text = "\u{FEFF}\"app\",product_id,entitlements\r\n\r\na,\"say \"\"hi\"\", twice\",\" x ; y  z;\"\nb,p,"

        let products = try ProductFile.products(CSVRecords.read(Array(text.utf8)))

        #expect(products.map(\.app) == ["a", "b"])
        #expect(products.map(\.productId) == ["say \"hi\", twice", "p"])
        #expect(products.map(\.entitlements) == [["x", "y", "z"], []])
        #expect(products[1].givenEntitlements == ["p"])
        #expect(throws: CSVRecords.Malformed.self) {
            try ProductFile.products(CSVRecords.read([0x61, 0x70, 0x70, 0x2C, 0xFF]))
        }
    }

    @Test("fold accepts the same file, so that a non-renewing product ends without a database too")
    func fold() throws {
        let file = TestFolder.path("products") + ".csv"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try Data("app,product_id,kind,duration\n\(V1Body.app),season,non-renewing,P3M\n".utf8)
            .write(to: URL(fileURLWithPath: file))
        let body = try V1Body(
            type: "INITIAL_BUY",
            rows: [
                V1Body.Row(
                    "77", subscription: "77", product: "season", purchase: ExampleBodies.ms("2019-10-01"), expires: nil)
            ], subscription: "77", autoRenew: true
        ).bytes

        let without = try ServerProcess.run(["fold", "-", "--at", "2021-01-01"], input: Data(body))
        let with = try ServerProcess.run(["fold", "-", "--at", "2021-01-01", "--products", file], input: Data(body))

        #expect(without.output.contains("\"status\":\"owned\""))
        #expect(with.output.contains("\"status\":\"expired\""))
        #expect(with.output.contains("\"end\":\"2020-01-01T00:00:00.000Z\""), "\(with.output)\(with.error)")
    }
}
