import AppStore
import Encoding
import EventLog
import Projector
import Simulation
import Subscriptions
import TestSupport
import Testing
import Verification

/// The simulator renders the notifications by Apple's documentation alone: no genuine body with seats was seen.
@Suite("Seats are given by a backend, as many as were bought")
struct SeatRoutesTests {
    private static let app = SimulatedApp(bundleId: "com.example.team")
    private static let here = "app=com.example.team&environment=sandbox"
    private static let team = Product.subscription(.plus, .monthly, of: "com.example.team")
    private static let signer = JWSSigner(.standard)

    private static func day(_ text: String) -> Instant { Instant(iso8601: text)! }

    private static func seats(_ quantity: Int, _ invitations: Seats.Invitations = .developer) -> Seats {
        Seats([Seats.Tier(price: 2000, quantity: quantity)], invitations)
    }

    private static func life(_ number: Int = 0, _ bought: Seats? = seats(2)) -> SubscriptionLife {
        let identifiers = Identifiers(seed: 9, index: number, subscription: 0)
        var life = SubscriptionLife(
            customer: Customer(
                storefront: Storefront.all[0], appAccountToken: nil,
                appTransactionId: identifiers.appTransactionId(), isFamilyMember: false), identifiers: identifiers)
        life.subscribe(to: team, at: day("2025-01-10"), seats: bought)
        return life
    }

    private static func withServer(_ test: (TestBundle, SetClock) async throws -> Void) async throws {
        let clock = SetClock(day("2025-01-12"))
        try await TestBundle.withServer(
            apps: [App(bundleId: app.bundleId)], roots: SignedBody.roots, now: { clock.now }
        ) { server in
            try await test(server, clock)
        }
    }

    /// Sends the notifications of a life that were not sent before.
    private static func post(_ life: SubscriptionLife, after count: Int = 0, _ server: TestBundle) async throws {
        for notification in life.notifications.dropFirst(count) {
            guard let signed = notification.version2Notification(app: app, customer: life.customer) else { continue }
            let answer = try await server.apple.post(signed.body(signer))
            #expect(answer.status == 200, "\(answer.body)")
        }
        try await server.isFolded()
    }

    private static func send(
        _ method: String, _ customer: String, of id: String, _ server: TestBundle
    ) async throws -> HTTPAnswer {
        try await server.owner.send(method, "/subscriptions/\(id)/seats/\(customer)?\(here)")
    }

    private static func claim(_ customers: String..., of id: String, _ server: TestBundle) async throws {
        for customer in customers {
            let answer = try await send("PUT", customer, of: id, server)
            #expect(answer.status == 200, "\(customer): \(answer.body)")
        }
        try await server.isFolded()
    }

    /// The customers among some who have access now.
    private static func holders(
        _ server: TestBundle, at day: String, among customers: [String] = ["u-1", "u-2", "u-3"], _ more: String = ""
    ) async throws -> [String] {
        var holders: [String] = []
        for customer in customers {
            let answer = try await server.backend.get(
                "/customers/\(customer)/entitlements?\(here)&at=\(day)T00:00:00Z\(more)")
            let entitlements = answer.json["entitlements"] as? [[String: Any]] ?? []
            if entitlements.contains(where: { $0["active"] as? Bool == true }) { holders.append(customer) }
        }
        return holders
    }

    private static func isSound(_ server: TestBundle) async throws {
        let role = server.database.with(role: "subledger_projector")
        let (events, rows) = (try await TestCluster.connect(role), try await TestCluster.connect(role))
        let outcome = try await DatabaseVerifier(
            log: LogAudit(connection: events), projections: try await ProjectionAudit(connection: rows, seed: 1),
            signatures: SignatureVerifier(roots: SignedBody.roots), extent: .all
        ).run()
        await events.close()
        await rows.close()
        #expect(outcome.finding?.description == nil)
    }

