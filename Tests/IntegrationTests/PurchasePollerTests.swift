import Encoding
import EventLog
import Foundation
import HTTPServer
import PlayStore
import Postgres
import Readers
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("Questions to Google Play")
struct PurchasePollerTests {
    private static let start = TestBundle.now
    private static let end = start.advanced(by: .seconds(30 * 86_400))
    private static let path = "purchases/subscriptionsv2/tokens/token-1"
    private static let acknowledge = "purchases/subscriptions/premium/tokens/token-1:acknowledge"

    private static let events = """
        select concat_ws(' ', environment, source, position)
        from subledger.event
        join subledger.stream using (stream_id)
        order by received_at, stream_id, position
        """ as StaticString
    fileprivate static let state = """
        select concat_ws(
          ' ', result, failures, mismatches,
          -- 2 if only the schedule leads to a question.
          coalesce(rank, (select 2 from subledger.check_schedule where check_schedule.purchase_token = known.purchase_token)),
          unacknowledged_since is not null)
        from subledger.google_purchase as known
        """ as StaticString

    private struct Bundle {
        let server: TestBundle
        let google: ScriptedGoogle
        let clock: SetClock
        let poller: PurchasePoller
        let voids: VoidAudits
        let handIns: PurchaseHandIn

        /// Posts a push about the purchase.
        func push(_ type: Int, id: String) async throws {
            let body = ScriptedGoogle.push(type, "token-1", id: id, at: clock.now)
            #expect(try await server.push(body, at: clock.now).status == 200)
        }

        /// The purchase in the queue, once the schedule knows of all answers.
        func state() async throws -> [String] {
            try await server.isFolded()
            return try await server.sql(PurchasePollerTests.state)
        }

        @discardableResult
        func round() async throws -> PollRound {
            // What an answer changes is decided by the projections.
            try await server.isFolded()
            return try await poller.round(at: clock.now)
        }

        /// Lets the time pass to the next question, and asks it.
        func next() async throws -> PollRound {
            let due = try #require(try await round().nextDue)
            clock.pass(to: due)
            return try await round()
        }
    }

    private static func withPoller(
        _ app: GoogleApp? = nil, beside others: [GoogleApp] = [], _ test: (Bundle) async throws -> Void
    ) async throws {
        let app = try app ?? ScriptedGoogle.configured()
        let google = try ScriptedGoogle()
        let clock = SetClock(start)
        try await TestBundle.withServer(apps: [], store: google, googleApps: [app] + others, now: { clock.now }) {
            server async throws in
            try await withPoller(of: app, beside: others, on: server, google, clock, test)
        }
    }

