import AppStore
import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Synchronization
import TestSupport
import Testing

@Suite("V1 repeats: equal bytes within 4 days, without an event about the same subscription in between")
struct RepeatTests {
    private static let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
    private static let day: Int64 = 24 * 3600 * 1000

    private struct Log {
        let database: ConnectionConfiguration
        let batches: BatchedLog

        /// Appends in this order, each in a separate batch or all in one.
        func append(_ bodies: [(V1Body, Instant)], inOneBatch: Bool = false) async throws -> [Appended] {
            var entries: [PreparedEvent] = []
            for (body, receivedAt) in bodies {
                let notification = try RepeatTests.apps.verify(try body.bytes, receivedAt: receivedAt)
                entries.append(PreparedEvent(notification, receivedAt: receivedAt))
            }
            return try await batches.append(entries, inOneBatch: inOneBatch)
        }
    }

    private static func withLog(_ test: (Log) async throws -> Void) async throws {
        let database = try await TestCluster.freshDatabase()
        let logger = LogRecorder().logger
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        try await test(Log(database: database, batches: BatchedLog(pool: pool, logger: logger)))
        await pool.close()
    }

    private static func at(_ milliseconds: Int64) -> Instant {
        TestBundle.now.advanced(byMilliseconds: milliseconds)
    }

    /// A change of the product of the next renewal.
    private static func preference(_ product: String, subscription: String = "1000000000000001") -> V1Body {
        var body = V1Body(type: "DID_CHANGE_RENEWAL_PREF", subscription: subscription)
        body["auto_renew_product_id"] = product
        body["unified_receipt"] = nil
        body["original_transaction_id"] = subscription
        return body
    }

    /// From an app that sells only consumables; only the receipt identifies the customer.
    private static func consumption(receipt: String) -> V1Body {
        var body = V1Body(type: "CONSUMPTION_REQUEST")
        body["auto_renew_status"] = nil
        body["original_transaction_id"] = ""
        body["unified_receipt"] =
            [
                "status": 0, "environment": "Production", "latest_receipt": receipt,
                "latest_receipt_info": [String](), "pending_renewal_info": [String](),
            ] as [String: Any]
        return body
    }

    @Test("consumption requests that differ only in their receipts are separate events with one fingerprint")
    func consumptionRequests() async throws {
        try await Self.withLog { log in
            let places = try await log.append(
                ["b25l", "dHdv", "dGhyZWU="].map { (Self.consumption(receipt: $0), Self.at(0)) })

            #expect(places.map(\.position) == [1, 2, 3])
            #expect(places.allSatisfy { $0.isNew && !$0.isConflict })
            let owner = try await TestCluster.connect(log.database)
            let rows = try await owner.query(
                Statement("groups", "select count(*), count(fingerprint) from analyst.events group by fingerprint"),
                deadline: .now + .seconds(10))
            #expect(rows.count == 1)
            #expect(try rows[0].value(Int64.self, at: 1) == 3)
            await owner.close()
        }
    }

    @Test("a plan that is changed, changed back and changed again gives three events", arguments: [false, true])
    func planChanges(inOneBatch: Bool) async throws {
        try await Self.withLog { log in
            let plans = ["silver", "gold", "silver"].map { Self.preference($0) }

            let places = try await log.append(
                plans.enumerated().map { ($0.element, Self.at(Int64($0.offset))) }, inOneBatch: inOneBatch)

            #expect(places.map(\.position) == [1, 2, 3])
            #expect(places.allSatisfy { $0.isNew })
        }
    }

    /// A clock that advances by a second on each call.
    private final class SteppingClock: Sendable {
        private let now = Mutex(TestBundle.now)

        func next() -> Instant {
            now.withLock { now in
                now = now.advanced(byMilliseconds: 1000)
                return now
            }
        }
    }

