import TestSupport
import Testing

@Suite("A request says what its customer id is")
struct CustomerKindTests {
    private typealias Routes = CustomerRoutesTests

    @Test("an id that different customers have needs its kind, on every route")
    func kinds() async throws {
        try await Routes.withCustomers { server in
            let linked = try await Routes.put(server, "30", #"{"links":[{"originalTransactionId":"10"}]}"#)
            try #require(linked.status == 200, "\(linked.body)")
            try await server.isFolded()

            func ask(_ route: String, _ query: String) async throws -> HTTPAnswer {
                let path = "/customers/30\(route)?\(Routes.here)\(query)"
                guard route == "/content" else { return try await server.backend.get(path) }
                let issues = #"{"issues":[{"id":"june","publishedAt":"2019-06-20T00:00:00Z"}]}"#
                return try await server.backend.post(Array(issues.utf8), to: path)
            }
            let known = "&knownAt=2019-11-08T08:15:00Z"
            for (route, more) in [("", ""), ("/entitlements", ""), ("/entitlements", known), ("/content", "")] {
                let ambiguous = try await ask(route, more)
                #expect(ambiguous.status == 409, "\(ambiguous.body)")
                #expect(ambiguous.json["field"] as? String == "as")
                #expect(
                    ambiguous.json["detail"] as? String
                        == "different customers have this id: choose one with ?as= (link, subscription)")
                for kind in ["link", "subscription"] {
                    let answer = try await ask(route, "\(more)&as=\(kind)")
                    #expect(answer.status == 200, "\(answer.body)")
                    #expect(answer.json["knownAs"] as? String == kind)
                }
                #expect(try await ask(route, "\(more)&as=account").status == 404)
                let wrong = try await ask(route, "\(more)&as=user")
                #expect(wrong.status == 400)
                #expect(wrong.json["field"] as? String == "as")
                #expect(
                    wrong.json["detail"] as? String
                        == "as must be one of link, account, app_transaction, subscription")
            }
            #expect(try await ask("", "&as=link").json["subscriptions"] as? [String] == ["10", "20"])
            #expect(try await ask("", "&as=subscription").json["subscriptions"] as? [String] == ["30"])
            let own = try await ask("/entitlements", "&as=subscription")
            #expect(!own.body.contains("com.example.books"))
        }
    }

    @Test("an id of several kinds that identify the same customer needs no kind")
    func kindsOfOneCustomer() async throws {
        try await Routes.withCustomers { server in
            let linked = try await Routes.put(server, "30", #"{"links":[{"originalTransactionId":"30"}]}"#)
            try #require(linked.status == 200, "\(linked.body)")
            try await server.isFolded()

            let answer = try await server.backend.get("/customers/30?\(Routes.here)")
            #expect(answer.status == 200)
            #expect(answer.json["knownAs"] as? String == "link")
            #expect(answer.json["subscriptions"] as? [String] == ["30"])
        }
    }

    @Test("many at once: each element can say what its id is, and an ambiguous one does not fail the others")
    func manyKinds() async throws {
        try await Routes.withCustomers { server in
            let linked = try await Routes.put(server, "30", #"{"links":[{"originalTransactionId":"10"}]}"#)
            try #require(linked.status == 200, "\(linked.body)")
            try await server.isFolded()

            let body = """
                {"app":"com.example.magazine","customerIds":["30",{"id":"30","as":"link"},{"id":"30","as":"subscription"},
                {"id":"20"},{"id":"20","as":"account"}]}
                """
            let answer = try await server.backend.post(Array(body.utf8), to: "/customers/entitlements")
            let customers = try #require(answer.json["customers"] as? [[String: Any]])
            #expect(customers.map { $0["customerId"] as? String } == ["30", "30", "30", "20", "20"])
            #expect(customers.map { $0["knownAs"] as? String } == [nil, "link", "subscription", "subscription", nil])
            #expect(customers[0]["ambiguous"] as? [String] == ["link", "subscription"])
            #expect(customers.map { $0["unknown"] as? Bool } == [nil, nil, nil, nil, true])
            #expect(
                customers.map { ($0["entitlements"] as? [Any])?.count } == [nil, 2, 1, 2, nil], "\(answer.body)")
        }
    }

    @Test(
        "an element without an id, or with an unknown kind, is refused by its place",
        arguments: [
            ("7", "customerIds[1]", "customerIds[1] must be a string, or an object with id and as"),
            (#"{"as":"link"}"#, "customerIds[1].id", "customerIds[1].id must be a string"),
            (#"{"id":"","as":"link"}"#, "customerIds[1].id", "customerIds[1].id must not be empty"),
            (
                #"{"id":"10","as":"user"}"#, "customerIds[1].as",
                "customerIds[1].as must be one of link, account, app_transaction, subscription"
            ),
            (
                #"{"id":"10","as":null}"#, "customerIds[1].as",
                "customerIds[1].as must be one of link, account, app_transaction, subscription"
            ),
        ])
    func badElements(_ element: String, _ field: String, _ problem: String) async throws {
        try await TestBundle.withServer { server in
            let body = #"{"app":"com.example.magazine","customerIds":["10",\#(element)]}"#
            let answer = try await server.backend.post(Array(body.utf8), to: "/customers/entitlements")

            #expect(answer.status == 400)
            #expect(answer.json["field"] as? String == field)
            #expect(answer.json["detail"] as? String == problem)
        }
    }

    @Test("links belong to the backend's own id, whatever else the id could be")
    func kindOfLinks() async throws {
        try await Routes.withCustomers { server in
            let links = #"{"links":[{"originalTransactionId":"10"}]}"#
            let refused = try await server.owner.put(links, to: "/customers/30/links?\(Routes.here)&as=subscription")
            let stored = try await server.owner.put(links, to: "/customers/30/links?\(Routes.here)&as=link")

            #expect(refused.status == 400)
            #expect(refused.json["field"] as? String == "as")
            #expect(refused.json["detail"] as? String == "as must be link: only the backend's own ids have links")
            #expect(stored.body == "{\"position\":3,\"duplicate\":false}\n")
        }
    }
}
