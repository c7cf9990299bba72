import Encoding
import EventLog
import Foundation
import Postgres
import Readers
import TestSupport
import Testing

@testable import HTTPServer

@Suite("The console compares access before reads are switched")
struct ConsoleCompareTests {
    private static let stream = "production:com.example.magazine"
    private static let path = "/console/compare"

    /// Customer 10 has com.example.books until 10 December 2019, and had com.example.magazine.monthly.
    private static let text = """
        customerId,entitlement,active,until
        10,com.example.magazine.monthly,true,never
        nobody,com.example.books,true,
        nobody,com.example.magazine.monthly,false,

        """

    private static func with(
        _ test: (TestBundle, ConsoleBrowser, String, [(String, String)]) async throws -> Void
    ) async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get(
                "\(path)?stream=production%3Acom.example.magazine", cookie: cookie)
            #expect(page.status == 200 && page.body.contains(#"enctype="multipart/form-data""#), "\(page.body)")
            try await test(
                server, browser, cookie, [("csrf", try #require(page.field("csrf"))), ("stream", stream)])
        }
    }

    @Test("a pasted text and a file have the same answer: who gains, who loses, why, with links")
    func answer() async throws {
        try await Self.with { _, browser, cookie, fields in
            let pasted = try await browser.post(Self.path, fields + [("text", Self.text)], cookie: cookie)
            let uploaded = try await browser.upload(
                Self.path, fields + [("text", "not this one"), ("tolerance", "1")],
                file: ("file", "access.csv", Array(Self.text.replacing("\n", with: "\r\n").utf8)), cookie: cookie)

            for page in [pasted, uploaded] {
                #expect(page.status == 200, "\(page.body)")
                #expect(page.body.contains("<dt>Would gain access</dt><dd>1</dd>"), "\(page.body)")
                #expect(page.body.contains("<dt>Would lose access</dt><dd>2</dd>"))
                #expect(page.body.contains("<td>would lose access</td><td>unknown customer</td>"), "\(page.body)")
                #expect(page.body.contains("<td>not in the file</td><td>access until 2019-12-10 17:46:40</td>"))
                #expect(page.body.contains("No purchase of this customer is known."))
                #expect(page.body.contains("com.example.magazine.monthly is not active"))
                #expect(page.body.contains(#"<a href="/console/customers/10?stream=production%3Acom.example.magazine"#))
                #expect(!page.body.contains(#"href="/console/customers/nobody"#))
                #expect(!page.body.contains("csv="))
            }
        }
    }

    @Test("the page counts as the command does")
    func command() async throws {
        try await Self.with { server, browser, cookie, fields in
            let at = "2019-09-01T00:00:00Z"
            let page = try await browser.post(
                Self.path, fields + [("text", Self.text), ("at", "2019-09-01 00:00")], cookie: cookie)
            let url = try await ReleaseDump.url(server.database)
            let result = try ServerProcess.run(
                ["compare-access", "-", "--at", at],
                environment: ["SUBLEDGER_DATABASE_URL": url],
                input: Data(Self.text.utf8))

            // Active then, for ever there.
            #expect(result.output.contains(#""difference":"earlier""#), "\(result.output) \(result.error)")
            #expect(result.output.contains(#""gains":0,"loses":1,"later":0,"earlier":1"#))
            #expect(page.body.contains("<dt>Would end earlier</dt><dd>1</dd>"), "\(page.body)")
            #expect(page.body.contains("<dt>Would lose access</dt><dd>1</dd>"))
            #expect(page.body.contains("at=2019-09-01T00%3A00%3A00.000Z"))
        }
    }

    @Test("what cannot be compared is said, with the line")
    func refused() async throws {
        try await Self.with { _, browser, cookie, fields in
            for (text, problem) in [
                ("", "Choose a file, or paste its text."),
                ("customerId,entitlement\nu-1,plus\n", "Line 1: missing column &quot;active&quot;."),
                ("customerId,entitlement,active\nu-1,plus,yes\n", "Line 2: active must be true or false."),
                ("customerId,entitlement,active\nu-1,\"plus\n", "Line 2: unterminated quoted field."),
                (
                    "customerId,entitlement,active\nu-1,a,true\nu-2,a,true\nu-1,b,true\n",
                    "Line 4: the rows of a customer must follow each other: sort it."
                ),
            ] {
                let page = try await browser.post(Self.path, fields + [("text", text)], cookie: cookie)
                #expect(page.status == 400 && page.body.contains(problem), "\(page.body)")
            }
            for (content, problem) in [
                ([0x50, 0x4B, 0x03, 0x04], "The file is a ZIP archive: unpack it first."),
                (Array("customerId,entitlement,active\n\u{FF}".utf8.dropLast()) + [0xFF], "is not valid UTF-8"),
            ] as [([UInt8], String)] {
                let page = try await browser.upload(
                    Self.path, fields, file: ("file", "a;b\".csv", content), cookie: cookie)
                #expect(page.status == 400 && page.body.contains(problem), "\(page.body)")
            }
            let large = try await browser.upload(
                Self.path, fields, file: ("file", "large.csv", [UInt8](repeating: 10, count: 3 << 20)),
                cookie: cookie)
            let forged = try await browser.post(
                Self.path, [("csrf", "x"), ("stream", Self.stream), ("text", Self.text)], cookie: cookie)

            #expect(large.status == 413, "\(large.body)")
            #expect(forged.status == 403)
        }
    }

    @Test("as many comparisons as there may be at once are made, and one more is answered 503")
    func atOnce() async throws {
        try await Self.with { server, browser, cookie, fields in
            let blocking = try await TestCluster.connect(server.database)
            // The comparisons wait for this, and not the other requests of the console.
            try await blocking.script(
                "begin; lock table subledger.customer_identity in access exclusive mode", deadline: .now + .seconds(20))
            var pages: [ConsoleBrowser.Page] = []
            try await withThrowingTaskGroup(of: ConsoleBrowser.Page.self) { group in
                for _ in 0...HTTPServer.Limits.consoleComparisonsMax {
                    group.addTask {
                        try await browser.post(Self.path, fields + [("text", Self.text)], cookie: cookie)
                    }
                }
                for try await page in group {
                    if pages.isEmpty { try await blocking.script("rollback", deadline: .now + .seconds(20)) }
                    pages.append(page)
                }
            }
            await blocking.close()

            #expect(
                pages.map(\.status) == [503] + Array(repeating: 200, count: HTTPServer.Limits.consoleComparisonsMax))
            #expect(pages[0].body.contains("2 comparisons are being made"), "\(pages[0].body)")
            #expect(pages[0].headers["retry-after"] != nil)
        }
    }

