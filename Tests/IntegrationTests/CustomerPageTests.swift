import TestSupport
import Testing

@Suite("The ids of a customer are read page by page")
struct CustomerPageTests {
    private typealias Routes = CustomerRoutesTests

    @Test("the ids of a customer are listed page by page, each once")
    func pages() async throws {
        try await Routes.withCustomers { server in
            _ = try await Routes.put(
                server, "u-1", #"{"links":[{"originalTransactionId":"10"},{"appAccountToken":"aa"}]}"#)
            try await server.isFolded()

            func page(_ query: String) async throws -> HTTPAnswer {
                try await server.backend.get("/customers/u-1?\(Routes.here)&as=link\(query)")
            }
            let first = try await page("&limit=3")
            let cursor = try #require(first.json["cursor"] as? String)
            #expect(first.json["more"] as? Bool == true)
            #expect(first.json["appAccountTokens"] as? [String] == ["aa"])
            #expect(first.json["backendCustomerIds"] as? [String] == ["u-1"])
            #expect(first.json["subscriptions"] as? [String] == ["10"])
            #expect(
                try await page("&limit=3&after=\(cursor)").body == """
                    {"app":"com.example.magazine","environment":"production","customerId":"u-1","knownAs":"link",\
                    "backendCustomerIds":[],"appAccountTokens":[],"appTransactionIds":[],"subscriptions":["20"]}

                    """)
            #expect(try await page("&limit=4").json["more"] == nil)
            #expect(try await page("").json["cursor"] == nil)
        }
    }

    @Test("a cursor stays valid after the customer has lost its id")
    func lostId() async throws {
        try await Routes.withCustomers { server in
            _ = try await Routes.put(
                server, "u-1", #"{"links":[{"originalTransactionId":"10"},{"appAccountToken":"aa"}]}"#)
            try await server.isFolded()
            let path = "/customers/u-1?\(Routes.here)&as=link"
            let first = try await server.backend.get("\(path)&limit=1")
            let cursor = try #require(first.json["cursor"] as? String)

            _ = try await Routes.put(server, "u-1", #"{"links":[{"originalTransactionId":"10"}]}"#)
            try await server.isFolded()
            let next = try await server.backend.get("\(path)&after=\(cursor)")

            #expect(first.json["appAccountTokens"] as? [String] == ["aa"])
            #expect(try await server.backend.get(path).json["appAccountTokens"] as? [String] == [])
            #expect(next.json["backendCustomerIds"] as? [String] == ["u-1"])
            #expect(next.json["subscriptions"] as? [String] == ["10", "20"])
        }
    }

    @Test(
        "a page of ids that cannot be read is refused by its field",
        arguments: [
            ("limit=0", "limit"), ("limit=1001", "limit"), ("after=10", "after"),
            // A cursor of the change feed.
            ("after=YzIgMCAgcHJvZHVjdGlvbiBjb20uZXhhbXBsZS5tYWdhemluZQ", "after"),
        ])
    func badPages(_ query: String, _ field: String) async throws {
        try await Routes.withCustomers { server in
            let answer = try await server.backend.get("/customers/10?\(Routes.here)&\(query)")

            #expect(answer.status == 400)
            #expect(answer.json["field"] as? String == field)
        }
    }
}