    @Test("the last chosen plan applies, even after a status change with a later date in its body")
    func lastPlan() async throws {
        let clock = SteppingClock()
        try await TestBundle.withServer(now: { clock.next() }) { server in
            _ = try await server.apple.post(try V1Body().bytes)
            // Its date is later than those in the other bodies, so by date it would come last.
            var dated = V1Body(
                type: "DID_CHANGE_RENEWAL_STATUS",
                rows: [
                    V1Body.Row(
                        "1000000000000001", subscription: "1000000000000001", purchase: 1_519_084_800_000,
                        expires: 1_521_504_000_000)
                ], subscription: "1000000000000001", autoRenew: true, changed: 1_519_084_900_000)
            dated["auto_renew_product_id"] = "com.example.magazine.monthly"
            #expect(try await server.apple.post(try dated.bytes).status == 200)
            for plan in ["silver", "gold", "silver"] {
                #expect(try await server.apple.post(try Self.preference(plan).bytes).status == 200)
            }
            try await server.isFolded()

            #expect(
                try await server.sql("select auto_renew_product_id from subledger.subscription") == ["silver"])
        }
    }

    @Test(
        "the same bytes are a repeat up to 4 days later, and a new event a millisecond after that",
        arguments: [false, true])
    func fourDays(inOneBatch: Bool) async throws {
        for body in [V1Body(number: 1), Self.consumption(receipt: "b25l")] {
            try await Self.withLog { log in
                let places = try await log.append(
                    [(body, Self.at(0)), (body, Self.at(4 * Self.day)), (body, Self.at(4 * Self.day + 1))],
                    inOneBatch: inOneBatch)

                #expect(places.map(\.position) == [1, 1, 2])
                #expect(places.map(\.isNew) == [true, false, true])
            }
        }
    }

    @Test(
        "only an event that names the same subscription ends a series of repeats"
    )
    func inBetween() async throws {
        try await Self.withLog { log in
            let body = Self.preference("silver")
            let rows = ["1000000000000009", "1000000000000001"].map {
                V1Body.Row($0, subscription: $0, purchase: 1_519_084_800_000, expires: 1_521_504_000_000)
            }
            let both = V1Body(type: "DID_RENEW", rows: rows, subscription: "1000000000000009", autoRenew: true)

            let places = try await log.append(
                [body, V1Body(number: 7), body, both, body, both].map { ($0, Self.at(0)) })

            #expect(places.map(\.position) == [1, 2, 1, 3, 4, 5])
        }
    }

    @Test("two writers with the same bodies in the same order store each body once")
    func severalReceivers() async throws {
        let database = try await TestCluster.freshDatabase()
        let logger = LogRecorder().logger
        let answers = try await withThrowingTaskGroup(of: [Appended].self) { group in
            for _ in 0..<2 {
                group.addTask {
                    let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logger)
                    let places = try await Log(database: database, batches: BatchedLog(pool: pool, logger: logger))
                        .append((0..<40).map { (V1Body(number: $0 % 20), Self.at(0)) })
                    await pool.close()
                    return places
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }

        #expect(answers[0].map(\.position) == answers[1].map(\.position))
        #expect(answers.joined().filter(\.isNew).count == 20)
    }

    /// One step of a generated sequence of events.
    private struct Step {
        let event: GeneratedEvent
        let receivedAt: Instant
        let startsBatch: Bool
    }

    @Test("generated events from all sources, in batches of all sizes, follow the rule for repeats", arguments: 0..<6)
    func generated(number: Int) async throws {
        var random = TestSeed.generator(number)
        var steps: [Step] = []
        var clock = Self.at(0)
        for _ in 0..<150 {
            clock = clock.advanced(
                byMilliseconds: random.chance(10) ? Self.day : Int64.random(in: 0...1000, using: &random))
            steps.append(
                Step(event: GeneratedEvent(using: &random), receivedAt: clock, startsBatch: random.chance(30)))
        }
        var expected = Rule()
        let wanted = steps.map { expected.place(of: $0.event, at: $0.receivedAt) }

        try await Self.withLog { log in
            var got: [Appended] = []
            var batch: [PreparedEvent] = []
            for step in steps {
                if step.startsBatch {
                    got += try await log.batches.append(batch, inOneBatch: true)
                    batch = []
                }
                batch.append(PreparedEvent(step.event.at(step.receivedAt), receivedAt: step.receivedAt))
            }
            got += try await log.batches.append(batch, inOneBatch: true)

            #expect(got.map(\.position) == wanted.map(\.position), "seed \(TestSeed.value), sequence \(number)")
            #expect(got.map(\.isNew) == wanted.map(\.isNew))
            #expect(got.map(\.isConflict) == wanted.map(\.isConflict))
        }
    }

    /// The rule, implemented literally over all events.
    private struct Rule {
        private var events: [(event: GeneratedEvent, receivedAt: Instant)] = []

        mutating func place(
            of event: GeneratedEvent, at receivedAt: Instant
        ) -> (position: Int64, isNew: Bool, isConflict: Bool) {
            if event.source == .appleV1 {
                let same = events.lastIndex { $0.event.source == .appleV1 && $0.event.body == event.body }
                if let same, events[same].receivedAt.duration(to: receivedAt) <= .seconds(4 * 24 * 3600),
                    events[(same + 1)...].allSatisfy({ $0.event.subscriptions.isDisjoint(with: event.subscriptions) })
                {
                    return (Int64(same + 1), false, false)
                }
            } else if let same = events.firstIndex(where: { $0.event.key == event.key }) {
                // A notification that was fetched has the id of the one that was posted.
                let isNotification = [.appleV2, .appleHistory].contains(event.source)
                return (Int64(same + 1), false, isNotification && events[same].event.body != event.body)
            }
            events.append((event, receivedAt))
            return (Int64(events.count), true, false)
        }
    }
}
