import Crypto
import Encoding
import EventLog
import Foundation
import Subscriptions
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

@Suite("Signed answers about entitlements")
struct SignedEntitlementsTests {
    /// 2025-09-20T00:00:00Z.
    private static let issued = Instant(milliseconds: 1_758_326_400_000) ?? .earliest
    private static let day: Int64 = 86_400_000

    private static func answer(_ ends: [Instant], issued: Instant = issued) -> SignedEntitlements {
        SignedEntitlements(
            customerId: "u-1", app: "com.example.magazine", environment: .production, knownAs: .link,
            entitlements: ends.enumerated().map { number, end in
                Entitlement(
                    entitlement: "e\(number)", until: end, productIds: ["p"], subscriptions: ["1"], positions: [1])
            }, position: 38, issued: issued)
    }

    @Test("an answer is valid until its latest end, for a week at most, and for an hour without entitlements")
    func validity() {
        let (issued, day) = (Self.issued, Self.day)
        func validFor(_ ends: Instant...) -> Int64 { Self.answer(ends).validUntil.milliseconds - issued.milliseconds }

        #expect(validFor(issued.advanced(byMilliseconds: day), issued.advanced(byMilliseconds: 2 * day)) == 2 * day)
        #expect(validFor(issued.advanced(byMilliseconds: 7 * day + 1)) == 7 * day)
        #expect(validFor(issued.advanced(byMilliseconds: 1), .latest) == 7 * day)
        #expect(validFor(issued.advanced(byMilliseconds: 1)) == 1)
        #expect(validFor() == 3_600_000)
        #expect(validFor(issued, issued.advanced(byMilliseconds: -1)) == 3_600_000)
    }

