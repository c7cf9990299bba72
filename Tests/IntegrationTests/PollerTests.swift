import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Readers
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("Checks with the App Store")
struct PollerTests {
    private static let subscription = "1000000000000001"
    private static let other = "1000000000000002"
    /// The receipt in each ``V1Body``.
    private static let receipt = Data(repeating: 7, count: 96).base64EncodedString()
    private static let app = App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])

    /// 2019-10-25T10:40:00Z.
    private static let purchase: Int64 = 1_572_000_000_000
    /// 2019-12-10T17:46:40Z.
    private static let end: Int64 = 1_576_000_000_000
    /// 2020-01-26T00:53:20Z.
    private static let renewedEnd: Int64 = 1_580_000_000_000

    private static let records = """
        select concat_ws(' ', original_transaction_id, (extract(epoch from asked_at) * 1000)::bigint, reason, result, status,
          position, (extract(epoch from next_at) * 1000)::bigint)
        from subledger.store_check
        order by 1
        """ as StaticString

    private static func instant(_ milliseconds: Int64) -> Instant { Instant(milliseconds: milliseconds) ?? .earliest }

    private static func hour(_ hours: Int64, after milliseconds: Int64 = end) -> Instant {
        instant(milliseconds + hours * 3_600_000)
    }

    private static func body(_ subscription: String = subscription) throws -> [UInt8] {
        try V1Body(
            type: "INITIAL_BUY", subscription: subscription, transaction: subscription, purchase: purchase, expires: end
        ).bytes
    }

    /// An answer about subscriptions that were bought once, or have been renewed since.
    private static func answer(
        _ subscriptions: [String] = [subscription], isRenewed: Bool = false, at now: Instant
    ) -> String {
        func row(_ id: String, _ transaction: String, _ purchase: Int64, _ end: Int64) -> String {
            """
            {"quantity":"1","product_id":"com.example.magazine.monthly","transaction_id":"\(transaction)",\
            "original_transaction_id":"\(id)","purchase_date_ms":"\(purchase)","expires_date_ms":"\(end)"}
            """
        }
        let rows = subscriptions.flatMap { id in
            [row(id, id, purchase, end)] + (isRenewed ? [row(id, "9\(id)", end, renewedEnd)] : [])
        }
        let renewals = subscriptions.map { id in
            """
            {"auto_renew_product_id":"com.example.magazine.monthly","original_transaction_id":"\(id)",\
            "product_id":"com.example.magazine.monthly","auto_renew_status":"1"}
            """
        }
        return """
            {"status":0,"environment":"Production","receipt":{"receipt_type":"Production","bundle_id":"\(V1Body.app)",\
            "request_date_ms":"\(now.milliseconds)","in_app":[]},"latest_receipt":"\(receipt)",\
            "latest_receipt_info":[\(rows.joined(separator: ","))],\
            "pending_renewal_info":[\(renewals.joined(separator: ","))]}
            """
    }

    /// A poller of a process of its own.
    private static func withPoller(
        of app: App = app, on server: TestBundle, asking store: ScriptedStore, _ clock: SetClock,
        _ test: (Poller, Checker) async throws -> Void
    ) async throws {
        let logger = server.logs.logger
        let configuration = server.database.with(role: "subledger_poller")
        let pool = PostgresPool(configuration, limit: 2, logger: logger)
        let receiver = PostgresPool(server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        // All pauses follow the set clock.
        let (start, origin) = (clock.now, ContinuousClock.now)
        let storeClock = StoreClock(
            date: { clock.now }, now: { origin + start.duration(to: clock.now) },
            sleep: { _ in
                try Task.checkCancellation()
                await Task.yield()
            })
        let queue = CheckQueue(pool: pool)
        let leadership = StreamLeadership(Elector(configuration))
        let checker = Checker(
            client: ReceiptClient(transport: store, clock: storeClock, random: { 0 }, logger: logger), apps: [app],
            queue: queue, log: LogReader(pool: pool), histories: HistoryLog(pool: pool), handIns: HandInLog(pool: pool),
            subscriptions: SubscriptionReader(pool: pool), appender: appender, clock: storeClock, random: { 0 },
            logger: logger)
        let poller = Poller(
            checker: checker, apps: [app], queue: queue, leadership: leadership, clock: storeClock, logger: logger)
        async let appending: Void = appender.run()
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(poller, checker))
        } catch {
            outcome = .failure(error)
        }
        await leadership.release()
        await appender.stop()
        await appending
        await pool.close()
        await receiver.close()
        try outcome.get()
    }

    /// A server with subscriptions known from one notification each, a poller, and a clock at which nothing is due yet.
    private static func withChecks(
        of subscriptions: [String] = [subscription],
        _ test: (TestBundle, ScriptedStore, Poller, SetClock) async throws -> Void
    ) async throws {
        let store = ScriptedStore()
        let clock = SetClock(hour(1).advanced(by: .milliseconds(-1)))
        try await TestBundle.withServer { server in
            for subscription in subscriptions {
                #expect(try await server.apple.post(try body(subscription)).status == 200)
            }
            try await server.isFolded()
            try await withPoller(on: server, asking: store, clock) { poller, _ in
                try await test(server, store, poller, clock)
            }
        }
    }

    @Test("an hour after the end of the period, the store is asked once, and a renewal becomes an event")
    func renewed() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.answer(Self.receipt, Self.answer(isRenewed: true, at: Self.hour(1)))

            let early = try await poller.round(at: clock.now)
            #expect(early.asked == 0)
            #expect(early.nextDue == Self.hour(1))

            clock.set(Self.hour(1))
            let round = try await poller.round(at: clock.now)
            try await server.isFolded()
            let again = try await poller.round(at: clock.now)

            #expect(round.asked == 1)
            #expect(again.asked == 0)
            #expect(again.nextDue == Self.hour(1, after: Self.renewedEnd))
            #expect(store.requests == [Self.receipt])
            #expect(
                try await server.sql(Self.records)
                    == ["\(Self.subscription) 1576003600000 renewal appended 0 2 1580003600000"])
            #expect(
                try await server.sql("select source from subledger.event order by position")
                    == ["apple-v1", "apple-receipt"])
            let path = "/subscriptions/\(Self.subscription)?at=2019-12-10T18:46:40Z"
            let subscription = try await server.backend.get(path)
            #expect(subscription.json["status"] as? String == "active")
            #expect(
                subscription.body.contains(
                    """
                    "check":{"last":{"at":"2019-12-10T18:46:40.000Z","result":"appended","status":0,"position":2},\
                    "next":{"at":"2020-01-26T01:53:20.000Z","reason":"renewal"}}
                    """), "\(subscription.body)")
        }
    }

    @Test("an answer without news is recorded alone, and asked about again 15 minutes later")
    func unchanged() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.answer(Self.receipt, Self.answer(at: Self.hour(1)))

            clock.set(Self.hour(1))
            let round = try await poller.round(at: clock.now)

            #expect(round.asked == 1)
            #expect(round.nextDue == Self.hour(1).advanced(by: .seconds(900)))
            #expect(
                try await server.sql(Self.records)
                    == ["\(Self.subscription) 1576003600000 renewal unchanged 0 1576004500000"])
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
        }
    }

    @Test("a notification of the renewal cancels the check")
    func cancelled() async throws {
        try await Self.withChecks { server, store, poller, clock in
            let renewal = V1Body(
                subscription: Self.subscription, transaction: "9", purchase: Self.end, expires: Self.renewedEnd)
            #expect(try await server.apple.post(try renewal.bytes).status == 200)
            try await server.isFolded()

            clock.set(Self.hour(1))
            let round = try await poller.round(at: clock.now)

            #expect(round.asked == 0)
            #expect(round.nextDue == Self.hour(1, after: Self.renewedEnd))
            #expect(store.requests.isEmpty)
        }
    }

    @Test("thirty hours without an answer end no access and become no event; the next answer counts")
    func outage() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.answer(Self.receipt, #"{"status":21005}"#)
            let grace = V1Body(
                type: "DID_FAIL_TO_RENEW",
                rows: [
                    V1Body.Row(
                        Self.subscription, subscription: Self.subscription, purchase: Self.purchase, expires: Self.end)
                ], subscription: Self.subscription, autoRenew: true, graceUntil: Self.end + 48 * 3_600_000)
            #expect(try await server.apple.post(try grace.bytes).status == 200)
            try await server.isFolded()

            var rounds = 0
            var now = Self.hour(1)
            while now < Self.hour(31) {
                clock.set(now)
                let round = try await poller.round(at: now)
                rounds += round.asked
                now = try #require(round.nextDue)
            }

            #expect(rounds > 5)
            #expect(try await server.sql("select distinct result from subledger.store_check") == ["unavailable"])
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["2"])
            let during = try await server.backend.get("/subscriptions/\(Self.subscription)?at=2019-12-12T00:00:00Z")
            #expect(during.json["active"] as? Bool == true, "\(during.body)")

            clock.set(now)
            store.answer(Self.receipt, Self.answer(isRenewed: true, at: now))
            #expect(try await poller.round(at: now).asked == 1)
            try await server.isFolded()
            let after = try await server.backend.get("/subscriptions/\(Self.subscription)?at=2019-12-15T00:00:00Z")
            #expect(after.json["active"] as? Bool == true, "\(after.body)")
        }
    }

    @Test("a stream whose checks the database refuses is left alone for five minutes, and ends no round")
    func refusedStream() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.answer(Self.receipt, Self.answer(isRenewed: true, at: Self.hour(1)))
            _ = try await server.sql(
                "alter table subledger.check_schedule add constraint broken check (asking_until is null)")
            clock.set(Self.hour(1))

            let refused = try await poller.round(at: clock.now)
            let held = try await poller.round(at: clock.now)

            #expect(refused.asked == 0)
            #expect(refused.nextDue == Self.hour(1).advanced(by: .seconds(300)))
            #expect(held.asked == 0)
            #expect(held.nextDue == refused.nextDue)
            #expect(server.logs.text.components(separatedBy: "checks of a stream not made").count == 2)
            let failing = try #require(poller.failing.first)
            #expect(failing.work == "checks")
            #expect(failing.environment == .production)
            _ = try await server.sql("alter table subledger.check_schedule drop constraint broken")
            clock.set(Self.hour(1).advanced(by: .seconds(300)))
            #expect(try await poller.round(at: clock.now).asked == 1)
            #expect(poller.failing == [])
        }
    }

    @Test("a question that takes long keeps no check of another stream from being made, and is asked once")
    func slow() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.hold([Self.receipt])
            clock.set(Self.hour(1))
            let running = Task { await poller.run() }
            defer { running.cancel() }
            try await eventually("the first question") { store.requests == [Self.receipt] ? () : nil }

            let other = Data(repeating: 8, count: 96).base64EncodedString()
            var body = V1Body(
                type: "INITIAL_BUY", subscription: Self.other, transaction: Self.other, purchase: Self.purchase,
                expires: Self.end)
            body.fields["environment"] = "Sandbox"
            body.fields["unified_receipt"] = (body.fields["unified_receipt"] as? [String: Any])?
                .merging(["environment": "Sandbox", "latest_receipt": other]) { $1 }
            #expect(try await server.apple.post(try body.bytes).status == 200)
            try await server.isFolded()
            clock.set(Self.hour(2))
            try await eventually("the check of the other stream") { store.requests.contains(other) ? () : nil }

            running.cancel()
            await running.value
            #expect(store.requests.count { $0 == Self.receipt } == 1)
        }
    }

    @Test("one answer serves all subscriptions of an Apple Account")
    func account() async throws {
        let ids = [Self.subscription, Self.other]
        try await Self.withChecks(of: ids) { server, store, poller, clock in
            store.answer(Self.receipt, Self.answer(ids, isRenewed: true, at: Self.hour(1)))

            clock.set(Self.hour(1))
            let round = try await poller.round(at: clock.now)
            try await server.isFolded()

            #expect(round.asked <= 2)
            #expect(store.requests.count == round.asked)
            let records = try await server.sql(Self.records)
            #expect(records.map { $0.prefix(while: { $0 != " " }).description } == ids, "\(records)")
            #expect(
                try await server.sql("select count(*)::text from subledger.event where source = 'apple-receipt'")
                    == ["1"])
            #expect(try await poller.round(at: clock.now).asked == 0)
        }
    }

    @Test("a rejected secret is recorded; once it is corrected, the check is made")
    func secret() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.answer(Self.receipt, #"{"status":21004}"#)
            clock.set(Self.hour(1))
            let rejected = try await poller.round(at: clock.now)
            let records = try await server.sql("select result || ' ' || status from subledger.store_check")

            store.answer(Self.receipt, Self.answer(at: Self.hour(1)))
            let next = try #require(rejected.nextDue)
            clock.set(next)
            let corrected = try await poller.round(at: next)

            #expect(rejected.asked == 1)
            #expect(records == ["secret_rejected 21004"])
            #expect(corrected.asked == 1)
            #expect(
                try await server.sql("select result from subledger.store_check order by asked_at")
                    == ["secret_rejected", "unchanged"])
            #expect(!server.logs.text.contains(V1Body.secret))
            #expect(!server.logs.text.contains(Self.receipt))
        }
    }

    @Test("a subscription known only from signed notifications is not asked about")
    func withoutReceipt() async throws {
        let app = App(bundleId: SignedBody.app, sharedSecrets: [V1Body.secret])
        let store = ScriptedStore()
        let clock = SetClock(Self.hour(24 * 365))
        try await TestBundle.withServer(apps: [app], roots: SignedBody.roots) { server in
            #expect(try await server.apple.post(SignedBody.make()).status == 200)
            try await server.isFolded()
            try await Self.withPoller(of: app, on: server, asking: store, clock) { poller, checker in
                let round = try await poller.round(at: clock.now)
                let checked = try await checker.checkNow("2000000000000001", of: app, in: .sandbox)

                #expect(round.asked == 0)
                #expect(checked?.record.result == .noReceipt)
                #expect(try await checker.checkNow("3", of: app, in: .sandbox) == nil)
                #expect(store.requests.isEmpty)
            }
        }
    }

    @Test("a second process asks nothing while the first lives, and everything once its lease has run out")
    func takenOver() async throws {
        try await Self.withChecks { server, store, poller, clock in
            store.answer(Self.receipt, Self.answer(at: Self.hour(1)))
            // The first takes the lead.
            #expect(try await poller.round(at: clock.now).asked == 0)
            clock.set(Self.hour(1))
            try await Self.withPoller(on: server, asking: store, clock) { second, _ in
                #expect(try await second.round(at: clock.now).asked == 0)
                #expect(try await second.round(at: clock.now).nextDue == nil)

                // As if the first process had died: its lease runs out.
                #expect(
                    try await server.sql(
                        "update subledger.lease set until = now() where work = 'checks' returning work") == ["checks"])

                let asked = try await eventually("the second process leads") {
                    let asked = try await second.round(at: clock.now).asked
                    return asked > 0 ? asked : nil
                }
                #expect(asked == 1)
                #expect(try await poller.round(at: clock.now).asked == 0)
            }
            #expect(store.requests.count == 1)
        }
    }
}
