import AppStore
import Encoding
import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing

@Suite("Receipts that backends hand in")
struct ReceiptRoutesTests {
    private static let receipt = ReceiptSample.receipt(1)
    private static let subscription = "70000000000001"

    /// A server whose store answers receipt 1 with one subscription, and a client with scope submit.
    private static func withStore(
        now: @escaping @Sendable () -> Instant = { TestBundle.now }, roots: RootCertificates = .apple,
        _ test: (TestBundle, ScriptedStore, HTTPClient) async throws -> Void
    ) async throws {
        let store = ScriptedStore()
        store.answer(receipt, ReceiptSample.answer())
        try await TestBundle.withServer(roots: roots, store: store, now: now) { server in
            let gateway = try await server.client(with: .submit)
            try await test(server, store, gateway)
        }
    }

    private static func checks(_ answer: HTTPAnswer) -> [String: Any] {
        answer.json["checks"] as? [String: Any] ?? [:]
    }

    private static func entitlements(_ answer: HTTPAnswer) -> [[String: Any]] {
        answer.json["entitlements"] as? [[String: Any]] ?? []
    }

    private static func subscriptions(_ answer: HTTPAnswer) -> [[String: Any]] {
        answer.json["subscriptions"] as? [[String: Any]] ?? []
    }

