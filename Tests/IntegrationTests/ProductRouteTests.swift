import Foundation
import TestSupport
import Testing

@Suite("Product routes")
struct ProductRouteTests {
    private static let path = "/products/com.example.season?app=com.example.magazine"

    @Test("PUT replaces all properties of a product, and GET returns them")
    func state() async throws {
        try await TestBundle.withServer { server in
            let first = try await server.owner.put(
                #"{"kind":"non-renewing","duration":"P3M","name":"Season","entitlements":["plus","archive","plus"]}"#,
                to: Self.path)
            #expect(first.status == 200)
            #expect(
                first.body == """
                    {"app":"com.example.magazine","productId":"com.example.season","kind":"non-renewing",\
                    "duration":"P3M","name":"Season","entitlements":["archive","plus"]}

                    """)
            let list = try await server.backend.get("/products?app=com.example.magazine")
            #expect(
                list.body == """
                    {"app":"com.example.magazine","products":[{"productId":"com.example.season",\
                    "kind":"non-renewing","duration":"P3M","name":"Season","entitlements":["archive","plus"]}]}

                    """)

            let second = try await server.owner.put("{\"kind\":null}", to: Self.path)
            let again = try await server.owner.put("{\"kind\":null}", to: Self.path)

            #expect(second.json["kind"] == nil && second.json["name"] == nil)
            #expect(second.json["entitlements"] as? [String] == ["com.example.season"])
            #expect(again.body == second.body)
            #expect(try await server.sql("select entitlement from subledger.product_entitlement") == [])
            let other = try await server.backend.get("/products?app=com.example.other")
            #expect(other.body == "{\"app\":\"com.example.other\",\"products\":[]}\n")
        }
    }

    @Test("a plan's level is set, listed and cleared")
    func level() async throws {
        try await TestBundle.withServer { server in
            let levels: StaticString = "select coalesce(level::text, 'none') from subledger.product"
            let set = try await server.owner.put(#"{"kind":"auto-renewable","level":1000}"#, to: Self.path)
            let list = try await server.backend.get("/products?app=com.example.magazine")
            let stored = try await server.sql(levels)
            let cleared = try await server.owner.put(#"{"kind":"auto-renewable","level":null}"#, to: Self.path)

            #expect(set.status == 200 && set.json["level"] as? Int == 1000)
            #expect((list.json["products"] as? [[String: Any]])?.first?["level"] as? Int == 1000, "\(list.body)")
            #expect(stored == ["1000"])
            #expect(cleared.status == 200 && cleared.json["level"] == nil)
            #expect(try await server.sql(levels) == ["none"])
        }
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        let body: String
        var path = ProductRouteTests.path
        let says: String

        var testDescription: String { says }
    }

    static let bad = [
        Bad(body: "", says: "the body must be a JSON object"),
        Bad(body: "[]", says: "the body must be a JSON object"),
        Bad(body: "{\"kynd\":\"consumable\"}", says: "unknown member \"kynd\""),
        Bad(
            body: "{\"kind\":\"x\"}",
            says: "kind must be one of auto-renewable, non-renewing, consumable, non-consumable, or absent"),
        Bad(body: "{\"kind\":1}", says: "kind must be a string"),
        Bad(body: "{\"name\":\"\"}", says: "name must not be empty"),
        Bad(body: "{\"name\":\"a\\tb\"}", says: "name must not contain control characters"),
        Bad(
            body: "{\"kind\":\"non-renewing\"}",
            says: "duration must be set for a non-renewing product, and only for one"),
        Bad(
            body: "{\"kind\":\"consumable\",\"duration\":\"P1M\"}",
            says: "duration must be set for a non-renewing product, and only for one"),
        Bad(
            body: "{\"kind\":\"non-renewing\",\"duration\":\"3 months\"}",
            says: "duration must be an ISO 8601 duration of years, months, weeks and days, such as P1Y10D"),
        Bad(
            body: "{\"kind\":\"non-renewing\",\"duration\":\"P٣M1D\"}",
            says: "duration must be an ISO 8601 duration of years, months, weeks and days, such as P1Y10D"),
        Bad(body: "{\"level\":\"2\"}", says: "level must be an integer"),
        Bad(body: "{\"level\":1.5}", says: "level must be an integer"),
        Bad(body: "{\"level\":0}", says: "level must be an integer from 1 to 1000"),
        Bad(body: "{\"level\":1001}", says: "level must be an integer from 1 to 1000"),
        Bad(
            body: "{\"kind\":\"consumable\",\"level\":1}", says: "level must be absent unless the product renews"),
        Bad(body: "{\"entitlements\":\"plus\"}", says: "entitlements must be an array of strings"),
        Bad(body: "{\"entitlements\":[\"plus\",1]}", says: "entitlements must be an array of strings"),
        Bad(body: "{\"entitlements\":[\"\"]}", says: "entitlement must not be empty"),
        Bad(body: "{\"entitlements\":[\"a\\u0000b\"]}", says: "entitlement must not contain control characters"),
        Bad(body: "{}", path: "/products/p?app=", says: "app must not be empty"),
        Bad(body: "{}", path: "/products/p%0Aq?app=a", says: "product id must not contain control characters"),
        Bad(
            body: "{}", path: "/products/" + String(repeating: "p", count: 256) + "?app=a",
            says: "product id must not be longer than 255 bytes"),
    ]

    @Test("an invalid product is rejected with its reason and stores nothing")
    func refused() async throws {
        try await TestBundle.withServer { server in
            for bad in Self.bad {
                let answer = try await server.owner.put(bad.body, to: bad.path)

                #expect(answer.status == 400, "\(bad.says)")
                #expect(answer.json["detail"] as? String == bad.says)
            }
            #expect(try await server.backend.get("/products").status == 400)
            #expect(try await server.sql("select product_id from subledger.product") == [])
            #expect(try await server.apple.put("{}", to: Self.path).status == 404)
        }
    }
}
