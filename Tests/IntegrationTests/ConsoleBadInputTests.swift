import Crypto
import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("The console shows bad input as text, and says when it cannot answer")
struct ConsoleBadInputTests {
    private static let stream = ConsolePageTests.stream
    /// Also a formula of a spreadsheet.
    private static let canary = "=1+1<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"

    /// An event in whose facts every text is a canary.
    private struct Planted: ProvenEvent {
        let stream = StreamKey(app: canary, environment: .production)
        let event: Event
        let evidence = Evidence(Array("{}".utf8))
        let bodyDigest = Array(SHA256.hash(data: Array("{}".utf8)))
        let chain: SigningChain? = nil

        init(_ number: Int, at instant: Instant) {
            let day: Int64 = 86_400_000
            var transaction = Transaction(transactionId: "\(canary)\(number)", originalTransactionId: canary)
            transaction.webOrderLineItemId = canary
            transaction.productId = canary
            transaction.subscriptionGroupIdentifier = canary
            transaction.purchaseDate = instant
            transaction.expiresDate = instant.advanced(byMilliseconds: 30 * day)
            transaction.inAppOwnershipType = canary
            transaction.promotionalOfferId = canary
            transaction.offerCodeRefName = canary
            transaction.appAccountToken = canary
            transaction.type = "Auto-Renewable Subscription"
            transaction.offerIdentifier = canary
            transaction.offerPeriod = canary
            transaction.storefront = canary
            transaction.storefrontId = canary
            transaction.transactionReason = canary
            transaction.price = 2990
            transaction.currency = canary
            transaction.appTransactionId = canary
            transaction.signedDate = instant
            if number == 1 { transaction.revocationDate = instant.advanced(byMilliseconds: day) }
            var renewal = RenewalInfo(originalTransactionId: canary)
            renewal.autoRenewStatus = true
            renewal.autoRenewProductId = canary
            renewal.productId = canary
            renewal.signedDate = instant
            event = Event(
                source: .appleV2, environment: .production, app: canary, type: canary, subtype: canary,
                kind: .other, dedupeKey: DedupeKey(bytes: Array(SHA256.hash(data: [UInt8(number)]))),
                occurredAt: instant, transactions: [transaction], renewals: [renewal],
                defects: [Defect(path: canary, problem: canary)])
        }
    }