    /// A poller of a process of its own.
    private static func withPoller(
        of app: GoogleApp, beside others: [GoogleApp] = [], on server: TestBundle, _ google: ScriptedGoogle,
        _ clock: SetClock,
        _ test: (Bundle) async throws -> Void
    ) async throws {
        let logger = server.logs.logger
        let configuration = server.database.with(role: "subledger_poller")
        let pool = PostgresPool(configuration, limit: 2, logger: logger)
        let receiver = PostgresPool(server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        let (begin, origin) = (clock.now, ContinuousClock.now)
        // All pauses follow the set clock.
        let storeClock = StoreClock(
            date: { clock.now }, now: { origin + begin.duration(to: clock.now) },
            sleep: { _ in
                try Task.checkCancellation()
                await Task.yield()
            })
        let client = GoogleClient(transport: google, clock: storeClock, random: { 0 }, logger: logger)
        let queue = PurchaseQueue(pool: pool)
        let log = LogReader(pool: pool)
        let subscriptions = SubscriptionReader(pool: pool)
        let links = LinkService(log: log, appender: appender, apps: [app.packageName])
        let elector = Elector(configuration)
        let leads = StreamLeadership(elector, for: .google)
        let leadsVoids = StreamLeadership(elector, for: .voids)
        let poller = PurchasePoller(
            client: client, apps: [app] + others, queue: queue, log: log, subscriptions: subscriptions,
            appender: appender, links: links, leadership: leads, clock: storeClock, random: { 0 }, logger: logger)
        let voids = VoidAudits(
            client: client, apps: [app] + others, queue: queue, voids: VoidLog(pool: pool), log: log,
            subscriptions: subscriptions, appender: appender, links: links, leadership: leadsVoids,
            clock: storeClock, random: { 0 }, logger: logger)
        let handIns = PurchaseHandIn(
            client: client, apps: [app], queue: queue, log: log, subscriptions: subscriptions, appender: appender,
            links: links, clock: StoreClock(date: { clock.now }), random: { 0 }, logger: logger)
        async let appending: Void = appender.run()
        let outcome: Result<Void, any Error>
        do {
            let bundle = Bundle(
                server: server, google: google, clock: clock, poller: poller, voids: voids, handIns: handIns)
            outcome = .success(try await test(bundle))
        } catch {
            outcome = .failure(error)
        }
        await leads.release()
        await leadsVoids.release()
        await appender.stop()
        await appending
        await pool.close()
        await receiver.close()
        try outcome.get()
    }

    private static func active(
        end: Instant = end, order: String = "GPA.1", isAcknowledged: Bool = true
    ) -> ScriptedGoogle.Reply {
        ScriptedGoogle.subscription(order: order, start: start, end: end, isAcknowledged: isAcknowledged)
    }

    @Test("a notification leads to a question, the answer to an event of the purchase's environment")
    func asked() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(
                Self.path, ScriptedGoogle.subscription(start: Self.start, end: Self.end, isTest: true))
            try await bundle.push(4, id: "1")
            try await bundle.push(4, id: "2")

            let round = try await bundle.round()
            let again = try await bundle.round()

            #expect(round.asked == 1)
            #expect(again.asked == 0)
            #expect(bundle.google.requests == ["GET \(Self.path)", "GET orders/GPA.1"])
            #expect(bundle.google.tokens == 1)
            #expect(
                try await bundle.server.sql(Self.events)
                    == ["unknown google-rtdn 1", "unknown google-rtdn 2", "sandbox google-api 1"])
        }
    }

    @Test("an answer that states nothing new is recorded as a check, and not appended")
    func unchanged() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            bundle.clock.advance(by: .seconds(60))
            try await bundle.push(7, id: "2")
            try await bundle.round()

            #expect(
                try await bundle.server.sql(
                    "select concat_ws(' ', original_transaction_id, result, status, position) from subledger.store_check order by asked_at"
                ) == ["token-1 appended 200 1", "token-1 unchanged 200"])
            #expect(
                try await bundle.server.sql("select count(*)::text from subledger.event where source = 'google-api'")
                    == ["1"])
        }
    }

    @Test("an answer in another form that says the same is not appended; one that only moves the expiry is")
    func form() async throws {
        try await Self.withPoller { bundle async throws in
            let later = Self.end.advanced(by: .seconds(86_400))
            bundle.google.answer(
                Self.path, Self.active(),
                ScriptedGoogle.subscription(start: Self.start, end: Self.end, more: #""etag":"x","kind2":{"new":1},"#),
                Self.active(end: later))
            for number in 1...3 {
                try await bundle.push(9, id: "\(number)")
                try await bundle.round()
                bundle.clock.advance(by: .seconds(60))
            }

            #expect(
                try await bundle.server.sql("select result from subledger.store_check order by asked_at")
                    == ["appended", "unchanged", "appended"])
        }
    }

    @Test("an answer like one before the last is new, also while the projections lag")
    func back() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(
                Self.path, Self.active(), ScriptedGoogle.subscription("CANCELED", start: Self.start, end: Self.end),
                Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            try await bundle.server.isFolded()
            let lock = try await TestCluster.connect(bundle.server.database)
            _ = try await lock.query(Statement("begin", "begin"), deadline: .now + .seconds(30))
            _ = try await lock.query(
                Statement("lock", "lock table subledger.subscription in share mode"),
                deadline: .now + .seconds(30))
            for (type, id) in [(3, "2"), (7, "3")] {
                bundle.clock.advance(by: .seconds(60))
                try await bundle.push(type, id: id)
                _ = try await bundle.poller.round(at: bundle.clock.now)
            }
            await lock.close()

            #expect(
                try await bundle.server.sql(
                    "select result from subledger.store_check where status = 200 order by asked_at")
                    == ["appended", "appended", "appended"])
        }
    }

    @Test("a customer who handed a purchase in while Google was away is linked after the answer, once")
    func handedIn() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            bundle.google.fail(1000)
            for customer in ["u-1", "u-2", "u-1"] {
                let body = #"{"purchaseToken":"token-1","customerId":"\#(customer)"}"#
                let answer = try await bundle.server.owner.post(
                    Array(body.utf8), to: "/purchases?app=\(ScriptedGoogle.app)")
                #expect(answer.status == 202, "\(answer.body)")
            }
            let waiting = try await bundle.server.sql("select customer_ids::text from subledger.google_purchase")
            bundle.google.fail(0)
            bundle.clock.advance(by: .seconds(3600))
            #expect(try await bundle.round().asked == 1)
            try await bundle.push(7, id: "1")
            #expect(try await bundle.round().asked == 1)

            #expect(waiting == ["{u-1,u-2}"])
            #expect(
                try await bundle.server.sql("select customer_ids::text from subledger.google_purchase") == ["{}"])
            #expect(
                try await bundle.server.sql(
                    """
                    select facts #>> '{link,backendCustomerId}'
                    from subledger.event
                    where source = 'backend'
                    order by position
                    """) == ["u-1", "u-2"])
        }
    }

    @Test("a failed question is no fact: it is recorded and asked again, and what was known holds")
    func failed() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            bundle.clock.advance(by: .seconds(60))
            // A question has four calls; the fifth failure in a row would stop all calls.
            bundle.google.fail(4)
            try await bundle.push(13, id: "2")
            let failed = try await bundle.round()
            let between = try await bundle.state()
            bundle.google.answer(
                Self.path, ScriptedGoogle.subscription("EXPIRED", start: Self.start, end: bundle.clock.now))
            let again = try await bundle.next()

            #expect(failed.asked == 1)
            #expect(between == ["unavailable 1 0 1 f"])
            #expect(again.asked == 1)
            #expect(
                try await bundle.server.sql("select result from subledger.store_check order by asked_at")
                    == ["appended", "unavailable", "appended"])
        }
    }

    @Test("after an outage of a day every granted purchase is acknowledged within minutes, and no other one")
    func away() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.fail(1_000_000)
            let granted = (1...40).map { "t-\($0)" } + ["canceled", "grace"]
            let states = [
                "canceled": "CANCELED", "grace": "IN_GRACE_PERIOD", "pending": "PENDING", "hold": "ON_HOLD",
                "paused": "PAUSED", "expired": "EXPIRED", "dropped": "PENDING_PURCHASE_CANCELED",
            ]
            let tokens = granted + states.keys.filter { !granted.contains($0) }.sorted() + ["unknown"]
            for (number, token) in tokens.enumerated() {
                let body = ScriptedGoogle.push(4, token, id: "\(number)", at: bundle.clock.now)
                #expect(try await bundle.server.push(body, at: bundle.clock.now).status == 200)
            }
            for _ in 0..<24 * 6 {
                try await bundle.round()
                bundle.clock.advance(by: .seconds(600))
            }
            let during = bundle.google.requests.count
            let back = bundle.clock.now
            for token in tokens where token != "unknown" {
                bundle.google.answer(
                    "purchases/subscriptionsv2/tokens/\(token)",
                    ScriptedGoogle.subscription(
                        states[token] ?? "ACTIVE", start: Self.start, end: Self.end, isAcknowledged: false))
                bundle.google.answer(
                    "purchases/subscriptions/premium/tokens/\(token):acknowledge",
                    ScriptedGoogle.Reply(status: 204, body: ""))
            }
            bundle.google.fail(0)
            for _ in 0..<20 {
                try await bundle.round()
                bundle.clock.advance(by: .seconds(30))
            }

            // The breaker lets few calls through.
            #expect(during < 1500, "\(during)")
            let calls = bundle.google.requests.dropFirst(during)
            let acknowledged = calls.filter { $0.hasPrefix("POST") }
                .map { String($0.dropFirst("POST purchases/subscriptions/premium/tokens/".count).prefix { $0 != ":" }) }
            #expect(acknowledged.sorted() == granted.sorted())
            for token in granted {
                let asked = calls.firstIndex(of: "GET purchases/subscriptionsv2/tokens/\(token)")
                let told = calls.firstIndex(of: "POST purchases/subscriptions/premium/tokens/\(token):acknowledge")
                #expect(asked ?? .max < told ?? .min, "\(token)")
            }
            let last = try await bundle.server.sql(
                "select (extract(epoch from max(acknowledged_at)) * 1000)::bigint::text from subledger.google_purchase")
            let done = try #require(last.first.flatMap { Int64($0) })
            #expect(done - back.milliseconds < 10 * 60_000)
            #expect(
                try await bundle.server.sql(
                    """
                    select count(*)::text
                    from subledger.google_purchase
                    join subledger.stream using (app, environment)
                    join subledger.event using (stream_id)
                    where acknowledged_at is not null
                      and answer_position = event.position
                      and source = 'google-api'
                    """) == ["\(granted.count)"])
            #expect(
                try await bundle.server.sql("select count(*)::text from subledger.event where source = 'google-api'")
                    == ["\(tokens.count - 1)"])
        }
    }

    @Test("an answer that contradicts the notification is asked for again after 5 s, 30 s, 2 min, 10 min and 1 h")
    func stale() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(3, id: "1")
            var pauses: [Duration] = []
            var last = bundle.clock.now
            try await bundle.round()
            for _ in 1...5 {
                let next = try #require(try await bundle.round().nextDue)
                pauses.append(last.duration(to: next))
                last = next
                bundle.clock.set(next)
                #expect(try await bundle.round().asked == 1)
            }

            #expect(pauses == [.seconds(5), .seconds(30), .seconds(120), .seconds(600), .seconds(3600)])
            #expect(bundle.google.requests.count { $0 == "GET \(Self.path)" } == 6)
            #expect(bundle.server.logs.text.contains("answers of Google Play do not show what a notification says"))
            #expect(bundle.server.logs.text.contains(#""google.notification_time": 20"#))
            // The answer counts, and the usual schedule goes on.
            #expect(try await bundle.state() == ["unchanged 0 0 2 f"])
        }
    }

    @Test("a late answer is followed by the right one, and then by no further question")
    func late() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(
                Self.path, Self.active(end: Self.start.advanced(by: .seconds(-1))),
                Self.active(order: "GPA.1..0"))
            try await bundle.push(2, id: "1")
            try await bundle.round()
            let second = try await bundle.next()

            #expect(second.asked == 1)
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
        }
    }

    @Test(
        "a notification that arrives after a later event leads to one question, and to no alarm",
        arguments: [(2, "EXPIRED", ""), (4, "CANCELED", "canceled"), (7, "EXPIRED", "")])
    func overtaken(_ type: Int, _ state: String, _ context: String) async throws {
        try await Self.withPoller { bundle async throws in
            let event = Self.start.advanced(by: .seconds(-7200))
            let cancelled = event.advanced(by: .seconds(60))
            let more =
                context.isEmpty
                ? "" : #""canceledStateContext":{"userInitiatedCancellation":{"cancelTime":"\#(cancelled)"}},"#
            bundle.google.answer(
                Self.path,
                ScriptedGoogle.subscription(
                    state, start: Self.start.advanced(by: .seconds(-40 * 86_400)),
                    end: Self.start.advanced(by: .seconds(-3600)), more: more))
            let body = ScriptedGoogle.push(type, "token-1", id: "1", at: event)
            #expect(try await bundle.server.push(body, at: bundle.clock.now).status == 200)

            let round = try await bundle.round()

            #expect(round.asked == 1)
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
            #expect(!bundle.server.logs.text.contains("do not show what a notification says"))
        }
    }

    @Test("a purchase that Google does not know is asked about three times more; one of another app not again")
    func unknown() async throws {
        try await Self.withPoller { bundle async throws in
            try await bundle.push(4, id: "1")
            for _ in 0..<10 {
                guard let due = try await bundle.round().nextDue else { break }
                bundle.clock.pass(to: due)
            }
            #expect(bundle.google.requests.count == 4)
            #expect(try await bundle.state() == ["not_found 4 0 f"])

            bundle.google.answer(Self.path, ScriptedGoogle.error(400, "purchaseTokenDoesNotMatchPackageName"))
            try await bundle.push(4, id: "2")
            #expect(try await bundle.round().nextDue == nil)
            #expect(try await bundle.state() == ["refused 0 0 f"])
        }
    }

    @Test("a purchase that Google no longer answers about keeps its history, and a revocation is stated")
    func gone() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(
                Self.path, Self.active(), ScriptedGoogle.error(410, "purchaseTokenNoLongerValid"))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            bundle.clock.advance(by: .seconds(60))
            try await bundle.push(12, id: "2")
            let round = try await bundle.round()

            #expect(round.nextDue == nil)
            #expect(try await bundle.state() == ["gone 0 0 f"])
            let facts = try await bundle.server.sql(
                "select facts::text from subledger.event where source = 'google-api' order by position")
            #expect(facts.count == 2)
            #expect(facts.last?.contains(#""kind": "gone""#) == true, "\(facts)")
            #expect(facts.last?.contains(#""kind": "revoked""#) == true)
            #expect(try await bundle.server.sql("select position::text from subledger.google_notification").isEmpty)
        }
    }

    @Test("a rejected access token is replaced once; then the app pauses, and its questions stay due")
    func unauthorised() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, ScriptedGoogle.error(401, "authError"), Self.active())
            try await bundle.push(4, id: "1")
            #expect(try await bundle.round().asked == 1)
            #expect(bundle.google.tokens == 2)
            #expect(try await bundle.state() == ["appended 0 0 2 f"])

            bundle.google.answer(Self.path, ScriptedGoogle.error(401, "authError"))
            try await bundle.push(3, id: "2")
            let rejected = try await bundle.round()
            let calls = bundle.google.requests.count
            bundle.clock.advance(by: .seconds(60))
            try await bundle.round()

            #expect(rejected.asked == 1)
            #expect(bundle.google.requests.count == calls)
            #expect(try await bundle.state() == ["credentials_rejected 1 0 0 f"])
            #expect(bundle.server.logs.text.contains("credentials rejected by the Play Developer API"))

            bundle.google.answer(
                Self.path, ScriptedGoogle.subscription("CANCELED", start: Self.start, end: Self.end))
            bundle.clock.advance(by: .seconds(300))
            #expect(try await bundle.round().asked == 1)
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
        }
    }

    @Test("403 for a quota is a pause like 429, and no lost permission", arguments: [403, 429])
    func quota(_ status: Int) async throws {
        try await Self.withPoller { bundle async throws in
            var full = ScriptedGoogle.error(status, "rateLimitExceeded", domain: "usageLimits")
            full.retryAfter = "20"
            bundle.google.answer(Self.path, full, Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            bundle.clock.advance(by: .seconds(19))
            try await bundle.round()
            #expect(bundle.google.requests.count == 1)
            #expect(
                try await bundle.server.sql("select result from subledger.google_purchase where result is not null")
                    .isEmpty)

            bundle.clock.advance(by: .seconds(2))
            try await bundle.round()

            #expect(bundle.google.requests.count { $0 == "GET \(Self.path)" } == 2)
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
            #expect(!bundle.server.logs.text.contains("may not ask"))
        }
    }

    @Test("a missing permission pauses the app and raises an alarm")
    func forbidden() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, ScriptedGoogle.error(403, "userInsufficientPermission"), Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            #expect(try await bundle.state() == ["forbidden 1 0 0 f"])
            // Google may forbid a single purchase.
            #expect(!bundle.server.logs.text.contains("account may not ask the Play Developer API about the app"))
            bundle.google.answer(
                "purchases/subscriptionsv2/tokens/token-2", ScriptedGoogle.error(403, "userInsufficientPermission"))
            let other = ScriptedGoogle.push(4, "token-2", id: "2", at: bundle.clock.now)
            #expect(try await bundle.server.push(other, at: bundle.clock.now).status == 200)
            try await bundle.round()
            #expect(bundle.server.logs.text.contains("account may not ask the Play Developer API about the app"))
            _ = try await bundle.server.sql(
                "delete from subledger.google_purchase where purchase_token = 'token-2' returning app")

            bundle.clock.advance(by: .seconds(301))
            try await bundle.round()
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
        }
    }

    @Test("a purchase whose process died is asked about by another one when the claim ends")
    func died() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            bundle.google.fail(4)
            try await bundle.round()
            _ = try await bundle.server.sql(
                "update subledger.google_purchase set asking_until = due_at + interval '2 minutes' returning result")
            bundle.clock.advance(by: .seconds(60))
            #expect(try await bundle.round().asked == 0)
            bundle.clock.advance(by: .seconds(120))
            #expect(try await bundle.round().asked == 1)
        }
    }

    @Test("a question whose outcome cannot be recorded is asked again after seconds")
    func notRecorded() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            _ = try await bundle.server.sql(
                "alter table subledger.store_check add constraint broken check (asked_at is null) not valid")
            try await bundle.push(4, id: "1")

            let failed = try await bundle.round()
            _ = try await bundle.server.sql("alter table subledger.store_check drop constraint broken")

            #expect(failed.asked == 0)
            #expect(failed.nextDue == bundle.clock.now.advanced(by: .seconds(5)))
            #expect(try await bundle.next().asked == 1)
            // The answer was stored.
            #expect(try await bundle.state() == ["unchanged 0 0 2 f"])
        }
    }

    @Test("a question that takes long holds up no other, about its app or another one, and stays claimed")
    func slow() async throws {
        let second = try ScriptedGoogle.configured(packageName: ScriptedGoogle.secondApp)
        try await Self.withPoller(beside: [second]) { bundle async throws in
            let (clock, google) = (bundle.clock, bundle.google)
            let path = "purchases/subscriptionsv2/tokens/token-2"
            google.answer(Self.path, Self.active())
            google.answer(path, Self.active(order: "GPA.2"))
            google.hold(Self.path)
            try await bundle.push(4, id: "1")
            let running = Task { await bundle.poller.run() }
            defer { running.cancel() }
            func asked(_ path: String, _ count: Int) -> Bool? {
                google.requests.filter { $0 == "GET \(path)" }.count == count ? true : nil
            }
            func says(_ query: StaticString, _ expected: String) async throws -> Bool? {
                try await bundle.server.sql(query) == [expected] ? true : nil
            }
            _ = try await eventually("the first question") { asked(Self.path, 1) }

            for (id, app) in [("2", ScriptedGoogle.app), ("3", ScriptedGoogle.secondApp)] {
                let body = ScriptedGoogle.push(4, "token-2", id: id, at: clock.now, app: app)
                #expect(try await bundle.server.push(body, at: clock.now).status == 200)
            }
            _ = try await eventually("the other questions") { asked(path, 2) }
            clock.advance(by: .seconds(60))
            _ = try await eventually("the claim of the first question is kept") {
                try await says(
                    """
                    select (asking_until > noticed_at + interval '1 minute')::text
                    from subledger.google_purchase
                    where asking_until is not null
                    """, "true")
            }
            google.hold(Self.path, false)
            _ = try await eventually("all answers") {
                try await says("select count(*)::text from subledger.event where source = 'google-api'", "3")
            }

            running.cancel()
            await running.value
            #expect(asked(Self.path, 1) == true)
        }
    }

    // MARK: Schedule

    @Test("five minutes after the shown end a purchase is asked about without a notification")
    func scheduled() async throws {
        try await Self.withPoller { bundle async throws in
            let renewed = Self.end.advanced(by: .seconds(30 * 86_400))
            bundle.google.answer(Self.path, Self.active(), Self.active(end: renewed, order: "GPA.1..0"))
            try await bundle.push(4, id: "1")
            let due = try #require(try await bundle.round().nextDue)
            bundle.clock.set(due.advanced(by: .milliseconds(-1)))
            #expect(try await bundle.round().asked == 0)
            bundle.clock.set(due)
            let round = try await bundle.round()

            #expect((Duration.seconds(300)..<Duration.seconds(600)).contains(Self.end.duration(to: due)))
            #expect(round.asked == 1)
            #expect(
                try await bundle.server.sql("select count(*)::text from subledger.event where source = 'google-api'")
                    == ["2"])
        }
    }

    @Test("without polling only notifications lead to questions")
    func notPolled() async throws {
        try await Self.withPoller(try ScriptedGoogle.configured(polling: false)) { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            #expect(try await bundle.round().nextDue == nil)
        }
    }

    @Test("the predecessor that an answer names is asked about once")
    func predecessor() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(
                Self.path,
                ScriptedGoogle.subscription(
                    start: Self.start, end: Self.end, more: #""linkedPurchaseToken":"token-0","#))
            bundle.google.answer(
                "purchases/subscriptionsv2/tokens/token-0", ScriptedGoogle.error(410, "purchaseTokenNoLongerValid"))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            try await bundle.push(7, id: "2")
            try await bundle.round()

            #expect(bundle.google.requests.count { $0.hasSuffix("token-0") } == 1)
        }
    }

    // MARK: Acknowledgement

    @Test("after account hold, the order says when the next period began, also if Google answers about it later")
    func orderAfterHold() async throws {
        try await Self.withPoller { bundle in
            let recovered = Self.end.advanced(by: .seconds(10 * 86_400))
            let next = recovered.advanced(by: .seconds(30 * 86_400))
            bundle.google.answer(Self.path, ScriptedGoogle.subscription("ON_HOLD", start: Self.start, end: Self.end))
            try await bundle.push(5, id: "1")
            try await bundle.round()
            bundle.clock.pass(to: recovered.advanced(by: .seconds(3600)))
            bundle.google.answer(
                Self.path, ScriptedGoogle.subscription(order: "GPA.1..0", start: Self.start, end: next))
            // All four calls of the first question.
            let failure = ScriptedGoogle.error(503, "backendError")
            bundle.google.answer(
                "orders/GPA.1..0", failure, failure, failure, failure, Self.order(recovered, next))

            try await bundle.push(1, id: "2")
            try await bundle.round()
            let first = bundle.google.requests.count { $0 == "GET orders/GPA.1..0" }
            let late = try await bundle.next()

            #expect(first == 4)
            #expect(late.asked == 1)
            let starts = try await bundle.server.sql(
                """
                select item ->> 'periodStart'
                from subledger.event
                cross join lateral jsonb_array_elements(facts -> 'purchases') as fact
                cross join lateral jsonb_array_elements(fact -> 'items') as item
                where fact ->> 'fact' = 'order' and fact ->> 'orderId' = 'GPA.1..0'
                """)
            #expect(starts == [recovered.description])
            let asked = bundle.google.requests.count
            try await bundle.push(2, id: "3")
            try await bundle.round()
            #expect(!bundle.google.requests[asked...].contains { $0.contains("orders/") })
        }
    }

    @Test(
        "the orders of a purchase that was unknown are one question; those that it leaves open are asked about alone",
        arguments: [3, 2, 0])
    func ordersAtOnce(answered: Int) async throws {
        try await Self.withPoller { bundle in
            let ids = ["GPA.1", "GPA.1..0", "GPA.1..1"]
            let ends = (1...3).map { Self.start.advanced(by: .seconds($0 * 30 * 86_400)) }
            let orders = zip(ids, zip([Self.start] + ends, ends)).map { Self.order($1.0, $1.1, id: $0) }
            bundle.google.answer(
                Self.path, ScriptedGoogle.subscription(order: "GPA.1..1", start: Self.start, end: ends[2]))
            // Without a reply, Google does not know one of them.
            if answered > 0 {
                let list = orders.prefix(answered).map(\.body).joined(separator: ",")
                bundle.google.answer("orders:batchGet", ScriptedGoogle.Reply(body: #"{"orders":[\#(list)]}"#))
            }
            for (id, order) in zip(ids, orders) { bundle.google.answer("orders/\(id)", order) }

            try await bundle.push(4, id: "1")
            try await bundle.round()

            let alone = ids.dropFirst(answered).map { "GET orders/\($0)" }
            #expect(bundle.google.requests == ["GET \(Self.path)", "GET orders:batchGet"] + alone)
            let stored = try await bundle.server.sql(
                """
                select fact ->> 'orderId'
                from subledger.event
                cross join lateral jsonb_array_elements(facts -> 'purchases') as fact
                where fact ->> 'fact' = 'order'
                order by position
                """)
            #expect(stored == ids)
        }
    }

    @Test("a purchase is asked about at once with its latest order, and a refund by amount is news once")
    func checkNow() async throws {
        try await Self.withPoller { bundle in
            let token = try #require(PurchaseToken("token-1"))
            let app = GoogleApp(try ScriptedGoogle.configured().play, credentials: try ScriptedGoogle.account())
            let unknown = try await bundle.handIns.checkNow(token, of: app)
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            try await bundle.server.isFolded()
            bundle.google.answer(
                "orders/GPA.1",
                ScriptedGoogle.Reply(
                    body: """
                        {"orderId":"GPA.1","purchaseToken":"token-1","state":"PARTIALLY_REFUNDED",\
                        "createTime":"\(Self.start)","total":{"currencyCode":"USD","units":"10"},\
                        "lineItems":[{"productId":"premium","total":{"currencyCode":"USD","units":"10"},\
                        "subscriptionDetails":{"basePlanId":"monthly","servicePeriodStartTime":"\(Self.start)",\
                        "servicePeriodEndTime":"\(Self.end)"}}],"orderHistory":{"partialRefundEvents":[{\
                        "createTime":"\(Self.start)","processTime":"\(Self.start)",\
                        "state":"PROCESSED_SUCCESSFULLY",\
                        "refundDetails":{"total":{"currencyCode":"USD","units":"4"}}}]}}
                        """))

            let first = try await bundle.handIns.checkNow(token, of: app)
            try await bundle.server.isFolded()
            let second = try await bundle.handIns.checkNow(token, of: app)

            guard case .unknown = unknown, case .asked(let refunded) = first, case .asked(let same) = second else {
                Issue.record("\(unknown) \(first) \(second)")
                return
            }
            #expect(refunded.result == .appended && refunded.position == 2)
            #expect(same.result == .unchanged && same.position == nil)
            // Each check asks, as the first answer did.
            #expect(bundle.google.requests.count { $0 == "GET orders/GPA.1" } == 3)
            #expect(try await bundle.server.sql("select count(*)::text from analyst.refunds_detail") == ["1"])
        }
    }

    @Test("what a renewal cost less than the list price is known from its order, which may be answered later")
    func discount() async throws {
        try await Self.withPoller { bundle in
            let renewed = Self.end.advanced(by: .seconds(30 * 86_400))
            func order(_ id: String, _ units: Int) -> ScriptedGoogle.Reply {
                ScriptedGoogle.Reply(
                    body: """
                        {"orderId":"\(id)","purchaseToken":"token-1","state":"PROCESSED",\
                        "total":{"currencyCode":"USD","units":"\(units)"},"lineItems":[{"productId":"premium",\
                        "total":{"currencyCode":"USD","units":"\(units)"}}]}
                        """)
            }
            func prices() async throws -> [String] {
                try await bundle.server.isFolded()
                return try await bundle.server.sql(
                    "select price::text from subledger.transaction order by purchase_date")
            }
            bundle.google.answer(Self.path, Self.active())
            bundle.google.answer("orders/GPA.1", order("GPA.1", 9))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            #expect(try await prices() == ["9000"])
            bundle.clock.pass(to: Self.end.advanced(by: .seconds(1)))
            bundle.google.answer(Self.path, Self.active(end: renewed, order: "GPA.1..0"))
            let failure = ScriptedGoogle.error(503, "backendError")
            bundle.google.answer("orders/GPA.1..0", failure, failure, failure, failure, order("GPA.1..0", 7))

            try await bundle.push(2, id: "2")
            try await bundle.round()
            // The answer counts, with the list price.
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
            #expect(try await prices() == ["9000", "9000"])
            bundle.clock.advance(by: .seconds(600))
            try await bundle.push(2, id: "3")
            try await bundle.round()

            #expect(try await prices() == ["9000", "7000"])
            let asked = bundle.google.requests.count
            try await bundle.push(2, id: "4")
            try await bundle.round()
            #expect(bundle.google.requests[asked...].allSatisfy { $0 == "GET \(Self.path)" })
        }
    }

    @Test("an account that may not see orders goes on to ask about purchases")
    func forbiddenOrders() async throws {
        try await Self.withPoller { bundle in
            let forbidden = ScriptedGoogle.error(403, "userInsufficientPermission")
            for number in 1...3 {
                let path = "purchases/subscriptionsv2/tokens/t-\(number)"
                bundle.google.answer(path, Self.active(order: "GPA.\(number)"))
                bundle.google.answer("orders/GPA.\(number)", forbidden)
                let body = ScriptedGoogle.push(4, "t-\(number)", id: "\(number)", at: bundle.clock.now)
                #expect(try await bundle.server.push(body, at: bundle.clock.now).status == 200)
            }

            let first = try await bundle.round()
            bundle.clock.advance(by: .seconds(10))
            try await bundle.server.isFolded()
            let body = ScriptedGoogle.push(7, "t-1", id: "4", at: bundle.clock.now)
            #expect(try await bundle.server.push(body, at: bundle.clock.now).status == 200)

            #expect(first.asked == 3)
            #expect(try await bundle.round().asked == 1)
            #expect(bundle.google.requests.count { $0 == "GET purchases/subscriptionsv2/tokens/t-1" } == 2)
            #expect(bundle.server.logs.text.contains("may not ask"))
        }
    }

    @Test("orders that the account may not see are asked about once a day")
    func hiddenOrders() async throws {
        try await Self.withPoller { bundle in
            bundle.google.answer(Self.path, Self.active(order: "GPA.1..0"))
            bundle.google.answer("orders:batchGet", ScriptedGoogle.error(403, "userInsufficientPermission"))
            try await bundle.push(4, id: "1")

            try await bundle.round()
            let state = try await bundle.state()
            bundle.clock.advance(by: .seconds(86_399))
            let early = try await bundle.round()
            bundle.clock.advance(by: .seconds(1))
            let late = try await bundle.round()

            #expect(state == ["appended 0 0 2 f"])
            #expect(early.asked == 0)
            #expect(late.asked == 1)
            #expect(bundle.google.requests.count { $0 == "GET orders:batchGet" } == 2)
        }
    }

    private static func order(_ start: Instant, _ end: Instant, id: String = "GPA.1..0") -> ScriptedGoogle.Reply {
        ScriptedGoogle.Reply(
            body: """
                {"orderId":"\(id)","purchaseToken":"token-1","state":"PROCESSED","createTime":"\(start)",\
                "lineItems":[{"productId":"premium","subscriptionDetails":{"basePlanId":"monthly",\
                "servicePeriodStartTime":"\(start)","servicePeriodEndTime":"\(end)"}}]}
                """)
    }

    @Test("a new purchase is acknowledged once, after its answer is in the log")
    func acknowledged() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active(isAcknowledged: false), Self.active())
            bundle.google.answer(Self.acknowledge, ScriptedGoogle.Reply(status: 204, body: ""))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            try await bundle.push(2, id: "2")
            try await bundle.round()

            #expect(
                bundle.google.requests == [
                    "GET \(Self.path)", "POST \(Self.acknowledge)", "GET orders/GPA.1", "GET \(Self.path)",
                ])
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
        }
    }

    @Test("a pending purchase is not acknowledged, nor one of an app that acknowledges its own")
    func notAcknowledged() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(
                Self.path,
                ScriptedGoogle.subscription("PENDING", start: Self.start, end: Self.end, isAcknowledged: false))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            #expect(bundle.google.requests == ["GET \(Self.path)"])
        }
        try await Self.withPoller(try ScriptedGoogle.configured(acknowledges: false)) { bundle async throws in
            bundle.google.answer(Self.path, Self.active(isAcknowledged: false))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            #expect(bundle.google.requests.allSatisfy { $0.hasPrefix("GET ") })
        }
    }

    @Test("after a refused acknowledgement the purchase is read: its state decides")
    func acknowledgedElsewhere() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active(isAcknowledged: false), Self.active())
            bundle.google.answer(Self.acknowledge, ScriptedGoogle.error(400, "invalidPurchaseState"))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            let waiting = try await bundle.state()
            _ = try await bundle.next()

            #expect(waiting == ["appended 1 0 1 t"])
            #expect(try await bundle.state() == ["appended 0 0 2 f"])
            #expect(bundle.google.requests.count { $0.hasPrefix("POST") } == 1)
        }
    }

    @Test("an unacknowledged purchase is counted by its age")
    func unacknowledgedAge() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active(isAcknowledged: false))
            bundle.google.answer(Self.acknowledge, ScriptedGoogle.error(503, "backendError"))
            try await bundle.push(4, id: "1")
            try await bundle.round()

            #expect(
                try await bundle.server.sql(
                    "select (extract(epoch from unacknowledged_since) * 1000)::bigint::text from subledger.google_purchase"
                ) == ["\(Self.start.milliseconds)"])
        }
    }

    // MARK: Voids

    @Test("a void of a known purchase is stated although Google does not answer")
    func void() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            bundle.google.fail(1000)
            let body = ScriptedGoogle.void("token-1", order: "GPA.1", id: "2", at: bundle.clock.now)
            #expect(try await bundle.server.push(body, at: bundle.clock.now).status == 200)
            try await bundle.round()

            #expect(
                try await bundle.server.sql(
                    "select concat_ws(' ', source, kind) from subledger.event where source <> 'google-rtdn' order by position"
                ) == ["google-api answer", "google-voided refund"])
        }
    }

    @Test(
        "a void of an order that no answer showed takes nothing away, and is in the console, the history and the feed")
    func unknownVoid() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            try await bundle.round()
            let body = ScriptedGoogle.void("token-1", order: "GPA.777", id: "2", at: bundle.clock.now)
            #expect(try await bundle.server.push(body, at: bundle.clock.now).status == 200)
            try await bundle.round()
            try await bundle.server.isFolded()

            let (browser, cookie) = try await bundle.server.session()
            let stream = "production%3A\(ScriptedGoogle.app)"
            let page = try await browser.get(
                "/console/customers/token-1?as=subscription&stream=\(stream)", cookie: cookie)
            let history = try await bundle.server.backend.get(
                "/customers/token-1/history?as=subscription&app=\(ScriptedGoogle.app)")

            #expect(page.body.contains("Google took back an order that it has not shown"), "\(page.body)")
            #expect(history.body.contains(#""kind":"unknown_order_voided""#), "\(history.body)")
            #expect(
                try await bundle.server.sql("select kind from subledger.change where kind not in ('opened', 'closed')")
                    == ["unknown_order_voided"])
            #expect(
                try await bundle.server.sql("select original_transaction_id from subledger.access_period") == [
                    "token-1"
                ])
        }
    }

    @Test("a push that anyone may have sent takes no access: Google is asked, and its list of voids is read soon")
    func openVoid() async throws {
        try await Self.withPoller(try ScriptedGoogle.configured(.none)) { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{}"))
            func events() async throws -> [String] {
                try await bundle.server.sql(
                    "select concat_ws(' ', source, kind) from subledger.event where source <> 'google-rtdn' order by position"
                )
            }
            let revoked = ScriptedGoogle.push(12, "token-1", id: "2", at: bundle.clock.now)
            let void = ScriptedGoogle.void("token-1", order: "GPA.1", id: "3", at: bundle.clock.now)
            try await bundle.push(4, id: "1")
            try await bundle.round()
            #expect(try await bundle.voids.round(at: bundle.clock.now).count == 1)
            let asked = bundle.google.requests.count { $0 == "GET \(Self.path)" }
            for body in [revoked, void] {
                bundle.clock.advance(by: .seconds(1))
                #expect(try await bundle.server.push(body, identity: nil).status == 200)
                try await bundle.round()
            }
            try await bundle.server.isFolded()

            #expect(bundle.google.requests.count { $0 == "GET \(Self.path)" } == asked + 2)
            #expect(try await events() == ["google-api answer"])
            #expect(
                try await bundle.server.sql(
                    "select count(*)::text from subledger.access_period where ends_at > '2019-12-01'")
                    == ["1"])
            // The list is read again, although the daily comparison is not due, until Google lists the void.
            bundle.clock.advance(by: .seconds(900))
            #expect(try await bundle.voids.round(at: bundle.clock.now).map(\.listed) == [0])
            #expect(try await events() == ["google-api answer"])
            bundle.google.answer(
                "purchases/voidedpurchases",
                ScriptedGoogle.Reply(
                    body: """
                        {"voidedPurchases":[{"kind":"androidpublisher#voidedPurchase","purchaseToken":"token-1",\
                        "orderId":"GPA.1","purchaseTimeMillis":"\(Self.start.milliseconds)",\
                        "voidedTimeMillis":"\(Self.start.milliseconds + 1000)","voidedSource":"1","voidedReason":"4"}]}
                        """))
            bundle.clock.advance(by: .seconds(900))
            #expect(try await bundle.voids.round(at: bundle.clock.now).map(\.appended) == [1])
            #expect(try await events() == ["google-api answer", "google-voided refund"])
            // No longer than an hour.
            bundle.clock.advance(by: .seconds(3600))
            #expect(try await bundle.voids.round(at: bundle.clock.now).count == 1)
            bundle.clock.advance(by: .seconds(900))
            #expect(try await bundle.voids.round(at: bundle.clock.now).isEmpty)
        }
    }

    @Test("a void that was not announced is found in the list, once, and the list is asked for daily with an overlap")
    func voidAudit() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            bundle.google.answer(
                "purchases/voidedpurchases",
                ScriptedGoogle.Reply(
                    body: """
                        {"voidedPurchases":[{"kind":"androidpublisher#voidedPurchase","purchaseToken":"token-1",\
                        "orderId":"GPA.1","purchaseTimeMillis":"\(Self.start.milliseconds)",\
                        "voidedTimeMillis":"\(Self.start.milliseconds + 1000)","voidedSource":"1","voidedReason":"4"}]}
                        """))
            let first = try await bundle.voids.round(at: bundle.clock.now)
            let early = try await bundle.voids.round(at: bundle.clock.now)
            bundle.clock.advance(by: .seconds(86_400))
            let second = try await bundle.voids.round(at: bundle.clock.now)

            #expect(first.map(\.listed) == [1])
            #expect(first.map(\.appended) == [1])
            #expect(early.isEmpty)
            #expect(second.map(\.appended) == [0])
            #expect(
                try await bundle.server.sql("select source from subledger.event order by position")
                    == ["google-api", "google-voided"])
        }
    }

    @Test("a purchase without a usable answer keeps no other row open, wherever its row stands", arguments: 0..<3)
    func voidAuditWithOpenRow(_ place: Int) async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            func row(_ token: String, _ order: String) -> String {
                """
                {"kind":"androidpublisher#voidedPurchase","purchaseToken":"\(token)","orderId":"\(order)",\
                "purchaseTimeMillis":"\(Self.start.milliseconds)",\
                "voidedTimeMillis":"\(Self.start.milliseconds + 1000)","voidedSource":"1","voidedReason":"4"}
                """
            }
            var rows = [row("token-1", "GPA.1"), row("token-1", "GPA.2")]
            rows.insert(row("token-unreadable", "GPA.3"), at: place)
            bundle.google.answer(
                "purchases/subscriptionsv2/tokens/token-unreadable", ScriptedGoogle.Reply(body: #"{"kind":"x"}"#))
            bundle.google.answer(
                "purchases/voidedpurchases",
                ScriptedGoogle.Reply(body: "{\"voidedPurchases\":[\(rows.joined(separator: ","))]}"))

            let first = try await bundle.voids.round(at: bundle.clock.now)

            #expect(first.isEmpty)
            #expect(
                try await bundle.server.sql("select source from subledger.event order by position")
                    == ["google-api", "google-voided", "google-voided"])
            // It is readable later: the comparison is complete, and states each row once.
            bundle.google.answer("purchases/subscriptionsv2/tokens/token-unreadable", Self.active())
            bundle.clock.advance(by: .seconds(900))
            let second = try await bundle.voids.round(at: bundle.clock.now)
            #expect(second.map(\.listed) == [3])
            #expect(second.map(\.appended) == [1])
        }
    }

    @Test("a refund of an amount that nothing announced is found by the daily comparison of orders, once")
    func orderAudit() async throws {
        func order(_ id: String, refunded units: Int? = nil) -> String {
            let refund = units.map {
                #""orderHistory":{"partialRefundEvents":[{"createTime":"2019-11-09T08:00:00Z","state":"PROCESSED_SUCCESSFULLY","#
                    + #""refundDetails":{"total":{"currencyCode":"USD","units":"\#($0)"}}}]},"#
            }
            return """
                {"orderId":"\(id)","purchaseToken":"token-1","state":"\(units == nil ? "PROCESSED" : "PARTIALLY_REFUNDED")",\
                \(refund ?? "")"total":{"currencyCode":"USD","units":"9"},\
                "lineItems":[{"productId":"premium","total":{"currencyCode":"USD","units":"9"}}]}
                """
        }
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{}"))
            bundle.google.answer(
                "orders:batchGet", ScriptedGoogle.Reply(body: #"{"orders":[\#(order("GPA.1"))]}"#),
                ScriptedGoogle.Reply(body: #"{"orders":[\#(order("GPA.1", refunded: 4))]}"#))
            func events() async throws -> [String] {
                try await bundle.server.isFolded()
                return try await bundle.server.sql(
                    "select source from subledger.event where source <> 'google-rtdn' order by position")
            }
            try await bundle.push(4, id: "1")
            try await bundle.round()

            #expect(try await bundle.voids.round(at: bundle.clock.now).count == 1)
            #expect(try await events() == ["google-api"])
            // Not within a day, and then once.
            bundle.clock.advance(by: .seconds(3600))
            #expect(try await bundle.voids.round(at: bundle.clock.now).isEmpty)
            for _ in 1...2 {
                bundle.clock.advance(by: .seconds(86_400))
                #expect(try await bundle.voids.round(at: bundle.clock.now).count == 1)
                #expect(try await events() == ["google-api", "google-api"])
            }
            #expect(bundle.google.requests.count { $0 == "GET orders:batchGet" } == 3)
            #expect(
                try await bundle.server.sql("select refunded_price::text from subledger.transaction") == ["4000"])
        }
    }

    @Test("an order that Google does not know is left out of the comparison, and the others are compared")
    func orderAuditUnknown() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{}"))
            try await bundle.push(4, id: "1")
            try await bundle.round()

            #expect(try await bundle.voids.round(at: bundle.clock.now).count == 1)

            #expect(bundle.google.requests.count { $0 == "GET orders:batchGet" } == 1)
            #expect(bundle.server.logs.text.contains("orders not compared") == false)
            bundle.clock.advance(by: .seconds(86_400))
            bundle.google.answer("orders:batchGet", ScriptedGoogle.Reply(body: "{\"orders"))
            #expect(try await bundle.voids.round(at: bundle.clock.now).count == 1)
            #expect(bundle.server.logs.text.contains("orders not compared"))
        }
    }

    private static let comparedOrders =
        "select concat(orders_compared_at is not null) from subledger.google_void_audit" as StaticString

    @Test("a comparison of orders that fails is made again soon, less often each time, until it is complete")
    func orderAuditRepeated() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{}"))
            bundle.google.answer("orders:batchGet", ScriptedGoogle.Reply(body: "{\"orders"))
            try await bundle.push(4, id: "1")
            try await bundle.round()
            /// Whether a round asks about the orders.
            func asks(after seconds: Int) async throws -> Bool {
                bundle.clock.advance(by: .seconds(seconds))
                let before = bundle.google.requests.count { $0 == "GET orders:batchGet" }
                _ = try await bundle.voids.round(at: bundle.clock.now)
                return bundle.google.requests.count { $0 == "GET orders:batchGet" } > before
            }

            // The pauses are half of 15 minutes, of 30, of 60 and so on, and three hours at most.
            var asked: [Bool] = []
            for seconds in [0, 400, 50, 800, 100, 1700, 100, 3600, 7200, 10_700, 100, 10_800] {
                asked.append(try await asks(after: seconds))
            }
            #expect(
                asked == [true, false, true, false, true, false, true, true, true, false, true, true])
            #expect(try await bundle.server.sql(Self.comparedOrders) == ["f"])

            bundle.google.answer("orders:batchGet", ScriptedGoogle.Reply(body: #"{"orders":[]}"#))
            #expect(try await asks(after: 10_800))
            #expect(try await asks(after: 10_800) == false)
            #expect(try await bundle.server.sql(Self.comparedOrders) == ["t"])
            #expect(try await asks(after: 86_400))
        }
    }

    @Test("what fails for one app keeps no question about another from being asked, and is logged once")
    func roundOfEachApp() async throws {
        let second = try ScriptedGoogle.configured(packageName: ScriptedGoogle.secondApp)
        try await Self.withPoller(beside: [second]) { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            _ = try await bundle.server.sql(
                """
                alter table subledger.google_purchase add constraint broken
                  check (app <> 'com.example.play' or asking_until is null)
                """)
            try await bundle.push(4, id: "1")
            let other = ScriptedGoogle.push(
                4, "token-1", id: "2", at: bundle.clock.now, app: ScriptedGoogle.secondApp)
            #expect(try await bundle.server.push(other, at: bundle.clock.now).status == 200)

            #expect(try await bundle.round().asked == 1)
            bundle.clock.advance(by: .seconds(300))
            #expect(try await bundle.round().asked == 0)

            let log = bundle.server.logs.text
            #expect(log.components(separatedBy: "purchases of an app not checked").count == 2, "\(log)")
            // The question is asked once it can be.
            _ = try await bundle.server.sql("alter table subledger.google_purchase drop constraint broken")
            #expect(try await bundle.round().asked == 0)
            bundle.clock.advance(by: .seconds(300))
            #expect(try await bundle.round().asked == 1)
            #expect(
                try await bundle.server.sql(
                    "select concat_ws(' ', app, result) from subledger.google_purchase order by 1")
                    == ["com.example.play appended", "com.example.second appended"])
        }
    }

    @Test("notifications of one app that cannot be taken in hold up no question about another, and are taken in later")
    func intakeOfEachApp() async throws {
        let second = try ScriptedGoogle.configured(packageName: ScriptedGoogle.secondApp)
        try await Self.withPoller(beside: [second]) { bundle async throws in
            bundle.google.answer(Self.path, Self.active())
            try await bundle.push(4, id: "1")
            let other = ScriptedGoogle.push(
                4, "token-1", id: "2", at: bundle.clock.now, app: ScriptedGoogle.secondApp)
            #expect(try await bundle.server.push(other, at: bundle.clock.now).status == 200)
            _ = try await bundle.server.sql(
                """
                do $$ begin execute format(
                  'alter table subledger.google_intake add constraint broken check (stream_id <> %s)',
                  (select stream_id from subledger.stream where app = 'com.example.play'));
                end $$
                """)

            #expect(try await bundle.round().asked == 1)
            bundle.clock.advance(by: .seconds(300))
            #expect(try await bundle.round().asked == 0)

            let log = bundle.server.logs.text
            #expect(log.components(separatedBy: "notifications of an app not taken in").count == 2, "\(log)")
            _ = try await bundle.server.sql("alter table subledger.google_intake drop constraint broken")
            #expect(try await bundle.round().asked == 1)
            #expect(
                try await bundle.server.sql(
                    "select concat_ws(' ', app, result) from subledger.google_purchase order by 1")
                    == ["com.example.play appended", "com.example.second appended"])
        }
    }

    @Test("what fails for one app keeps neither voids nor orders of another from being compared")
    func auditOfEachApp() async throws {
        let second = try ScriptedGoogle.configured(packageName: ScriptedGoogle.secondApp)
        try await Self.withPoller(beside: [second]) { bundle async throws in
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{}"))
            _ = try await bundle.server.sql(
                "alter table subledger.google_void_audit add constraint broken check (app <> 'com.example.play')")

            let audits = try await bundle.voids.round(at: bundle.clock.now)

            #expect(audits.map(\.app) == [ScriptedGoogle.secondApp])
            #expect(
                try await bundle.server.sql(
                    "select concat_ws(' ', app, orders_compared_at is not null) from subledger.google_void_audit")
                    == ["com.example.second t"])
            #expect(bundle.server.logs.text.contains("voided purchases of an app not compared"))
            #expect(bundle.voids.failing.map(\.work) == ["voids"])
            // The first one is compared as soon as it can be.
            _ = try await bundle.server.sql("alter table subledger.google_void_audit drop constraint broken")
            bundle.clock.advance(by: .seconds(900))
            #expect(try await bundle.voids.round(at: bundle.clock.now).map(\.app) == [ScriptedGoogle.app])
            #expect(bundle.voids.failing == [])
        }
    }

    @Test("a comparison of orders that is left alone after a failure still counts as failing")
    func heldOrders() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{}"))
            _ = try await bundle.server.sql(
                "alter table subledger.google_void_audit add constraint broken check (orders_compared_at is null)")

            for _ in 0..<2 {
                _ = try await bundle.voids.round(at: bundle.clock.now)
                #expect(bundle.voids.failing.map(\.work) == ["orders"])
                bundle.clock.advance(by: .seconds(60))
            }

            let log = bundle.server.logs.text
            #expect(log.components(separatedBy: "orders of an app not compared").count == 2, "\(log)")
            _ = try await bundle.server.sql("alter table subledger.google_void_audit drop constraint broken")
            bundle.clock.advance(by: .seconds(3600))
            _ = try await bundle.voids.round(at: bundle.clock.now)
            #expect(bundle.voids.failing == [])
        }
    }

    @Test("a list that cannot be read is asked for again, and nothing is taken for compared")
    func voidAuditFails() async throws {
        try await Self.withPoller { bundle async throws in
            bundle.google.answer("purchases/voidedpurchases", ScriptedGoogle.Reply(body: "{\"voidedPurch"))
            #expect(try await bundle.voids.round(at: bundle.clock.now).isEmpty)
            #expect(try await bundle.server.sql("select app from subledger.google_void_audit").isEmpty)
        }
    }
}
