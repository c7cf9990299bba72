import AppStore
import Encoding
import Simulation
import TestSupport
import Testing

@testable import HTTPServer

extension HTTPClient {
    /// Hands signed data in for the app of the signed bodies.
    fileprivate func handIn(
        transaction: String? = nil, transactions: [String] = [], renewal: String? = nil, appTransaction: String? = nil,
        customer: String? = nil
    ) async throws -> HTTPAnswer {
        let list = transactions.map { "\"\($0)\"" }.joined(separator: ",")
        let members = [
            transaction.map { "\"signedTransaction\":\"\($0)\"" },
            transactions.isEmpty ? nil : "\"signedTransaction\":[\(list)]",
            renewal.map { "\"signedRenewalInfo\":\"\($0)\"" }, appTransaction.map { "\"appTransaction\":\"\($0)\"" },
            customer.map { "\"customerId\":\"\($0)\"" },
        ]
        let body = "{" + members.compactMap(\.self).joined(separator: ",") + "}"
        return try await post(Array(body.utf8), to: "/transactions?app=\(SignedBody.app)&environment=any")
    }
}

@Suite("Signed transactions that backends hand in")
struct TransactionRoutesTests {
    /// A server without a store to ask, and a client with scope submit.
    private static func withServer(
        _ app: App = App(bundleId: SignedBody.app), _ test: (TestBundle, HTTPClient) async throws -> Void
    ) async throws {
        try await TestBundle.withServer(apps: [app], roots: SignedBody.roots) { server in
            let gateway = try await server.client(with: .submit)
            try await test(server, gateway)
        }
    }

    private static func subscriptions(_ answer: HTTPAnswer) -> [[String: Any]] {
        answer.json["subscriptions"] as? [[String: Any]] ?? []
    }

    private static func entitlements(_ answer: HTTPAnswer) -> [[String: Any]] {
        answer.json["entitlements"] as? [[String: Any]] ?? []
    }

    private static func links(_ answer: HTTPAnswer) -> Int {
        (answer.json["entitlements"] as? [Any])?.count ?? 0
    }

    @Test("a transaction of the sandbox is refused and not stored, unless the request asks for it")
    func environments() async throws {
        try await Self.withServer { server, gateway in
            let body = Array(#"{"signedTransaction":"\#(DeviceText.transaction())","customerId":"u-1"}"#.utf8)
            let path = "/transactions?app=\(SignedBody.app)"
            for query in ["", "&environment=production", "&environment=xcode"] {
                let answer = try await gateway.post(body, to: path + query)
                #expect(answer.status == 422)
                #expect(answer.json["field"] as? String == "environment")
            }
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["0"])
            #expect(try await gateway.post(body, to: path + "&environment=sandbox").status == 200)
            #expect(try await gateway.post(body, to: path + "&environment=any").status == 200)
        }
    }