    @Test("the claims contain what is active, with its ends; exp is rounded up to a second")
    func claims() throws {
        let ends = [Self.issued.advanced(byMilliseconds: 1001), Self.issued, .latest]

        let text = try Self.answer(ends).text(HeadKey())
        let short = try Self.answer([ends[0]]).text(HeadKey())

        #expect(
            try Self.claims(text) == """
                {"sub":"u-1","aud":"com.example.magazine","environment":"production","knownAs":"link","position":38,\
                "iat":1758326400,"exp":1758931200,"entitlements":[\
                {"entitlement":"e0","until":"2025-09-20T00:00:01.001Z"},{"entitlement":"e2","until":null}]}
                """)
        #expect(try Self.claims(short).contains(#""exp":1758326402,"#))
    }

    private static func claims(_ text: String) throws -> String {
        let part = try #require(text.split(separator: ".").dropFirst().first)
        return String(decoding: try #require(Base64.decode(Array(part.utf8)[...], .url)), as: UTF8.self)
    }

    @Test("the tag of a signed answer changes daily, and every ten minutes without entitlements")
    func tags() {
        let key = HeadKey()
        func tag(_ ends: [Instant], after milliseconds: Int64) -> String {
            Self.answer(ends, issued: Self.issued.advanced(byMilliseconds: milliseconds)).tagText(key)
        }
        let end = Self.issued.advanced(byMilliseconds: 30 * Self.day)

        #expect(tag([end], after: 0) == tag([end], after: Self.day - 1))
        #expect(tag([end], after: 0) != tag([end], after: Self.day))
        #expect(tag([], after: 0) == tag([], after: 599_999))
        #expect(tag([], after: 0) != tag([], after: 600_000))
        #expect(tag([end], after: 0) != Self.answer([end]).tagText(HeadKey()))
    }

    @Test(
        "a request accepts the signed form only by its name",
        arguments: [
            ("application/jwt", true), ("text/html, Application/JWT; q=0.5", true), ("application/jwt;q=0", false),
            ("application/jwt; q=0.000", false), ("*/*", false), ("application/*", false), ("application/jwt2", false),
            ("", false),
        ])
    func accepting(_ header: String, isAccepted: Bool) {
        #expect(SignedEntitlements.accepts(header) == isAccepted)
    }

    @Test("a tag is found among others, strong or weak")
    func tagLists() {
        let tag = EntityTag(of: [1])
        let plain = String(tag.text.dropFirst(2))

        for value in [tag.text, plain, "\"a\", \(tag.text)", "W/\"a\",\(plain) , \"b\"", "*"] {
            #expect(tag.isContained(in: value), "\(value)")
        }
        for value in ["", "\"a\"", String(plain.dropLast()), EntityTag(of: [2]).text] {
            #expect(!tag.isContained(in: value), "\(value)")
        }
    }

    @Test(
        "the server signs with the key of its key set, answers 304 to a known tag, and has another one when access ends"
    )
    func server() async throws {
        // The clock stands a millisecond before access ends, and then at the end.
        let end = Instant(milliseconds: 1_576_000_000_000) ?? .latest
        let clock = Mutex(end.advanced(byMilliseconds: -1))
        try await TestBundle.withServer(now: { clock.withLock { $0 } }) { server in
            _ = try await server.apple.post(
                try V1Body(
                    type: "INITIAL_BUY",
                    rows: [
                        V1Body.Row("30", subscription: "30", purchase: 1_570_000_000_000, expires: end.milliseconds)
                    ],
                    subscription: "30", autoRenew: true
                ).bytes)
            try await server.isFolded()
            let path = "/customers/30/entitlements?\(CustomerRoutesTests.here)"
            func get(_ path: String, _ headers: [String: String] = [:]) async throws -> HTTPAnswer {
                try await server.backend.send("GET", path, headers: headers)
            }

            let plain = try await get(path)
            let signed = try await get(path, ["Accept": "application/jwt"])
            let asked = try await get("\(path)&signed=true")
            let tags = try [plain, signed].map { try #require($0.headers["etag"]) }
            let known = try await get(path, ["If-None-Match": tags[0]])
            let knownSigned = try await get("\(path)&signed=true", ["If-None-Match": "\"x\", \(tags[1])"])
            let keys = try await HTTPClient(port: server.backend.port).get("/.well-known/jwks.json")
            let refused = [
                try await get("\(path)&signed=yes"), try await get("\(path)&signed=true&at=2019-11-08T08:14:00Z"),
                try await get("/customers/30/entitlements?signed=true"),
            ]
            clock.withLock { $0 = end }
            let ended = try await get(path, ["If-None-Match": tags[0]])
            let endedSigned = try await get("\(path)&signed=true", ["If-None-Match": tags[1]])

            #expect(signed.headers["content-type"] == "application/jwt")
            #expect(tags[0] != tags[1])
            #expect(asked.body == signed.body)
            #expect(
                try Self.claims(signed.body) == """
                    {"sub":"30","aud":"com.example.magazine","environment":"production","knownAs":"subscription",\
                    "position":1,"iat":1575999999,"exp":1576000000,"entitlements":[\
                    {"entitlement":"com.example.magazine.monthly","until":"2019-12-10T17:46:40.000Z"}]}
                    """)
            let key = try #require((keys.json["keys"] as? [[String: String]])?.first)
            let text = try #require(key["x"])
            let x = try #require(Base64.decode(Array(text.utf8)[...], .url))
            #expect(x == TestBundle.headKey.publicKey.bytes)
            let parts = signed.body.split(separator: ".").map { Array($0.utf8)[...] }
            let signature = try #require(Base64.decode(parts[2], .url))
            let publicKey = try Curve25519.Signing.PublicKey(rawRepresentation: x)
            #expect(publicKey.isValidSignature(signature, for: parts[0] + [UInt8(ascii: ".")] + parts[1]))
            #expect((known.status, known.body) == (304, ""))
            #expect((knownSigned.status, knownSigned.body) == (304, ""))
            #expect(knownSigned.headers["etag"] == tags[1])
            #expect(refused.map(\.status) == [400, 400, 400])
            #expect(refused.map { $0.json["field"] as? String } == ["signed", "at", "app"])
            #expect((ended.status, endedSigned.status) == (200, 200))
            #expect(try Self.claims(endedSigned.body).hasSuffix(#""exp":1576003600,"entitlements":[]}"#))
        }
    }

    /// A program of the article that checks an answer.
    struct Program: Sendable, CustomTestStringConvertible {
        let language: String
        let command: String
        let file: String
        /// What must be installed: exits with 0 if it is.
        let probe: [String]

        var testDescription: String { language }

        var isInstalled: Bool { (try? Process.run(command: [command] + probe))?.status == 0 }
    }

    static let programs = [
        Program(
            language: "python", command: "python3", file: "checker.py",
            probe: ["-c", "import jwt; from jwt.algorithms import OKPAlgorithm"]),
        Program(language: "javascript", command: "node", file: "checker.mjs", probe: ["--version"]),
    ]

    @Test(
        "the checkers of the article accept what the server signs and nothing else, where they are installed",
        arguments: programs.filter(\.isInstalled))
    func checkers(_ program: Program) async throws {
        let block = try #require(
            try DocumentationArticle("SignedAnswers").blocks.first { $0.language == program.language })
        let path = "\(TestFolder.path("checker"))-\(program.file)"
        try Data(block.lines.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let now = Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest
        try await TestBundle.withServer(now: { now }) { server in
            let row = V1Body.Row(
                "30", subscription: "30", purchase: now.milliseconds - 3_600_000,
                expires: now.milliseconds + 86_400_000)
            _ = try await server.apple.post(
                try V1Body(type: "INITIAL_BUY", rows: [row], subscription: "30", autoRenew: true).bytes)
            try await server.isFolded()
            let signed = try await server.backend.get(
                "/customers/30/entitlements?\(CustomerRoutesTests.here)&signed=true"
            ).body
            let keys = try await HTTPClient(port: server.backend.port).get("/.well-known/jwks.json")
            let key = try #require((keys.json["keys"] as? [[String: String]])?.first?["x"])
            func check(_ text: String) throws -> (status: Int32, output: String) {
                let result = try Process.run(
                    command: ["env", "KEY=\(key)", program.command, path], input: Data(text.utf8), joined: true)
                return (result.status, result.outputText)
            }
            // In the middle of the claims.
            var forged = Array(signed.utf8)
            let place = (signed.firstIndex(of: ".")?.utf16Offset(in: signed) ?? 0) + 20
            forged[place] = forged[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")

            let right = try check(signed)
            let wrong = try check(String(decoding: forged, as: UTF8.self))

            #expect(right.status == 0, "\(right.output)")
            #expect(right.output.hasPrefix("30 [") && right.output.contains("com.example.magazine.monthly"))
            #expect(wrong.status != 0, "\(wrong.output)")
        }
    }
}