    @Test("no customer is looked at after the deadline, and what was compared before is counted")
    func late() async throws {
        try await Self.with { server, _, _, _ in
            let pool = PostgresPool(
                server.database.with(role: "subledger_reader"), limit: 1, logger: server.logs.logger)
            func compare(_ deadline: ContinuousClock.Instant) async throws -> Int {
                var comparison = AccessComparison(
                    CustomerReader(pool: pool), app: "com.example.magazine", environment: .production,
                    at: TestBundle.now, tolerance: .seconds(1), explainedMax: 10, deadline: deadline)
                var file = try AccessFile(TextRecords(text: Array(Self.text.utf8)))
                while try await comparison.next(of: &file) != nil {}
                return comparison.summary.customers
            }
            let all = try await compare(.now + .seconds(600))
            await #expect(throws: AccessComparison.Late.self) { try await compare(.now) }
            await pool.close()

            #expect(all == 2)
        }
    }

    @Test(
        "forms with files are read to the last byte, and incomplete ones are not",
        arguments: [
            ("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", ["a=1"]),
            ("--b--", []),
            (
                "--b\r\ncontent-disposition: form-data; name=\"a\"; filename=\"\"\r\nContent-Type: x/y\r\n\r\n\r\n--b--",
                ["a:"]
            ),
            (
                "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--bx\r\n--b\r\n"
                    + "Content-Disposition: form-data; name=c\r\n\r\n--b\r\n--b--",
                nil
            ),
            ("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n-b--", nil),
            ("--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", nil),
            ("--b\r\n", nil), ("", nil), ("x", nil),
            (
                String(repeating: "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n", count: 40) + "--b--",
                nil
            ),
        ] as [(String, [String]?)])
    func parts(body: String, expected: [String]?) {
        let parts = MultipartForm.parse(Array(body.utf8), boundary: "b")

        #expect(
            parts?.map { "\($0.name)\($0.isFile ? ":" : "=")\(String(decoding: $0.content, as: UTF8.self))" }
                == expected)
    }

    @Test(
        "the boundary is that of the type",
        arguments: [
            ("multipart/form-data; boundary=abc", "abc"), ("Multipart/Form-Data;boundary=\"a b\"; x=y", "a b"),
            ("application/x-www-form-urlencoded", nil), ("multipart/form-data", nil),
            ("multipart/form-data; boundary=", nil), ("multipart/mixed; boundary=a", nil),
        ] as [(String, String?)])
    func boundary(type: String, expected: String?) {
        #expect(MultipartForm.boundary(type) == expected)
    }
}