    @Test("a customer may hand in hundreds of times, and then once a second")
    func rate() throws {
        let (rate, now) = (HandInRate(), ContinuousClock.now)
        let body = try JSONDocument(Array(#"{"signedTransaction":"a"}"#.utf8)).root
        func status(_ customer: String?, _ app: String = "a", at instant: ContinuousClock.Instant) -> Int {
            do throws(Problem) {
                try rate.admit(customer, app, body, at: instant)
                return 200
            } catch {
                return error.status.code
            }
        }
        for _ in 0..<HTTPServer.Limits.handInBurstMax { #expect(status("u-1", at: now) == 200) }

        #expect(status("u-1", at: now) == 429)
        #expect(status("u-2", at: now) == 200)
        #expect(status("u-1", "b", at: now) == 200)
        #expect(status(nil, at: now) == 200)
        #expect(status("u-1", at: now + .seconds(1)) == 200)
        #expect(status("u-1", at: now + .seconds(1)) == 429)
    }

    @Test(
        "a hand-in counts as one for each ten texts in it",
        arguments: [
            (#"{"receipt":"a"}"#, 1), (#"{"signedTransaction":"a"}"#, 1), (#"{"signedTransaction":[]}"#, 1),
            (list(10), 1), (list(11), 2), (list(100), 10), (list(5000), 10),
            (list(1, #""signedRenewalInfo":["a","a","a","a","a","a","a","a","a","a"]"#), 2),
        ])
    func count(_ text: String, _ count: Int) throws {
        let body = try JSONDocument(Array(text.utf8)).root
        let (rate, now) = (HandInRate(), ContinuousClock.now)
        func isAdmitted(at instant: ContinuousClock.Instant) -> Bool {
            (try? rate.admit("u-1", "a", body, at: instant)) != nil
        }
        let burst = HTTPServer.Limits.handInBurstMax / count

        #expect(HandInRate.count(of: body) == count)
        #expect((0..<burst).allSatisfy { _ in isAdmitted(at: now) })
        #expect(!isAdmitted(at: now))
        #expect(isAdmitted(at: now + .seconds(count)))
        #expect(!isAdmitted(at: now + .seconds(count)))
    }

    /// A body with a list of texts.
    private static func list(_ count: Int, _ more: String? = nil) -> String {
        let texts = Array(repeating: #""a""#, count: count).joined(separator: ",")
        return #"{"signedTransaction":[\#(texts)]\#(more.map { ",\($0)" } ?? "")}"#
    }

    @Test("a signed transaction becomes an event with its chain, links its purchase, and is answered with entitlements")
    func accepted() async throws {
        try await Self.withServer { server, gateway in
            let answer = try await gateway.handIn(transaction: DeviceText.transaction(), customer: "u-1")
            let customer = try await server.backend.get("/customers/u-1/entitlements?as=link&environment=sandbox")

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.json["app"] as? String == SignedBody.app)
            #expect(answer.json["environment"] as? String == "sandbox")
            #expect(answer.json["customerId"] as? String == "u-1")
            #expect(answer.json["registered"] as? String == "new")
            #expect(answer.json["linked"] as? Bool == true)
            #expect(answer.json["position"] as? Int == 1)
            #expect(answer.json["projected"] as? Bool == true)
            #expect(Self.subscriptions(answer).map { $0["status"] as? String } == ["active"])
            #expect(Self.entitlements(answer).map { $0["active"] as? Bool } == [true])
            #expect(Self.links(customer) == 1, "\(customer.body)")
            #expect(
                try await server.sql(
                    """
                    select concat_ws(' ', source, kind, octet_length(dedupe_key), octet_length(chain_id), revocation,
                      body_sha256 = sha256(subledger.event_body(stream_id, position)), facts::text like '%deviceVer%')
                    from subledger.event
                    where source = 'apple-device'
                    """) == ["apple-device transaction 32 32 off t f"])
        }
    }

    @Test("the same text twice is one event, and so is the same content signed later")
    func repeated() async throws {
        try await Self.withServer { server, gateway in
            let text = DeviceText.transaction()
            let first = try await gateway.handIn(transaction: text)
            try await server.isFolded()
            let second = try await gateway.handIn(transaction: text)
            let later = try await gateway.handIn(
                transaction: DeviceText.transaction(signedAt: 1_757_000_600_000))

            #expect([first, second, later].map(\.status) == [200, 200, 200])
            #expect([second, later].map { $0.json["position"] as? Int } == [nil, nil])
            #expect(second.json["registered"] as? String == "known")
            #expect(Self.subscriptions(later).count == 1)
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
        }
    }

    @Test("a revocation signed later is appended and ends the access")
    func revoked() async throws {
        try await Self.withServer { server, gateway in
            _ = try await gateway.handIn(transaction: DeviceText.transaction())

            let answer = try await gateway.handIn(
                transaction: DeviceText.transaction(signedAt: 1_757_000_600_000, revokedAt: 1_573_200_800_000))

            #expect(answer.json["position"] as? Int == 2, "\(answer.body)")
            #expect(Self.subscriptions(answer).map { $0["active"] as? Bool } == [false])
            #expect(Self.entitlements(answer).filter { $0["active"] as? Bool == true }.isEmpty)
        }
    }

    @Test("what a notification has stated already is not appended again")
    func knownByNotification() async throws {
        try await Self.withServer { server, gateway in
            _ = try await server.apple.post(SignedBody.make())
            try await server.isFolded()

            let answer = try await gateway.handIn(transaction: DeviceText.transaction(), customer: "u-1")

            #expect(answer.json["position"] == nil)
            #expect(answer.json["linked"] as? Bool == true)
            #expect(
                try await server.sql("select source from subledger.event order by position") == ["apple-v2", "backend"])
        }
    }

    @Test("a list, renewal info and an app transaction are each stored and linked")
    func several() async throws {
        try await Self.withServer { server, gateway in
            let second = "2000000000000002"
            let answer = try await gateway.handIn(
                transactions: [DeviceText.transaction(), DeviceText.transaction(second, subscription: second)],
                renewal: DeviceText.renewal(subscription: second),
                appTransaction: DeviceText.appTransaction(createdAt: 1_757_000_000_000), customer: "u-1")
            let again = try await gateway.handIn(
                appTransaction: DeviceText.appTransaction(createdAt: 1_757_000_600_000))

            #expect(answer.status == 200, "\(answer.body)")
            #expect(again.status == 200, "\(again.body)")
            #expect(Self.subscriptions(answer).count == 2)
            #expect(
                try await server.sql("select kind from subledger.event order by position")
                    == ["transaction", "transaction", "app_transaction", "link"])
            #expect(
                try await server.sql(
                    "select jsonb_array_length(facts -> 'renewals')::text from subledger.event where position < 3"
                )
                .sorted() == ["0", "1"])
        }
    }

    @Test(
        "a transaction of another customer moves, stays or is shared, as the policy says",
        arguments: [("latest-buyer", true, 1), ("first-buyer", false, 0), ("shared", true, 1)])
    func otherCustomer(_ policy: String, _ isLinked: Bool, _ visible: Int) async throws {
        try await Self.withServer { server, gateway in
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                "insert into subledger.app_ownership (app, policy) values ('\(SignedBody.app)', '\(policy)')",
                deadline: .now + .seconds(10))
            await owner.close()
            _ = try await gateway.handIn(transaction: DeviceText.transaction(), customer: "u-1")
            try await server.isFolded()

            let second = try await gateway.handIn(transaction: DeviceText.transaction(), customer: "u-2")

            #expect(second.status == 200, "\(second.body)")
            #expect(second.json["registered"] as? String == "otherCustomer")
            #expect(second.json["linked"] as? Bool == isLinked)
            #expect(Self.subscriptions(second).count == visible)
            #expect(!second.body.contains("u-1"))
        }
    }

    @Test("the stored bodies are the signed texts as they arrived")
    func bodies() async throws {
        try await Self.withServer { server, gateway in
            _ = try await gateway.handIn(
                transaction: DeviceText.transaction(), renewal: DeviceText.renewal(),
                appTransaction: DeviceText.appTransaction(createdAt: 1_757_000_000_000))
            let bodies = try await server.sql(
                """
                select convert_from(subledger.event_body(stream_id, position), 'UTF8')
                from subledger.event
                order by position
                """)
            let statements = try bodies.map { try SignedStatement(decoding: Array($0.utf8)) }

            #expect(statements.compactMap(\.self).map { $0.event().kind } == [.transaction, .appTransaction])
            #expect(statements.compactMap(\.self).map { String(decoding: $0.evidence.bytes, as: UTF8.self) } == bodies)
        }
    }

    // MARK: - Bad input

    @Test("an error names the text and its problem, and nothing of the request is stored")
    func rejected() async throws {
        try await Self.withServer { server, gateway in
            let good = DeviceText.transaction()
            var shape = TestCertificates.Shape()
            shape.label = "another store"
            let stranger = JWSSigner(TestCertificates(shape))
            let cases: [(HTTPAnswer, Int, String, String)] = [
                (
                    try await gateway.handIn(transaction: DeviceText.transaction(app: "com.example.other")), 422,
                    "signedTransaction", "signedTransaction is of another app"
                ),
                (
                    try await gateway.handIn(transaction: DeviceText.transaction(environment: "Xcode")), 422,
                    "signedTransaction", "signedTransaction is of an environment that the app does not accept"
                ),
                (
                    try await gateway.handIn(transaction: DeviceText.transaction(signer: stranger)), 422,
                    "signedTransaction", "signedTransaction has certificates that do not lead to a trusted root"
                ),
                (
                    try await gateway.handIn(transactions: [good, DeviceText.transaction(app: "com.example.other")]),
                    422, "signedTransaction[1]", "signedTransaction[1] is of another app"
                ),
                (
                    try await gateway.handIn(
                        transactions: [good, DeviceText.transaction("2000000000000002", environment: "Production")]),
                    400, "signedTransaction[1]",
                    "signedTransaction[1] is of another environment than the first signed text"
                ),
                (
                    try await gateway.handIn(transaction: String(good.prefix(good.count / 2))), 400,
                    "signedTransaction", "signedTransaction does not consist of three segments separated by dots"
                ),
                (
                    try await gateway.handIn(transaction: good, renewal: DeviceText.renewal(subscription: "7")), 400,
                    "signedRenewalInfo",
                    "signedRenewalInfo is not of the subscription and environment of signedTransaction"
                ),
                (
                    try await gateway.handIn(transaction: String(repeating: "e", count: (128 << 10) + 1)), 413,
                    "signedTransaction", "signedTransaction is longer than 131072 bytes"
                ),
            ]

            for (answer, status, field, detail) in cases {
                #expect(answer.status == status, "\(detail): \(answer.body)")
                #expect(answer.headers["content-type"] == "application/problem+json")
                #expect(answer.json["field"] as? String == field, "\(detail)")
                #expect(answer.json["detail"] as? String == detail)
            }
            #expect(try await server.sql("select position::text from subledger.event").isEmpty)
        }
    }

    @Test(
        "what is not a request is rejected with its field",
        arguments: [
            ("{}", "signedTransaction"), (#"{"signedTransaction":null}"#, "signedTransaction"),
            (#"{"signedTransaction":[]}"#, "signedTransaction"), (#"{"signedTransaction":7}"#, "signedTransaction"),
            (#"{"signedTransaction":["a",7]}"#, "signedTransaction[1]"),
            (#"{"signedTransaction":""}"#, "signedTransaction"), (#"{"appTransaction":["a"]}"#, "appTransaction"),
            (#"{"signedTransaction":"a.b.c","customerId":7}"#, "customerId"), ("[]", nil), ("eyJ", nil),
        ] as [(String, String?)])
    func malformed(_ body: String, _ field: String?) async throws {
        try await Self.withServer { server, gateway in
            let answer = try await gateway.post(
                Array(body.utf8), to: "/transactions?app=\(SignedBody.app)&environment=any")

            #expect(answer.status == 400, "\(answer.body)")
            #expect(answer.json["field"] as? String == field, "\(answer.body)")
            #expect(try await server.sql("select position::text from subledger.event").isEmpty)
        }
    }

    @Test("100 transactions are accepted in one request, and 101 are not")
    func tooMany() async throws {
        try await Self.withServer { server, gateway in
            let text = DeviceText.transaction()

            let most = try await gateway.handIn(transactions: Array(repeating: text, count: 100))
            let tooMany = try await gateway.handIn(transactions: Array(repeating: text, count: 101))

            #expect(most.status == 200, "\(most.body)")
            #expect(tooMany.status == 400)
            #expect(
                tooMany.json["detail"] as? String
                    == "signedTransaction must be a string, or a list of 1 to 100 strings")
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
        }
    }

    @Test("an app that is missing or not configured is rejected, and so is a token that may only read")
    func apps() async throws {
        try await Self.withServer { server, gateway in
            let body = Array("{\"signedTransaction\":\"\(DeviceText.transaction())\"}".utf8)
            let missing = try await gateway.post(body, to: "/transactions")
            let unknown = try await gateway.post(body, to: "/transactions?app=com.example.other")
            let reading = try await server.backend.post(body, to: "/transactions?app=\(SignedBody.app)&environment=any")

            #expect(missing.status == 400)
            #expect(unknown.status == 404)
            #expect([missing, unknown].map { $0.json["field"] as? String } == ["app", "app"])
            #expect(reading.status == 403)
        }
    }

    @Test("data of Xcode is accepted unsigned only if the app is configured for it")
    func local() async throws {
        let app = App(bundleId: SignedBody.app, environments: [.sandbox, .xcode])
        var shape = TestCertificates.Shape()
        shape.label = "Xcode"
        let signer = JWSSigner(TestCertificates(shape))
        try await Self.withServer(app) { server, gateway in
            let answer = try await gateway.handIn(
                transaction: DeviceText.transaction(environment: "Xcode", signer: signer))

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.json["environment"] as? String == "xcode")
            #expect(
                try await server.sql("select coalesce(chain_id::text, 'none') from subledger.event") == ["none"])
        }
    }

    @Test("log lines contain neither the text nor the customer")
    func logs() async throws {
        try await Self.withServer { server, gateway in
            let text = DeviceText.transaction()
            _ = try await gateway.handIn(transaction: text, customer: "canary-customer")
            _ = try await gateway.handIn(
                transaction: DeviceText.transaction(app: "com.example.other"), customer: "canary-customer")

            #expect(server.logs.text.contains("signed data of a device rejected"))
            #expect(!server.logs.text.contains(text.prefix(40)))
            #expect(!server.logs.text.contains("canary-customer"))
        }
    }
}