    private static func append(_ events: [any ProvenEvent], to database: ConnectionConfiguration) async throws {
        let logger = LogRecorder().logger
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: pool, logger: logger)
        let running = Task { await appender.run() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for event in events {
                group.addTask {
                    _ = try await appender.append(PreparedEvent(event, receivedAt: TestBundle.now))
                }
            }
            try await group.waitForAll()
        }
        await appender.stop()
        await running.value
        await pool.close()
    }

    @Test("canaries in app, ids, products, storefronts, reasons and types are text in pages, pictures, links and CSV")
    func canaries() async throws {
        try await TestBundle.withServer { server in
            let start = TestBundle.now.advanced(byMilliseconds: -20 * 86_400_000)
            try await Self.append(
                (0..<3).map { Planted($0, at: start.advanced(byMilliseconds: Int64($0) * 1000)) }, to: server.database)
            try await server.isFolded()
            let owner = try await TestCluster.connect(server.database)
            _ = try await owner.query(
                Statement(
                    "skip",
                    """
                    insert into subledger.projector_skip (stream_id, position, reason, skipped_by)
                    values (1, 2, $1, $1)
                    """), [Parameter(Self.canary)], deadline: .now + .seconds(20))
            await owner.close()
            let (browser, cookie) = try await server.session(.admin)
            let id = try #require(Self.canary.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
            let here = "stream=production%3A\(id)"

            var marks = 0
            for path in [
                "?", "/events?", "/events/1?", "/events/2?", "/products?edit=\(id)", "/system?", "/search?q=\(id)",
                "/customers/\(id)?as=subscription", "/customers/\(id)?as=subscription&knownAt=2019-01-01",
                "/customers/\(id)?as=app_transaction", "/subscriptions/\(id)?",
                "/subscriptions/\(id)?knownAt=2019-01-01",
                "/figures/active?", "/figures/active?rows=yes", "/figures/mrr?", "/figures/mrr?rows=yes",
                "/figures/movements?rows=yes", "/figures/retention?",
                "/customers/\(id)?as=subscription&skip=\(id)&entitlement=\(id)",
            ] {
                let page = try await browser.get("/console\(path)&\(here)", cookie: cookie)
                #expect(page.status == 200 || page.status == 409 || page.status == 404, "\(path) \(page.status)")
                Self.expectInert(page.body, path)
                marks += page.body.matches(of: /aria-label="(Paid|Event|Bought|Why)[^"]*/).count
                for name in Set(page.body.matches(of: /csv=([a-z]+)/).map { String($0.1) }) {
                    let csv = try await browser.get("/console\(path)&\(here)&csv=\(name)", cookie: cookie)
                    #expect(csv.headers["content-type"] == "text/csv; charset=utf-8", "\(path) \(name)")
                    #expect(csv.firstFormula == nil, "\(path) \(name)")
                }
            }
            #expect(marks > 20)
            let customer = try await browser.get("/console/customers/\(id)?as=subscription&\(here)", cookie: cookie)
            #expect(customer.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
        }
    }

    private static func expectInert(_ html: String, _ path: String) {
        #expect(!html.contains("<img"), "\(path)")
        #expect(!html.contains("<script>"), "\(path)")
        #expect(!html.contains("'>"), "\(path)")
        // Every tag is closed before the next one begins, so no value ended an attribute.
        let tags = html.matches(of: /<[a-z\/!][^<>]*/).count
        #expect(tags == html.matches(of: />/).count, "\(path)")
    }

    @Test("while the database does not answer, pages are 503 with the time, and then they are back")
    func databaseAway() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let path = "/console/customers/10?as=subscription&\(Self.stream)"
            #expect(try await browser.get(path, cookie: cookie).status == 200)
            let other = try await TestCluster.connect(server.database.with(database: "postgres"))
            let name = try #require(try await server.sql("select current_database()::text").first)
            try await other.script(
                "alter database \(name) allow_connections false", deadline: .now + .seconds(20))
            _ = try await other.query(
                Statement("end_sessions", "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1"),
                [Parameter(name)], deadline: .now + .seconds(20))
            let away = try await browser.get(path, cookie: cookie)
            try await other.script("alter database \(name) allow_connections true", deadline: .now + .seconds(20))
            await other.close()

            #expect(away.status == 503)
            #expect(away.body.contains("At 2019-11-08 08:14:00 UTC"), "\(away.body)")
            #expect(away.body.contains("the store sends them again"))
            #expect(away.headers["retry-after"] != nil)
            #expect(!away.body.contains(name))
            _ = try await eventually("the page is back") {
                try await browser.get(path, cookie: cookie).status == 200 ? true : nil
            }
        }
    }

    @Test("every page of a stream whose projector stopped says so, with the event up to which it answers")
    func stopped() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let before = try await browser.get("/console/customers/10?as=subscription&\(Self.stream)", cookie: cookie)
            #expect(before.body.contains("up to date"))
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                "begin; select from subledger.checkpoint where stream_id = 1 for update", deadline: .now + .seconds(20))
            #expect(try await server.apple.post(try V1Body(number: 9).bytes).status == 200)
            _ = try await server.sql(
                """
                insert into subledger.projector_stall (stream_id, position, cause, since)
                values (1, 2, 'leader', '2019-11-08 08:10:00Z')
                on conflict (stream_id) do update set cause = 'leader' returning cause
                """)
            for path in [
                "", "/events", "/events/1", "/customers/10?as=subscription", "/subscriptions/10", "/products",
                "/figures/active", "/system",
            ] {
                let page = try await browser.get(
                    "/console\(path)\(path.contains("?") ? "&" : "?")\(Self.stream)", cookie: cookie)
                #expect(page.status == 200, "\(path)")
                #expect(page.body.contains("1 waiting"), "\(path)")
                #expect(page.body.contains("Answers are as of event 2"), "\(path)")
            }
            try await owner.script("rollback", deadline: .now + .seconds(20))
            await owner.close()
        }
    }
}

extension ConsoleBrowser.Page {
    /// The first field of a CSV that a spreadsheet would run; nil if there is none.
    fileprivate var firstFormula: String? {
        var isQuoted = false
        var isStart = true
        var rest = Substring(body)
        while let character = rest.first {
            defer { rest = rest.dropFirst() }
            if isStart, character != "\"" || isQuoted {
                if "=+-@\t\r".contains(character), !rest.dropFirst().prefix(1).allSatisfy(\.isNumber) {
                    return String(rest.prefix(40))
                }
                isStart = false
            }
            if character == "\"" {
                isQuoted.toggle()
            } else if !isQuoted, character == "," || character.isNewline {
                isStart = true
            }
        }
        return nil
    }
}
