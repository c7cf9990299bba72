import Encoding
import Foundation
import TestSupport
import Testing

/// What holds for every way to hand a purchase in. What is special about a receipt, a signed text or a token is tested in
/// suites of their own.
@Suite("A hand-in of any kind")
struct HandInTests {
    private static func registered(_ answer: HTTPAnswer) -> String? {
        (answer.json["checks"] as? [String: Any] ?? answer.json)["registered"] as? String
    }

    private static func list(_ answer: HTTPAnswer, _ member: String) -> [[String: Any]] {
        answer.json[member] as? [[String: Any]] ?? []
    }

    private static func eachWay(_ test: (HandInBundle, HandInWay) async throws -> Void) async throws {
        try await HandInBundle.with { bundle in
            for way in HandInWay.allCases { try await test(bundle, way) }
        }
    }

    @Test("a purchase is stored, linked to its customer, and answered with what it entitles to")
    func accepted() async throws {
        try await Self.eachWay { bundle, way in
            let customer = "of \(way)"
            let answer = try await bundle.handIn(way, customer: customer)
            let owned = try await bundle.server.backend.get(
                "/customers/of%20\(way)/entitlements?as=link&environment=sandbox")

            #expect(answer.status == 200, "\(way): \(answer.body)")
            #expect(answer.json["app"] as? String == way.app)
            #expect(answer.json["environment"] as? String == "sandbox")
            #expect(answer.json["customerId"] as? String == customer)
            #expect(Self.registered(answer) == "new", "\(way)")
            #expect(answer.json["linked"] as? Bool == true)
            #expect(answer.json["projected"] as? Bool == true)
            #expect(answer.json["position"] is Int)
            #expect(
                Self.list(answer, "subscriptions").map { $0["originalTransactionId"] as? String }
                    == [HandInBundle.id(way, 1)])
            #expect(Self.list(answer, "subscriptions").map { $0["status"] as? String } == ["active"])
            #expect(Self.list(answer, "entitlements").map { $0["active"] as? Bool } == [true])
            #expect(Self.list(owned, "entitlements").map { $0["active"] as? Bool } == [true], "\(way): \(owned.body)")
        }
    }

    @Test("without a customer nothing is linked, and a customer who hands the known purchase in gets it")
    func withoutCustomer() async throws {
        try await Self.eachWay { bundle, way async throws in
            guard !way.isOfApp else { return }
            let first = try await bundle.handIn(way, customer: nil)
            let later = try await bundle.handIn(way, customer: "of \(way)")

            #expect(first.status == 200, "\(way): \(first.body)")
            #expect(first.json["linked"] == nil && first.json["customerId"] == nil, "\(way)")
            #expect(Self.list(first, "entitlements").map { $0["active"] as? Bool } == [true], "\(way)")
            #expect(later.json["linked"] as? Bool == true, "\(way): \(later.body)")
            #expect(Self.registered(later) == "known", "\(way)")
            #expect(Self.list(later, "entitlements").count == 1, "\(way)")
        }
    }

    @Test("the same purchase again states nothing new")
    func repeated() async throws {
        try await Self.eachWay { bundle, way in
            let first = try await bundle.handIn(way)
            try await bundle.server.isFolded()
            let events = try await bundle.server.sql("select count(*)::text from subledger.event")
            let second = try await bundle.handIn(way)

            #expect([first, second].map(\.status) == [200, 200], "\(way): \(second.body)")
            #expect(second.json["linked"] as? Bool == true, "\(way): \(second.body)")
            #expect(Self.list(second, "subscriptions").count == 1, "\(way)")
            #expect(try await bundle.server.sql("select count(*)::text from subledger.event") == events, "\(way)")
        }
    }

    @Test("six hand-ins of one purchase at once have one event and one link")
    func atOnce() async throws {
        try await Self.eachWay { bundle, way in
            let before = try await bundle.server.sql("select position::text from subledger.event").count
            let answers = try await withThrowingTaskGroup(of: HTTPAnswer.self) { group in
                for _ in 0..<6 { group.addTask { try await bundle.handIn(way, customer: "of \(way)") } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            try await bundle.server.isFolded()

            #expect(answers.map(\.status) == Array(repeating: 200, count: 6), "\(way): \(answers.map(\.body))")
            #expect(answers.allSatisfy { $0.json["linked"] as? Bool == true }, "\(way)")
            #expect(answers.allSatisfy { Self.list($0, "subscriptions").count == 1 }, "\(way)")
            let events = try await bundle.server.sql("select kind from subledger.event order by position")
            #expect(events.count == before + 2, "\(way): \(events)")
        }
    }

    @Test("what another customer keeps is not shown, whatever proves the purchase")
    func ofOtherCustomer() async throws {
        try await HandInBundle.with { bundle in
            try await bundle.set(policy: "first-buyer")
            for way in HandInWay.allCases {
                _ = try await bundle.handIn(way, customer: "owner of \(way)")
                try await bundle.server.isFolded()
                let answer = try await bundle.handIn(way, customer: "other of \(way)")

                #expect(answer.status == 200, "\(way): \(answer.body)")
                #expect(answer.json["linked"] as? Bool == false, "\(way)")
                #expect(Self.registered(answer) == "otherCustomer", "\(way)")
                #expect((answer.json["checks"] as? [String: Any])?["inForce"] == nil, "\(way)")
                #expect(Self.list(answer, "subscriptions").isEmpty, "\(way)")
                #expect(Self.list(answer, "entitlements").isEmpty, "\(way)")
                #expect(!answer.body.contains("owner of"), "\(way)")
                #expect(!answer.body.contains(HandInBundle.id(way, 1)), "\(way)")
            }
        }
    }

    @Test("by the standard policy a purchase moves to who proves it last; an id proves nothing")
    func moves() async throws {
        try await Self.eachWay { bundle, way in
            _ = try await bundle.handIn(way, customer: "first of \(way)")
            try await bundle.server.isFolded()
            bundle.clock.advance(by: .seconds(2))
            let answer = try await bundle.handIn(way, customer: "second of \(way)")
            try await bundle.server.isFolded()
            bundle.clock.advance(by: .seconds(2))
            let back = try await bundle.handIn(way, customer: "first of \(way)")

            #expect(answer.status == 200, "\(way): \(answer.body)")
            #expect(Self.registered(answer) == "otherCustomer", "\(way)")
            #expect(answer.json["linked"] as? Bool == (way != .transactionId), "\(way): \(answer.body)")
            #expect(Self.list(answer, "subscriptions").count == (way == .transactionId ? 0 : 1), "\(way)")
            #expect(back.json["linked"] as? Bool == true, "\(way): \(back.body)")
            #expect(Self.list(back, "subscriptions").count == 1, "\(way)")
        }
    }

    @Test("thousands of purchases of a customer change hands once; the next move waits, and all else goes on")
    func movesOfMany() async throws {
        try await HandInBundle.with { bundle in
            for way in HandInWay.allCases where way != .transactionId {
                let (anna, boris, clara) = ("anna of \(way)", "boris of \(way)", "clara of \(way)")
                _ = try await bundle.handIn(way, customer: anna)
                try await bundle.server.isFolded()
                // Anna has bought coins for years.
                try await bundle.script(
                    """
                    insert into subledger.ownership
                    select stream_id, 'coins-' || number || ' of \(way)', starts_at, ends_at, customer_kind, customer_id,
                      reason, position
                    from subledger.ownership cross join generate_series(1, 9999) as number
                    where customer_id = '\(anna)'
                    """)
                bundle.clock.advance(by: .seconds(2))
                let moved = try await bundle.handIn(way, customer: boris)
                try await bundle.server.isFolded()
                try await bundle.script(
                    "update subledger.ownership set customer_id = '\(boris)' where customer_id = '\(anna)'")
                bundle.clock.advance(by: .seconds(2))
                let events = try await bundle.server.sql("select count(*)::text from subledger.event")

                #expect(moved.status == 200, "\(way): \(moved.body)")
                #expect(moved.json["linked"] as? Bool == true, "\(way): \(moved.body)")
                for customer in [anna, clara] {
                    let answer = try await bundle.handIn(way, customer: customer)

                    #expect(answer.status == 429, "\(way): \(answer.body)")
                    #expect(answer.headers["retry-after"] != nil, "\(way)")
                    #expect(!answer.body.contains("boris"), "\(way)")
                }
                #expect(try await bundle.server.sql("select count(*)::text from subledger.event") == events, "\(way)")
                #expect(try await bundle.handIn(way, customer: boris).status == 200, "\(way)")
                #expect(try await bundle.handIn(way, 2, customer: anna).status == 200, "\(way)")
            }
        }
    }

    @Test("no move is counted where nothing is taken: from a member of a seat, and between customers who share")
    func noMoves() async throws {
        for policy in ["latest-buyer", "shared"] {
            try await HandInBundle.with { bundle in
                try await bundle.set(policy: policy)
                for way in [HandInWay.receipt, .transaction, .purchaseToken] {
                    let (anna, boris) = ("anna of \(way)", "boris of \(way)")
                    _ = try await bundle.handIn(way, customer: anna)
                    if policy == "shared" { _ = try await bundle.handIn(way, customer: boris) }
                    try await bundle.server.isFolded()
                    // Boris has a seat of Anna's purchase, or shares it, and has bought coins for years.
                    try await bundle.script(
                        """
                        insert into subledger.ownership
                        select stream_id,
                          case number when 0 then original_transaction_id else 'coins-' || number || ' of \(way)' end,
                          starts_at, ends_at, customer_kind, '\(boris)', case number when 0 then 'seat' else reason end,
                          position
                        from subledger.ownership cross join generate_series(0, 9999) as number
                        where customer_id = '\(anna)'
                        on conflict do nothing
                        """)
                    for customer in policy == "shared" ? [anna, boris] : [anna] {
                        for _ in 0..<2 {
                            let answer = try await bundle.handIn(way, customer: customer)

                            #expect(answer.status == 200, "\(policy), \(way): \(answer.body)")
                            #expect(answer.json["linked"] as? Bool == true, "\(policy), \(way): \(answer.body)")
                        }
                    }
                }
            }
        }
    }

    /// The account ids that the app got for two of its users, who buy in one way only.
    private static func accounts(_ way: HandInWay) -> (anna: String, boris: String) {
        let place = HandInWay.allCases.firstIndex(of: way) ?? 0
        return ("7e3fb204-2c1f-4c5c-8e4f-1f0f0f6b7a0\(place)", "0b6a7f10-55a1-4c5b-9b1e-3d2f5f0c8b0\(place)")
    }

    @Test(
        "an account id that the backend names decides: a purchase with another one is not linked, under any policy",
        arguments: ["latest-buyer", "first-buyer", "shared"])
    func namedAccount(_ policy: String) async throws {
        try await HandInBundle.with { bundle in
            try await bundle.set(policy: policy)
            for way in HandInWay.allCases where !way.isOfApp {
                let (anna, boris) = ("anna of \(way)", "boris of \(way)")
                let accounts = Self.accounts(way)
                func handIn(_ customer: String, naming account: String?) async throws -> HTTPAnswer {
                    bundle.clock.advance(by: .seconds(2))
                    let answer = try await bundle.handIn(
                        way, customer: customer, carrying: accounts.anna,
                        more: account.map { [way.accountMember: $0] } ?? [:])
                    try await bundle.server.isFolded()
                    return answer
                }

                // Boris has copied Anna's purchase, and is first.
                let copied = try await handIn(boris, naming: accounts.boris)
                let again = try await handIn(boris, naming: accounts.boris)
                let own = try await handIn(anna, naming: accounts.anna.uppercased())
                let later = try await handIn(boris, naming: accounts.boris)
                let entitled = try await bundle.server.backend.get(
                    "/customers/anna%20of%20\(way)/entitlements?as=link&environment=sandbox")

                for answer in [copied, again, later] {
                    #expect(answer.status == 200, "\(way): \(answer.body)")
                    #expect(answer.json["linked"] as? Bool == false, "\(way): \(answer.body)")
                    #expect(Self.list(answer, "entitlements").isEmpty, "\(way)")
                }
                #expect(own.json["linked"] as? Bool == true, "\(way): \(own.body)")
                #expect(Self.list(own, "entitlements").map { $0["active"] as? Bool } == [true], "\(way)")
                #expect(Self.list(entitled, "entitlements").map { $0["active"] as? Bool } == [true], "\(way)")
            }
        }
    }

    @Test("under first-buyer, who names the account id of the first purchase gets it from who handed it in without one")
    func namedLater() async throws {
        try await HandInBundle.with { bundle in
            try await bundle.set(policy: "first-buyer")
            for way in HandInWay.allCases where !way.isOfApp && way != .transactionId {
                let (anna, boris) = ("anna of \(way)", "boris of \(way)")
                let accounts = Self.accounts(way)
                let copied = try await bundle.handIn(way, customer: boris, carrying: accounts.anna)
                try await bundle.server.isFolded()
                bundle.clock.advance(by: .seconds(400))
                let own = try await bundle.handIn(
                    way, customer: anna, carrying: accounts.anna, more: [way.accountMember: accounts.anna])
                try await bundle.server.isFolded()
                bundle.clock.advance(by: .seconds(400))
                let later = try await bundle.handIn(way, customer: boris, carrying: accounts.anna)

                #expect(copied.json["linked"] as? Bool == true, "\(way): \(copied.body)")
                #expect(own.json["linked"] as? Bool == true, "\(way): \(own.body)")
                #expect(later.json["linked"] as? Bool == false, "\(way): \(later.body)")
            }
        }
    }

    @Test("a purchase without an account id is linked as before; an app cannot name one, and it needs a customer")
    func namedWithout() async throws {
        try await Self.eachWay { bundle, way in
            let named = [way.accountMember: Self.accounts(way).anna]
            let answer = try await bundle.handIn(way, customer: "of \(way)", more: named)

            guard !way.isOfApp else {
                #expect(answer.status == 403, "\(way): \(answer.body)")
                return
            }
            #expect(answer.json["linked"] as? Bool == true, "\(way): \(answer.body)")
            let nobody = try await bundle.handIn(way, customer: nil, more: named)
            #expect(nobody.status == 400, "\(way)")
            #expect(nobody.json["field"] as? String == way.accountMember)
            let empty = try await bundle.handIn(way, customer: "of \(way)", more: [way.accountMember: ""])
            #expect(empty.status == 400, "\(way)")
        }
    }

    @Test("a purchase of Google Play and a receipt that are pending keep the account id")
    func namedPending() async throws {
        try await HandInBundle.with { bundle in
            for way in [HandInWay.receipt, .purchaseToken] {
                let accounts = Self.accounts(way)
                bundle.stores.beSilent(true)
                let pending = try await bundle.handIn(
                    way, customer: "boris", carrying: accounts.anna, more: [way.accountMember: accounts.boris])
                bundle.stores.beSilent(false)

                #expect(pending.status == 202, "\(way): \(pending.body)")
            }
            #expect(
                try await bundle.server.sql("select account_id from subledger.receipt")
                    == [Self.accounts(.receipt).boris])
            #expect(
                try await bundle.server.sql("select account_ids ->> 'boris' from subledger.google_purchase")
                    == [Self.accounts(.purchaseToken).boris])
        }
    }

    @Test("an answer waits for the fold, and says so if the fold takes too long; what is not folded is not in force")
    func unfolded() async throws {
        try await HandInBundle.with { bundle in
            // The stream of each app exists and is folded.
            for way in [HandInWay.transaction, .purchaseToken] { _ = try await bundle.handIn(way, 2) }
            try await bundle.server.isFolded()
            let blocker = try await TestCluster.connect(bundle.server.database)
            try await blocker.script(
                "begin; select from subledger.checkpoint for update", deadline: .now + .seconds(10))
            let answers = try await withThrowingTaskGroup(of: (HandInWay, HTTPAnswer).self) { group in
                for way in HandInWay.allCases { group.addTask { (way, try await bundle.handIn(way)) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            try await blocker.script("rollback", deadline: .now + .seconds(10))
            await blocker.close()
            try await bundle.server.isFolded()

            for (way, answer) in answers {
                #expect(answer.status == 200, "\(way): \(answer.body)")
                #expect(answer.json["projected"] as? Bool == false, "\(way)")
                #expect(answer.json["linked"] as? Bool == true, "\(way)")
                #expect((answer.json["checks"] as? [String: Any])?["inForce"] == nil, "\(way)")
                let later = try await bundle.handIn(way)
                #expect(later.json["projected"] as? Bool == true, "\(way): \(later.body)")
                #expect(Self.list(later, "subscriptions").count == 1, "\(way)")
            }
        }
    }

    @Test("a store that does not answer is waited for five seconds; what can be asked about later is pending")
    func silentStore() async throws {
        try await HandInBundle.with { bundle in
            bundle.stores.beSilent(true)
            let start = ContinuousClock.now
            let answers = try await withThrowingTaskGroup(of: (HandInWay, HTTPAnswer).self) { group in
                for way in HandInWay.allCases where way.asks {
                    group.addTask { (way, try await bundle.handIn(way)) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let duration = ContinuousClock.now - start

            #expect(duration > .seconds(4) && duration < .seconds(20), "\(duration)")
            for (way, answer) in answers {
                #expect(answer.status == (way == .transactionId ? 503 : 202), "\(way): \(answer.body)")
                guard way != .transactionId else { continue }
                #expect(answer.json["state"] as? String == "pending", "\(way)")
                #expect(answer.json["app"] as? String == way.app, "\(way)")
            }
            #expect(try await bundle.server.sql("select kind from subledger.event") == [])
        }
    }

    // MARK: - Bad input

    @Test("a purchase of the sandbox grants nothing, unless the request asks for it")
    func environments() async throws {
        try await Self.eachWay { bundle, way in
            for query in ["", "&environment=production"] {
                let answer = try await bundle.handIn(way, query: "?app=\(way.app)\(query)")
                #expect(answer.status == 422, "\(way): \(answer.body)")
                #expect(answer.json["field"] as? String == "environment", "\(way)")
                #expect(answer.json["entitlements"] == nil, "\(way)")
            }
            #expect(try await bundle.handIn(way, query: "?app=\(way.app)&environment=sandbox").status == 200, "\(way)")
            #expect(try await bundle.handIn(way, query: "?app=\(way.app)&environment=all").status == 400, "\(way)")
        }
    }

    @Test("an app that is missing, unknown or of the other store is refused, and no store is asked")
    func apps() async throws {
        try await Self.eachWay { bundle, way in
            let other = way.app == SignedBody.app ? ScriptedGoogle.app : SignedBody.app
            let missing = try await bundle.handIn(way, query: "?environment=any")
            #expect(missing.status == 400, "\(way): \(missing.body)")
            #expect(missing.json["field"] as? String == "app", "\(way)")
            for app in ["com.example.unknown", other] {
                let answer = try await bundle.handIn(way, query: "?app=\(app)&environment=any")
                #expect(answer.status == (way.isOfApp ? 403 : 404), "\(way): \(answer.body)")
                #expect(answer.json["field"] as? String == "app", "\(way)")
            }
            #expect(try await bundle.server.sql("select kind from subledger.event") == [])
            #expect(bundle.stores.receipts.requests.isEmpty && bundle.stores.google.requests.isEmpty, "\(way)")
        }
    }

    @Test("what is not a request is refused with its field, and no store is asked")
    func malformed() async throws {
        try await Self.eachWay { bundle, way in
            for body in ["", "[]", "eyJ", "7"] {
                let answer = try await bundle.post(Array(body.utf8), way)
                #expect(answer.status == 400, "\(way): \(body): \(answer.body)")
                #expect(answer.json["field"] == nil, "\(way): \(body)")
            }
            // Any text can be one that is signed.
            for value in (way == .signedPurchase ? [] : [""]) + [7, [], NSNull()] as [Any] {
                let answer = try await bundle.handIn(way, more: [way.field: value])
                #expect(answer.status == 400, "\(way): \(value): \(answer.body)")
                #expect(answer.headers["content-type"] == "application/problem+json", "\(way): \(value)")
                let field = answer.json["field"] as? String
                #expect(
                    field == way.field || way == .transactionId && field == "signedTransaction"
                        || way == .signedPurchase && field == "purchaseToken", "\(way): \(value): \(answer.body)")
            }
            for value in [7, [], "", "a\u{0}b", String(repeating: "u", count: 257)] as [Any] {
                let answer = try await bundle.handIn(way, more: ["customerId": value])
                #expect(answer.status == 400, "\(way): \(value): \(answer.body)")
                #expect(answer.json["field"] as? String == "customerId", "\(way): \(value)")
            }
            #expect(try await bundle.server.sql("select kind from subledger.event") == [])
            #expect(bundle.stores.receipts.requests.isEmpty && bundle.stores.google.requests.isEmpty, "\(way)")
        }
    }

    @Test("a body beyond the limit of its address is refused with the limit")
    func tooLarge() async throws {
        try await Self.eachWay { bundle, way in
            let answer = try await bundle.handIn(way, more: ["more": String(repeating: "a", count: 7 << 20)])
            #expect(answer.status == 413, "\(way): \(answer.status) \(answer.body)")
            #expect((answer.json["detail"] as? String)?.hasPrefix("the body is larger than ") == true, "\(way)")
        }
    }

    @Test("an app hands in for its user alone")
    func ofUser() async throws {
        try await HandInBundle.with { bundle in
            for way in HandInWay.allCases where way.isOfApp {
                let other = try await bundle.handIn(way, more: ["customerId": "u-2"])
                let same = try await bundle.handIn(way, more: ["customerId": "u-1"])
                #expect(other.status == 403 && other.json["field"] as? String == "customerId", "\(way)")
                #expect(same.status == 200, "\(way): \(same.body)")
            }
        }
    }
}