    @Test("a seat is access from the claim until it is taken back; a repeat states nothing new, and no more are given")
    func give() async throws {
        try await Self.withServer { server, clock in
            let life = Self.life()
            let id = life.originalTransactionId
            try await Self.post(life, server)
            let first = try await Self.send("PUT", "u-1", of: id, server)
            let again = try await Self.send("PUT", "u-1", of: id, server)
            try await Self.claim("u-2", of: id, server)
            let third = try await Self.send("PUT", "u-3", of: id, server)
            let shown = try await server.backend.get("/subscriptions/\(id)?\(Self.here)")
            let explained = try await server.backend.get(
                "/customers/u-1/explanation?\(Self.here)&entitlement=\(Self.team.id)")
            let before = try await Self.holders(server, at: "2025-01-11")
            let during = try await Self.holders(server, at: "2025-01-13")
            clock.set(Self.day("2025-01-20"))
            let taken = try await Self.send("DELETE", "u-1", of: id, server)
            try await server.isFolded()
            let twice = try await Self.send("DELETE", "u-1", of: id, server)
            try await Self.claim("u-3", of: id, server)
            let after = try await Self.holders(server, at: "2025-01-21")
            let known = try await Self.holders(server, at: "2025-01-21", "&knownAt=2025-01-13T00:00:00Z")
            let ended = try await server.backend.get(
                "/customers/u-1/explanation?\(Self.here)&entitlement=\(Self.team.id)&at=2025-01-21T00:00:00Z")
            let history = try await server.backend.get("/customers/u-1/history?\(Self.here)")
            let kinds = try await server.sql("select kind || ' ' || source from subledger.event order by position")
            let purchaser = try await Self.holders(server, at: "2025-01-21", among: [id])

            #expect(first.status == 200 && first.json["duplicate"] as? Bool == false, "\(first.body)")
            #expect(again.json["duplicate"] as? Bool == true && again.json["position"] as? Int == 3, "\(again.body)")
            #expect(third.status == 409 && third.body.contains("2 of 2 are claimed"), "\(third.body)")
            let seats = shown.json["seats"] as? [String: Any]
            let claims = seats?["claims"] as? [[String: Any]] ?? []
            #expect(seats?["number"] as? Int == 2)
            #expect(
                claims.map { "\($0["customerId"] ?? "") \($0["hasSeat"] as? Bool == true)" } == [
                    "u-1 true", "u-2 true",
                ])
            #expect(shown.json["defects"] == nil)
            #expect(explained.body.contains(#""rule":"tied_by_seat""#), "\(explained.body)")
            #expect(before == [] && during == ["u-1", "u-2"])
            #expect(taken.json["duplicate"] as? Bool == false && twice.json["duplicate"] as? Bool == true)
            #expect(after == ["u-2", "u-3"] && known == ["u-1", "u-2"])
            #expect(
                ended.json["active"] as? Bool == false && ended.body.contains(#""rule":"seat_ended""#), "\(ended.body)")
            let entries = (history.json["history"] as? [[String: Any]] ?? []).map { $0["kind"] as? String ?? "" }
            #expect(entries == ["customer_changed", "closed", "opened", "customer_changed"], "\(history.body)")
            #expect(
                kinds.dropFirst() == [
                    "link backend", "seat_claim backend", "link backend", "seat_claim backend", "seat_release backend",
                    "link backend", "seat_claim backend",
                ])
            #expect(purchaser == [id])
            try await Self.isSound(server)
        }
    }

    @Test("a smaller renewal takes the newest claims theirs, loudly; a larger one gives them back")
    func fewer() async throws {
        try await Self.withServer { server, clock in
            var life = Self.life()
            let id = life.originalTransactionId
            try await Self.post(life, server)
            try await Self.claim("u-1", "u-2", of: id, server)
            let start = try await server.backend.get("/changes?\(Self.here)&after=now")
            let cursor = start.json["cursor"] as? String ?? ""
            var count = life.notifications.count
            life.chooseSeats([Seats.Tier(price: 2000, quantity: 1)], at: Self.day("2025-02-01"))
            clock.set(Self.day("2025-02-10"))
            life.renew()
            try await Self.post(life, after: count, server)
            let fewer = try await Self.holders(server, at: "2025-02-11")
            let shown = try await server.backend.get("/subscriptions/\(id)?\(Self.here)")
            let changes = try await server.backend.get("/changes?\(Self.here)&after=\(cursor)&limit=100")
            let refused = try await Self.send("PUT", "u-3", of: id, server)
            let repeated = try await Self.send("PUT", "u-2", of: id, server)
            count = life.notifications.count
            clock.set(Self.day("2025-02-20"))
            life.addSeats([Seats.Tier(price: 2000, quantity: 1)], at: Self.day("2025-02-20"))
            try await Self.post(life, after: count, server)
            let more = try await Self.holders(server, at: "2025-02-21")
            let past = try await Self.holders(server, at: "2025-02-11")

            #expect(fewer == ["u-1"])
            let defects = shown.json["defects"] as? [[String: Any]] ?? []
            #expect(defects.compactMap { $0["customerId"] as? String } == ["u-2"], "\(shown.body)")
            let lost = (changes.json["changes"] as? [[String: Any]] ?? []).filter {
                $0["kind"] as? String == "customer_changed"
            }
            #expect(lost.count == 1 && lost.first?["until"] == nil, "\(changes.body)")
            #expect((lost.first?["reason"] as? String)?.hasPrefix("The seat of ") == true, "\(changes.body)")
            #expect(changes.body.contains(#""kind":"seats_changed""#))
            #expect(server.logs.text.contains("warning fewer seats than claims: newest claims lost theirs"))
            #expect(refused.status == 409 && refused.body.contains("2 of 1 are claimed"), "\(refused.body)")
            #expect(repeated.json["duplicate"] as? Bool == true, "\(repeated.body)")
            #expect(more == ["u-1", "u-2"] && past == ["u-1"])
            try await Self.isSound(server)
        }
    }

    @Test("nobody is counted as a payer or an owner for a seat, and links of the member's leave it alone")
    func figures() async throws {
        try await Self.withServer { server, clock in
            let life = Self.life()
            try await Self.post(life, server)
            func figures() async throws -> [String] {
                try await server.sql(
                    """
                    select 'active ' || to_jsonb(figure)::text from analyst.active_customers as figure
                    union all
                    select 'movements ' || to_jsonb(figure)::text from analyst.customer_movements as figure
                    union all
                    select 'revenue ' || to_jsonb(figure)::text from analyst.revenue as figure
                    union all
                    select 'owner ' || to_jsonb(figure)::text from analyst.first_owners as figure
                    order by 1
                    """)
            }
            let before = try await figures()
            try await Self.claim("u-1", of: life.originalTransactionId, server)
            let emptied = try await server.owner.put(#"{"links":[]}"#, to: "/customers/u-1/links?\(Self.here)")
            try await server.isFolded()
            let holders = try await Self.holders(server, at: "2025-01-13")
            let linked = try await server.owner.put(
                #"{"links":[{"originalTransactionId":"\#(life.originalTransactionId)"}]}"#,
                to: "/customers/u-9/links?\(Self.here)")
            try await server.isFolded()
            let reasons = try await server.sql(
                "select customer_id || ' ' || reason from analyst.customers order by 1")

            #expect(!before.isEmpty)
            #expect(emptied.status == 200 && holders == ["u-1"])
            #expect(linked.status == 200)
            #expect(reasons == ["u-1 seat", "u-9 link"])
            let after = try await figures()
            #expect(
                after.filter { !$0.hasPrefix("owner") && !$0.hasPrefix("movements") }
                    == before.filter { !$0.hasPrefix("owner") && !$0.hasPrefix("movements") })
            #expect(after.filter { $0.hasPrefix("owner") }.count == 1)
            try await Self.isSound(server)
        }
    }

    @Test("a claim that cannot be is refused, with the reason")
    func refused() async throws {
        try await Self.withServer { server, _ in
            let (single, invited, team) = (Self.life(1, nil), Self.life(2, Self.seats(2, .apple)), Self.life(3))
            for life in [single, invited, team] { try await Self.post(life, server) }
            let link = try await server.client(with: .link)
            let scope = try await link.send(
                "PUT", "/subscriptions/\(team.originalTransactionId)/seats/u-1?\(Self.here)")
            let app = try await server.owner.send(
                "PUT", "/subscriptions/\(team.originalTransactionId)/seats/u-1?app=com.example.other")
            let cases: [(String, String, Int, String)] = [
                ("PUT", "7", 404, "no subscription with this id"),
                ("DELETE", "7", 404, "no subscription with this id"),
                ("PUT", single.originalTransactionId, 409, "has no seats"),
                ("PUT", invited.originalTransactionId, 409, "invites the members"),
                ("DELETE", team.originalTransactionId, 404, "has claimed no seat"),
            ]
            for (method, id, status, text) in cases {
                let answer = try await Self.send(method, "u-1", of: id, server)
                #expect(answer.status == status && answer.body.contains(text), "\(method) \(id): \(answer.body)")
            }
            let long = try await Self.send(
                "PUT", String(repeating: "u", count: 257), of: team.originalTransactionId, server)

            #expect(scope.status == 403)
            #expect(app.status == 404)
            #expect(long.status == 400 && long.json["field"] as? String == "customerId", "\(long.body)")
            #expect(try await server.sql("select kind from subledger.event where source = 'backend'") == [])
        }
    }

    @Test("of several who claim at once, as many get a seat as there are")
    func atOnce() async throws {
        try await Self.withServer { server, _ in
            let life = Self.life()
            try await Self.post(life, server)
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 1...8 {
                    group.addTask {
                        try await Self.send("PUT", "u-\(number)", of: life.originalTransactionId, server).status
                    }
                }
                return try await group.reduce(into: [Int]()) { $0.append($1) }
            }
            try await server.isFolded()

            #expect(statuses.sorted() == [200, 200, 409, 409, 409, 409, 409, 409])
            #expect(
                try await server.sql("select count(*)::text from subledger.ownership where reason = 'seat'") == ["2"])
        }
    }
}
