import Foundation
import Postgres
import TestSupport
import Testing

/// Two app users buy with one Apple Account: the first one a subscription and a book, then the second one the same
/// subscription again and a video.
@Suite("App users of one Apple Account are separate customers")
struct SharedDeviceTests {
    private static let here = CustomerRoutesTests.here
    private static let first = "aaaaaaaa-0000-4000-8000-000000000001"
    private static let second = "bbbbbbbb-0000-4000-8000-000000000002"
    private static let june: Int64 = 1_560_000_000_000
    private static let october: Int64 = 1_570_000_000_000
    private static let december: Int64 = 1_576_000_000_000

    private static var body: V1Body {
        V1Body(
            type: "INITIAL_BUY",
            rows: [
                V1Body.Row(
                    "101", subscription: "101", product: "magazine", purchase: june, expires: october, account: first),
                V1Body.Row(
                    "201", subscription: "201", product: "book", purchase: june, expires: december, account: first),
                V1Body.Row(
                    "102", subscription: "101", product: "magazine", purchase: october, expires: december,
                    account: second),
                V1Body.Row(
                    "301", subscription: "301", product: "video", purchase: october, expires: december,
                    account: second),
            ], subscription: "301", autoRenew: true)
    }

    private static func withBoth(_ test: (TestBundle) async throws -> Void) async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try body.bytes)
            for (customer, token) in [("u-first", first), ("u-second", second)] {
                let links = #"{"links":[{"appAccountToken":"\#(token)"}]}"#
                #expect(try await CustomerRoutesTests.put(server, customer, links).status == 200)
            }
            try await server.isFolded()
            try await test(server)
        }
    }

    /// An id of one of the two, what it is, and the ids that only the other one is known by.
    struct Asked: Sendable, CustomTestStringConvertible {
        let id: String
        let kind: String
        let others: [String]

        var testDescription: String { "\(kind) \(id)" }
    }

    static let asked = [
        Asked(id: "u-first", kind: "link", others: ["u-second", second, "301"]),
        Asked(id: first, kind: "account", others: ["u-second", second, "301"]),
        Asked(id: "201", kind: "subscription", others: ["u-second", second, "301"]),
        Asked(id: "u-second", kind: "link", others: ["u-first", first, "201"]),
        Asked(id: second, kind: "account", others: ["u-first", first, "201"]),
        Asked(id: "301", kind: "subscription", others: ["u-first", first, "201"]),
        // Leads to its owner of the time.
        Asked(id: "101", kind: "subscription", others: ["u-first", first, "201"]),
    ]

    @Test("no answer about one of them has an id that only the other one is known by")
    func separate() async throws {
        try await Self.withBoth { server in
            for asked in Self.asked {
                let path = "/customers/\(asked.id)"
                let query = "?\(Self.here)&as=\(asked.kind)"
                let issues = #"{"issues":[{"id":"july","publishedAt":"2019-07-01T00:00:00Z"}]}"#
                let many = """
                    {"app":"com.example.magazine","customerIds":[{"id":"\(asked.id)","as":"\(asked.kind)"}]}
                    """
                let answers = [
                    try await server.backend.get(path + query),
                    try await server.backend.get(path + "/entitlements" + query),
                    try await server.backend.get(path + "/entitlements" + query + "&knownAt=2019-11-08T08:14:00Z"),
                    try await server.backend.get(path + "/history" + query),
                    try await server.backend.post(Array(issues.utf8), to: path + "/content" + query),
                    try await server.backend.post(Array(many.utf8), to: "/customers/entitlements"),
                ]

                for (number, answer) in answers.enumerated() {
                    #expect(answer.status == 200, "\(asked.testDescription), answer \(number): \(answer.body)")
                    for other in asked.others {
                        #expect(
                            !answer.body.contains("\"\(other)\""),
                            "\(asked.testDescription), answer \(number): \(answer.body)")
                    }
                }
            }
        }
    }

    @Test("the console's page of one of them has no account token of the other one, only its backend id")
    func pages() async throws {
        try await Self.withBoth { server in
            let (browser, cookie) = try await server.session()
            for (id, kind, own, others) in [
                ("u-first", "link", Self.first, [Self.second]), (Self.first, "account", "u-first", [Self.second]),
                ("u-second", "link", Self.second, [Self.first]), (Self.second, "account", "u-second", [Self.first]),
            ] {
                let page = try await browser.get(
                    "/console/customers/\(id)?as=\(kind)&stream=production%3Acom.example.magazine", cookie: cookie)

                #expect(page.status == 200, "\(kind) \(id)")
                #expect(page.body.contains(own), "\(kind) \(id)")
                // The subscription that both bought is on both pages.
                #expect(page.body.contains(">101</a>"), "\(kind) \(id)")
                for other in others { #expect(!page.body.contains(other), "\(kind) \(id): \(page.body)") }
            }
        }
    }

    @Test(
        "entitlements follow the ownership policy, in HTTP and in SQL",
        arguments: [
            ("latest-buyer", "book true, magazine false", "magazine true, video true"),
            ("first-buyer", "book true, magazine true", "video true"),
            ("shared", "book true, magazine true", "magazine true, video true"),
        ])
    func policies(_ policy: String, _ first: String, _ second: String) async throws {
        try await Self.withBoth { server in
            try await CustomerRoutesTests.script(
                server.database,
                "insert into subledger.app_ownership (app, policy) values ('com.example.magazine', '\(policy)')")
            let expected: [(id: String, kind: String, entitlements: String)] = [
                ("u-first", "link", first), (Self.first, "account", first), ("u-second", "link", second),
                (Self.second, "account", second),
            ]
            _ = try await eventually("the rows are those of \(policy)") {
                try await server.sql("select ownership from subledger.checkpoint") == ["\(policy) 10"] ? true : nil
            }

            for (id, kind, entitlements) in expected {
                let answer = try await server.backend.get("/customers/\(id)/entitlements?\(Self.here)&as=\(kind)")
                let list = try #require(answer.json["entitlements"] as? [[String: Any]], "\(answer.body)")
                let given = list.map { "\($0["entitlement"] ?? "") \($0["active"] as? Bool ?? false)" }
                #expect(given.joined(separator: ", ") == entitlements, "\(kind) \(id)")
            }
            let rows = try await server.sql(
                """
                select concat_ws(' ', customer, string_agg(entitlement || ' ' || active, ', ' order by entitlement))
                from subledger.entitlement_at('2019-11-08T08:14:00Z')
                where known_as in ('link', 'account')
                group by customer
                """)
            #expect(Set(rows) == Set(expected.map { "\($0.id) \($0.entitlements)" }))
        }
    }
}