    @Test("a receipt becomes an event, links its purchases, and is answered with its checks and entitlements")
    func accepted() async throws {
        try await Self.withStore { server, store, gateway in
            let answer = try await gateway.handIn(Self.receipt, customer: "u-1")
            let id = try #require(answer.json["id"] as? String)
            let later = try await gateway.get("/receipts/\(id)?environment=any")
            let subscription = try await server.backend.get("/subscriptions/\(Self.subscription)")
            let customer = try await server.backend.get("/customers/u-1/entitlements?as=link")

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.json["app"] as? String == V1Body.app)
            #expect(answer.json["environment"] as? String == "production")
            #expect(answer.json["state"] as? String == "answered")
            #expect(answer.json["projected"] as? Bool == true)
            #expect(answer.json["linked"] as? Bool == true)
            #expect(answer.json["position"] as? Int == 1)
            #expect(
                answer.body.contains(
                    #""checks":{"genuine":{"result":true,"status":0},"ofThisApp":true,"registered":"new","inForce":true}"#
                ), "\(answer.body)")
            #expect(Self.subscriptions(answer).map { $0["status"] as? String } == ["active"])
            #expect(Self.entitlements(answer).map { $0["active"] as? Bool } == [true])
            #expect(later.json["state"] as? String == "answered")
            #expect(later.body.contains(#""registered":"new""#))
            #expect(Self.entitlements(later).count == 1)
            #expect(subscription.json["status"] as? String == "active")
            #expect((customer.json["entitlements"] as? [Any])?.count == 1, "\(customer.body)")
            #expect(
                try await server.sql("select source || ' ' || kind from subledger.event order by position")
                    == ["apple-receipt receipt", "backend link"])
            #expect(store.requests == [Self.receipt])
        }
    }

    @Test("without a customer nothing is linked, and the entitlements are those of the purchases")
    func withoutCustomer() async throws {
        try await Self.withStore { server, _, gateway in
            let answer = try await gateway.handIn(Self.receipt)

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.json["linked"] == nil)
            #expect(Self.entitlements(answer).map { $0["active"] as? Bool } == [true])
            #expect(try await server.sql("select kind from subledger.event") == ["receipt"])
        }
    }

    @Test("the same receipt twice has one id, one question and one event")
    func twice() async throws {
        try await Self.withStore { server, store, gateway in
            let first = try await gateway.handIn(Self.receipt, customer: "u-1")
            let second = try await gateway.handIn(Self.receipt, customer: "u-1")
            // Base64 with line breaks is the same receipt.
            let broken = "\(Self.receipt.prefix(20))\\r\\n\(Self.receipt.dropFirst(20))"
            let third = try await gateway.handIn(broken, customer: "u-1")

            #expect([first, second, third].map(\.status) == [200, 200, 200])
            #expect(Set([first, second, third].map { $0.json["id"] as? String }).count == 1)
            #expect(store.requests.count == 1)
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["2"])
        }
    }

    @Test("within five minutes the last verdict is returned, and after them the store is asked again")
    func askedAgain() async throws {
        let clock = SetClock()
        try await Self.withStore(now: { clock.now }) { _, store, gateway in
            let first = try await gateway.handIn(Self.receipt)
            clock.advance(by: .seconds(300))
            let atLast = try await gateway.handIn(Self.receipt)
            #expect(store.requests.count == 1)
            clock.advance(by: .milliseconds(1))
            let later = try await gateway.handIn(Self.receipt)

            #expect(store.requests.count == 2)
            #expect(Set([first, atLast, later].map { $0.json["id"] as? String }).count == 1)
            #expect([first, atLast, later].map(\.status) == [200, 200, 200])
        }
    }

    @Test("six hand-ins of one receipt at once ask the store once and get the same id")
    func atOnce() async throws {
        try await Self.withStore { server, store, gateway in
            let answers = try await withThrowingTaskGroup(of: HTTPAnswer.self) { group in
                for _ in 0..<6 { group.addTask { try await gateway.handIn(Self.receipt, customer: "u-1") } }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(answers.map(\.status) == [200, 200, 200, 200, 200, 200])
            #expect(Set(answers.map { $0.json["id"] as? String }).count == 1)
            #expect(store.requests.count == 1)
            #expect(try await server.sql("select kind from subledger.event order by position") == ["receipt", "link"])
        }
    }

    @Test("six receipts of one customer at once are all linked")
    func linkedAtOnce() async throws {
        try await Self.withStore { server, store, gateway in
            for number in 1...6 {
                store.answer(ReceiptSample.receipt(UInt8(number)), ReceiptSample.answer("7000000000000\(number)"))
            }
            let answers = try await withThrowingTaskGroup(of: HTTPAnswer.self) { group in
                for number in 1...6 {
                    group.addTask { try await gateway.handIn(ReceiptSample.receipt(UInt8(number)), customer: "u-1") }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            try await server.isFolded()
            let customer = try await server.backend.get("/customers/u-1?as=link&app=\(V1Body.app)")

            #expect(answers.allSatisfy { $0.status == 200 })
            #expect((customer.json["subscriptions"] as? [Any])?.count == 6, "\(customer.body)")
        }
    }

    @Test("an answer that states nothing new is not appended")
    func nothingNew() async throws {
        try await Self.withStore { server, store, gateway in
            store.answer(ReceiptSample.receipt(2), ReceiptSample.answer(requestedAt: 1_573_200_841_000))
            _ = try await gateway.handIn(Self.receipt)

            let answer = try await gateway.handIn(ReceiptSample.receipt(2))

            #expect(answer.status == 200)
            #expect(answer.json["position"] == nil)
            #expect(Self.checks(answer)["registered"] as? String == "known")
            #expect(Self.subscriptions(answer).count == 1)
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
        }
    }

    @Test(
        "what is not a receipt is rejected with its field, and nothing is stored or asked",
        arguments: [
            (#"{"receipt":""}"#, 400, "receipt"), (#"{"receipt":"   "}"#, 400, "receipt"),
            (#"{"receipt":"MIIT bQYJ KoZI"}"#, 400, "receipt"), (#"{"receipt":"MII%2B"}"#, 400, "receipt"),
            (#"{"receipt":7}"#, 400, "receipt"), (#"{"receipt":null}"#, 400, "receipt"), ("{}", 400, "receipt"),
            (#"{"receipt":"MIIT","customerId":""}"#, 400, "customerId"),
            (#"{"receipt":"MIIT","customerId":7}"#, 400, "customerId"),
            (#"{"receipt":"MIIT","customerId":"a\u0000b"}"#, 400, "customerId"), ("[]", 400, nil), ("MIIT", 400, nil),
        ] as [(String, Int, String?)])
    func malformed(_ body: String, _ status: Int, _ field: String?) async throws {
        try await Self.withStore { server, store, gateway in
            let answer = try await gateway.post(Array(body.utf8), to: "/receipts?app=\(V1Body.app)")

            #expect(answer.status == status, "\(answer.body)")
            #expect(answer.json["field"] as? String == field)
            #expect(!answer.body.contains("MII"))
            #expect(store.requests.isEmpty)
            #expect(try await server.sql("select receipt_id::text from subledger.receipt").isEmpty)
        }
    }

    @Test("5 MiB of base64 are asked about, and one character more is rejected with 413")
    func tooLong() async throws {
        try await Self.withStore { _, store, gateway in
            let longest = String(repeating: "A", count: Receipt.bytesMax)

            let refused = try await gateway.handIn(longest)
            let tooLong = try await gateway.handIn(longest + "A")

            // Not a receipt of the store.
            #expect(refused.status == 422)
            #expect(store.requests.map(\.utf8.count) == [Receipt.bytesMax])
            #expect(tooLong.status == 413)
            #expect(tooLong.json["field"] as? String == "receipt")
        }
    }

    @Test("an app that is missing or not configured is rejected")
    func apps() async throws {
        try await Self.withStore { _, store, gateway in
            let body = Array(#"{"receipt":"\#(Self.receipt)"}"#.utf8)
            let missing = try await gateway.post(body, to: "/receipts")
            let unknown = try await gateway.post(body, to: "/receipts?app=com.example.other")

            #expect(missing.status == 400)
            #expect(unknown.status == 404)
            #expect([missing, unknown].map { $0.json["field"] as? String } == ["app", "app"])
            #expect(store.requests.isEmpty)
        }
    }

    @Test(
        "a receipt that Apple refuses is answered 422 with the status and its meaning",
        arguments: [(21002, 4), (21003, 1), (21000, 1)])
    func refused(_ status: Int, _ calls: Int) async throws {
        try await Self.withStore { server, store, gateway in
            store.answer(Self.receipt, #"{"status":\#(status)}"#)

            let answer = try await gateway.handIn(Self.receipt)
            let id = try #require(answer.json["receiptId"] as? String)
            let later = try await gateway.get("/receipts/\(id)?environment=any")

            #expect(answer.status == 422)
            #expect(answer.headers["content-type"] == "application/problem+json")
            #expect(answer.json["appStoreStatus"] as? Int == status)
            #expect((answer.json["detail"] as? String)?.contains("status \(status)") == true)
            #expect(store.requests.count == calls)
            #expect(later.status == 200)
            #expect(later.json["state"] as? String == "refused")
            #expect((later.json["problem"] as? String)?.contains("status \(status)") == true)
            #expect((Self.checks(later)["genuine"] as? [String: Any])?["result"] as? Bool == false)
            #expect(try await server.sql("select position::text from subledger.event").isEmpty)
        }
    }

    @Test("a receipt that Apple signed and calls malformed is pending for a day, and only then refused")
    func malformedForADay() async throws {
        let passed = Mutex(Duration.zero)
        try await Self.withStore(
            now: { TestBundle.now.advanced(by: passed.withLock { $0 }) }, roots: SignedReceipt.roots
        ) { server, store, gateway in
            let receipt = Base64.text(try SignedReceipt.make(app: V1Body.app))
            store.answer(receipt, #"{"status":21002}"#)

            let answer = try await gateway.handIn(receipt)
            let id = try #require(answer.json["receiptId"] as? String ?? answer.json["id"] as? String)
            func state() async throws -> (state: String?, attempts: Int) {
                let later = try await gateway.get("/receipts/\(id)?environment=any")
                return (later.json["state"] as? String, store.requests.count)
            }
            let first = try await state()
            passed.withLock { $0 = .seconds(43_200) }
            let asked = try await eventually("the receipt is asked about again") {
                // On a slow machine, a question may end before all its repetitions; the next one is due within an hour.
                passed.withLock { $0 = min($0 + .seconds(60), .seconds(86_400 - 60)) }
                let now = try await state()
                return now.attempts >= first.attempts + 4 ? now : nil
            }
            try await eventually("the receipt is refused") {
                // A question of before may still end as pending, and the next one is due within an hour of its end.
                passed.withLock { $0 = max($0, .seconds(86_400)) + .seconds(60) }
                return try await state().state == "refused" ? () : nil
            }

            #expect(answer.status == 202, "\(answer.body)")
            #expect(first.state == "pending")
            #expect(asked.state == "pending")
        }
    }

    @Test("a genuine receipt of another app is answered 422, and the second check fails")
    func otherApp() async throws {
        try await Self.withStore { server, store, gateway in
            store.answer(Self.receipt, ReceiptSample.answer(app: "com.example.other"))

            let answer = try await gateway.handIn(Self.receipt, customer: "u-1")
            let id = try #require(answer.json["receiptId"] as? String)
            let later = try await gateway.get("/receipts/\(id)?environment=any")

            #expect(answer.status == 422)
            #expect(answer.json["detail"] as? String == "the receipt is of another app")
            #expect(Self.checks(later)["ofThisApp"] as? Bool == false)
            #expect((Self.checks(later)["genuine"] as? [String: Any])?["result"] as? Bool == true)
            #expect(try await server.sql("select position::text from subledger.event").isEmpty)
        }
    }

    @Test("a rejected shared secret is answered 503 and logged without the secret")
    func secret() async throws {
        try await Self.withStore(roots: SignedReceipt.roots) { server, store, gateway in
            let receipt = Base64.text(try SignedReceipt.make(app: V1Body.app))
            store.answer(receipt, #"{"status":21004}"#)

            let answer = try await gateway.handIn(receipt)
            let id = try #require(answer.json["receiptId"] as? String)

            #expect(answer.status == 503)
            #expect(answer.headers["location"] == "/receipts/\(id)")
            #expect(!answer.body.contains("secret"))
            #expect(server.logs.text.contains("shared secret rejected by the App Store"))
            #expect(!server.logs.text.contains(V1Body.secret))
            #expect(try await gateway.get("/receipts/\(id)?environment=any").json["state"] as? String == "pending")
        }
    }

    @Test("a receipt that nobody proves rings no alarm about the shared secret")
    func unprovenSecret() async throws {
        try await Self.withStore { server, store, gateway async throws in
            store.answer(Self.receipt, #"{"status":21004}"#)

            #expect(try await gateway.handIn(Self.receipt).status == 503)
            #expect(!server.logs.text.contains("shared secret rejected by the App Store"))
        }
    }

    @Test("Apple is not asked about a receipt that names another app, and of a refused receipt only the digest is kept")
    func otherAppInReceipt() async throws {
        try await Self.withStore(roots: SignedReceipt.roots) { server, store, gateway in
            let receipt = Base64.text(try SignedReceipt.make(app: "com.example.other"))
            let first = try await gateway.handIn(receipt)

            #expect(first.status == 422)
            #expect(first.json["detail"] as? String == "the receipt is of another app")
            #expect(store.requests.isEmpty)
            let kept =
                "select concat_ws(' ', octet_length(receipt), octet_length(receipt_sha256)) from subledger.receipt"
                as StaticString
            #expect(try await server.sql(kept) == ["0 32"])
        }
    }

    @Test("a receipt that Apple refused and later accepts is kept")
    func acceptedLater() async throws {
        let passed = Mutex(Duration.zero)
        try await Self.withStore(now: { TestBundle.now.advanced(by: passed.withLock { $0 }) }) {
            server, store, gateway async throws in
            store.answer(Self.receipt, #"{"status":21003}"#)
            #expect(try await gateway.handIn(Self.receipt).status == 422)
            #expect(try await server.sql("select octet_length(receipt)::text from subledger.receipt") == ["0"])
            store.answer(Self.receipt, ReceiptSample.answer())
            passed.withLock { $0 = .seconds(301) }

            #expect(try await gateway.handIn(Self.receipt).status == 200)
            #expect(
                try await server.sql("select (receipt_sha256 = sha256(receipt))::text from subledger.receipt") == [
                    "true"
                ])
        }
    }

    @Test("a receipt of the sandbox grants nothing, unless the request says so")
    func environments() async throws {
        try await Self.withStore { server, store, gateway in
            let receipt = ReceiptSample.receipt(9)
            store.answerInSandbox(
                receipt, ReceiptSample.answer().replacing("\"Production\"", with: "\"Sandbox\""))
            func handIn(_ more: String) async throws -> HTTPAnswer {
                try await gateway.post(
                    Array(#"{"receipt":"\#(receipt)"}"#.utf8), to: "/receipts?app=\(V1Body.app)\(more)")
            }
            let usual = try await handIn("")
            let id = try #require(usual.json["receiptId"] as? String)

            #expect(usual.status == 422)
            #expect(usual.json["field"] as? String == "environment")
            #expect(Self.entitlements(usual).isEmpty)
            #expect(try await handIn("&environment=production").status == 422)
            #expect(try await gateway.get("/receipts/\(id)").status == 422)
            for environment in ["any", "sandbox"] {
                let asked = try await handIn("&environment=\(environment)")
                #expect(asked.status == 200, "\(asked.body)")
                #expect(asked.json["environment"] as? String == "sandbox")
                #expect(try await gateway.get("/receipts/\(id)?environment=\(environment)").status == 200)
            }
            #expect(try await handIn("&environment=all").status == 400)
        }
    }

    @Test("a receipt handed in while the store is down is pending, and answered once the store is up")
    func storeDown() async throws {
        // The clock stands still until the pause before the next question is to be over.
        let passed = Mutex(Duration.zero)
        try await Self.withStore(now: { TestBundle.now.advanced(by: passed.withLock { $0 }) }) {
            server, store, gateway in
            // All calls of the first question.
            store.fail(4)

            let answer = try await gateway.handIn(Self.receipt, customer: "u-1")
            let location = try #require(answer.headers["location"])
            passed.withLock { $0 = .seconds(600) }
            let settled = try await eventually("the receipt is answered") {
                let later = try await gateway.get(location)
                return later.json["state"] as? String == "answered" ? later : nil
            }
            try await server.isFolded()

            #expect(answer.status == 202)
            #expect(
                answer.body
                    == "{\"id\":\"\(location.dropFirst("/receipts/".count))\",\"app\":\"\(V1Body.app)\",\"state\":\"pending\"}\n"
            )
            #expect(settled.json["state"] as? String == "answered")
            // Whether it is linked is known once it is projected.
            #expect(try await gateway.get(location).json["linked"] as? Bool == true)
            #expect(store.requests.count == 5)
            #expect(try await server.sql("select kind from subledger.event order by position") == ["receipt", "link"])
            #expect(try await server.sql("select next_at::text from subledger.receipt where next_at is not null") == [])
        }
    }

    @Test("a receipt whose server died while it asked is asked about again")
    func abandoned() async throws {
        try await Self.withStore { server, store, gateway in
            // As another server left it: its claim ended before the present.
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                """
                insert into subledger.receipt (
                  receipt_id, app, received_at, receipt_sha256, receipt, state, attempts, next_at, asking_until
                )
                select '5f0c3a3e-6a0e-4c0e-9a53-0d2f4a7c1b11', '\(V1Body.app)', '2019-11-08T08:00:00Z', sha256(bytes),
                  bytes, 'pending', 1, '2019-11-08T08:01:00Z', '2019-11-08T08:01:00Z'
                from (select decode('\(Self.receipt)', 'base64') as bytes) as receipt
                """, deadline: .now + .seconds(10))
            await owner.close()

            let settled = try await eventually("the receipt is answered") {
                let later = try await gateway.get("/receipts/5f0c3a3e-6a0e-4c0e-9a53-0d2f4a7c1b11")
                return later.json["state"] as? String == "answered" ? later : nil
            }

            #expect(settled.json["position"] as? Int == 1)
            #expect(store.requests.count == 1)
        }
    }

    @Test("receipts that Apple did not sign leave places in the queue to those that it did")
    func places() async throws {
        let passed = Mutex(Duration.zero)
        try await Self.withStore(
            now: { TestBundle.now.advanced(by: passed.withLock { $0 }) }, roots: SignedReceipt.roots
        ) { server, store, gateway in
            let receipt = Base64.text(try SignedReceipt.make(app: V1Body.app))
            let others = (11...14).map { ReceiptSample.receipt($0) }
            store.answer(receipt, ReceiptSample.answer())
            store.hold(others)
            store.fail(4)
            let location = try #require(try await gateway.handIn(receipt).headers["location"])
            let owner = try await TestCluster.connect(server.database)
            for other in others {
                try await owner.script(
                    """
                    insert into subledger.receipt (
                      receipt_id, app, received_at, receipt_sha256, receipt, state, attempts, next_at
                    )
                    select gen_random_uuid(), '\(V1Body.app)', '2019-11-01T08:00:00Z', sha256(bytes), bytes, 'pending', 1,
                      '2019-11-01T08:01:00Z'
                    from (select decode('\(other)', 'base64') as bytes) as receipt
                    """, deadline: .now + .seconds(10))
            }
            await owner.close()
            func asked() -> Int { store.requests.count { others.contains($0) } }
            try await eventually("those that Apple did not sign are asked about") { asked() >= 2 ? () : nil }

            passed.withLock { $0 = .seconds(600) }
            try await eventually("the receipt is answered") {
                try await gateway.get(location).json["state"] as? String == "answered" ? () : nil
            }

            #expect(asked() == 2)
        }
    }

    @Test("a deleted Apple Account closes the access that its receipt gave")
    func accountDeleted() async throws {
        let clock = SetClock()
        try await Self.withStore(now: { clock.now }) { server, store, gateway in
            #expect(try await gateway.handIn(Self.receipt, customer: "u-1").status == 200)
            store.answer(Self.receipt, #"{"status":21010}"#)
            clock.advance(by: .seconds(600))

            let answer = try await gateway.handIn(Self.receipt, customer: "u-1")
            try await server.isFolded()
            let subscription = try await server.backend.get("/subscriptions/\(Self.subscription)")

            #expect(answer.status == 422)
            #expect(answer.json["appStoreStatus"] as? Int == 21010)
            #expect(subscription.json["active"] as? Bool == false, "\(subscription.body)")
            #expect(
                try await server.sql("select kind from subledger.event order by position")
                    == ["receipt", "link", "account_deletion"])
        }
    }

    @Test(
        "a receipt of another customer moves, stays or is shared, as the policy says",
        arguments: [
            ("latest-buyer", true, [0, 1]), ("first-buyer", false, [1, 0]), ("shared", true, [1, 1]),
        ])
    func otherCustomer(_ policy: String, _ isLinked: Bool, _ entitlements: [Int]) async throws {
        try await Self.withStore { server, _, gateway in
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                "insert into subledger.app_ownership (app, policy) values ('\(V1Body.app)', '\(policy)')",
                deadline: .now + .seconds(10))
            await owner.close()
            let first = try await gateway.handIn(Self.receipt, customer: "u-1")
            try await server.isFolded()

            let second = try await gateway.handIn(Self.receipt, customer: "u-2")
            try await server.isFolded()
            var found: [Int] = []
            for customer in ["u-1", "u-2"] {
                let answer = try await server.backend.get("/customers/\(customer)/entitlements?as=link")
                found.append((answer.json["entitlements"] as? [Any])?.count ?? 0)
            }

            #expect(Self.checks(first)["registered"] as? String == "new")
            #expect(second.status == 200)
            #expect(second.json["id"] as? String != first.json["id"] as? String)
            #expect(Self.checks(second)["registered"] as? String == "otherCustomer")
            #expect(second.json["linked"] as? Bool == isLinked)
            #expect(Self.subscriptions(second).count == (isLinked ? 1 : 0))
            #expect(Self.entitlements(second).count == entitlements[1])
            #expect(!second.body.contains("u-1"))
            #expect(found == entitlements)
        }
    }

    @Test("handing in another receipt does not take back what another customer has linked since")
    func othersStay() async throws {
        try await Self.withStore { server, store, gateway in
            store.answer(ReceiptSample.receipt(2), ReceiptSample.answer("70000000000002"))
            _ = try await gateway.handIn(Self.receipt, customer: "u-1")
            _ = try await gateway.handIn(Self.receipt, customer: "u-2")

            let answer = try await gateway.handIn(ReceiptSample.receipt(2), customer: "u-1")
            try await server.isFolded()
            var found: [[String]] = []
            for customer in ["u-1", "u-2"] {
                let owned = try await server.backend.get("/customers/\(customer)/entitlements?as=link")
                let entitlements = owned.json["entitlements"] as? [[String: Any]] ?? []
                found.append(entitlements.flatMap { $0["subscriptions"] as? [String] ?? [] })
            }

            #expect(answer.json["linked"] as? Bool == true)
            #expect(found == [["70000000000002"], [Self.subscription]])
        }
    }

    @Test("a token of scope submit is rejected by every other route")
    func scope() async throws {
        try await Self.withStore { server, _, gateway in
            let open: Set = [
                "GET /.well-known/jwks.json", "GET /health", "GET /health/live", "GET /health/ready", "GET /metrics",
                "GET /openapi.json", "GET /webhooks/keys",
            ]
            for operation in server.operations where !open.contains(operation) {
                let parts = operation.split(separator: " ")
                let path = String(parts[1]).replacing(/\{[^}]*\}/, with: "1")

                let answer = try await gateway.send(String(parts[0]), path)

                let allowed: Set = ["/transactions", "/purchases", "/offers/signatures"]
                let isAllowed = path.hasPrefix("/receipts") || allowed.contains(path)
                #expect((answer.status == 403) == !isAllowed, "\(operation)")
            }
            #expect(try await gateway.get("/receipts/1").status == 404)
            #expect(try await gateway.get("/receipts/5f0c3a3e-6a0e-4c0e-9a53-0d2f4a7c1b11").status == 404)
        }
    }

    @Test("no reading role can select the bytes of a receipt, and each can select the rest")
    func roles() async throws {
        try await Self.withStore { server, _, gateway in
            _ = try await gateway.handIn(Self.receipt)

            for role in ["subledger_reader", "subledger_analyst", "subledger_projector", "subledger_products"] {
                let connection = try await TestCluster.connect(server.database.with(role: role))
                await #expect(throws: PostgresError(.server(sqlstate: "42501"))) {
                    _ = try await connection.query(
                        Statement("bytes", "select receipt from subledger.receipt"), deadline: .now + .seconds(10))
                }
                await connection.close()
            }
            for role in ["subledger_reader", "subledger_analyst"] {
                let connection = try await TestCluster.connect(server.database.with(role: role))
                let rows = try await connection.query(
                    Statement("state", "select state, encode(receipt_sha256, 'hex') from subledger.receipt"),
                    deadline: .now + .seconds(10))
                #expect(try rows.map { try $0.value(String.self, at: 0) } == ["answered"])
                await connection.close()
            }
        }
    }

    @Test("no log line contains the receipt, the customer, a transaction or the secret")
    func logs() async throws {
        try await Self.withStore { server, store, gateway in
            _ = try await gateway.handIn(Self.receipt, customer: "canary-customer")
            _ = try await gateway.handIn(ReceiptSample.receipt(3), customer: "canary-customer")
            _ = try await gateway.post(
                Array(#"{"receipt":"canary receipt"}"#.utf8), to: "/receipts?app=\(V1Body.app)")

            let text = server.logs.text
            #expect(text.contains("receipt answered"))
            #expect(text.contains("receipt refused"))
            for canary in [
                Self.receipt, String(Self.receipt.prefix(40)), ReceiptSample.receipt(3), ReceiptSample.receipt(200),
                "canary", Self.subscription, V1Body.secret,
            ] {
                #expect(!text.contains(canary), "\(canary) was logged")
            }
        }
    }
}
