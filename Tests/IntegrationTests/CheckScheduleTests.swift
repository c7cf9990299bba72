import Encoding
import EventLog
import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("The schedule of checks in the database")
struct CheckScheduleTests {
    private typealias Row = CustomerLog.Row

    /// The rows of the schedule: subscription, due time, reason, whether there is a receipt, next time.
    private static let rows = """
        select concat_ws(' ', original_transaction_id, to_char(due_at at time zone 'UTC', 'MM-DD HH24:MI'), reason,
          has_receipt, coalesce(to_char(next_at at time zone 'UTC', 'MM-DD HH24:MI'), 'never'))
        from subledger.check_schedule
        order by 1
        """

    private static let renewal = "10 02-01 01:00 renewal t 02-01 01:00"
    private static let checked = "10 02-01 01:00 renewal t 02-01 04:00"

    private static func stream(_ id: Int32, asksWithoutReceipt: Bool = false) -> CheckQueue.PolledStream {
        CheckQueue.PolledStream(
            id: id, key: StreamKey(app: CustomerLog.app, environment: .production),
            asksWithoutReceipt: asksWithoutReceipt)
    }

    private static func withQueue(_ test: (CustomerLog, CheckQueue) async throws -> Void) async throws {
        try await CustomerLog.with { log in
            let pool = PostgresPool(
                log.database.with(role: "subledger_poller"), limit: 1, logger: LogRecorder().logger)
            let outcome: Result<Void, any Error>
            do {
                try await test(log, CheckQueue(pool: pool))
                outcome = .success(())
            } catch {
                outcome = .failure(error)
            }
            await pool.close()
            try outcome.get()
        }
    }

    private static func hour(_ hour: Int64, on date: Int) -> Instant {
        day(date, milliseconds: hour * 3_600_000)
    }

    private static func record(
        _ due: CheckQueue.DueCheck, at askedAt: Instant, _ result: CheckResult = .unchanged, nextAt: Instant?
    ) -> CheckRecord {
        CheckRecord(
            originalTransactionId: due.originalTransactionId, askedAt: askedAt, scheduled: due.scheduled,
            result: result, status: 0, nextAt: nextAt)
    }

    private static func rebuild(_ log: CustomerLog) async throws -> ProjectionRebuild.Outcome {
        let pool = PostgresPool(
            log.database.with(role: "subledger_projector"), limit: 2, logger: LogRecorder().logger)
        let outcome = try await ProjectionRebuild(
            owner: log.database, pool: pool, app: nil, environment: nil, now: { .latest }
        ).run { _ in }
        await pool.close()
        return outcome
    }

    @Test("a fold writes the next check, changes it with the facts, and removes it when nothing can follow")
    func written() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<32)]), .rows([Row("20", 1..<11)])])
            let bought = try await log.lines(Self.rows)
            try await log.tell([.rows([Row("20", 11..<21, transaction: "21")])], on: 11)
            let renewed = try await log.lines(Self.rows)
            try await log.tell([.rows([Row("10", 1..<32, revokedOn: 12)])], on: 12)

            #expect(bought == [Self.renewal, "20 01-11 01:00 renewal t 01-11 01:00"])
            #expect(renewed == [Self.renewal, "20 01-21 01:00 renewal t 01-21 01:00"])
            #expect(try await log.lines(Self.rows) == ["20 01-21 01:00 renewal t 01-21 01:00"])
        }
    }

    @Test("the rows follow the rule for every story, each in both versions")
    func everyStory() async throws {
        try await SimulatedLog.withEveryStory { log in
            let connection = try await TestCluster.connect(log.database)
            let stored = try await connection.query(
                Statement(
                    "stored",
                    """
                    select subscription.original_transaction_id, subscription.facts, check_schedule.due_at,
                      check_schedule.reason, check_schedule.has_receipt, check_schedule.next_at
                    from subledger.subscription
                    left join subledger.check_schedule using (stream_id, original_transaction_id)
                    """), deadline: .now + .seconds(20))
            await connection.close()

            var scheduled = 0
            for row in stored {
                let id: String = try row.value(at: 0)
                let facts = try SubscriptionFacts(
                    originalTransactionId: id, json: try JSONDocument(try row.value(JSONText.self, at: 1).utf8).root)
                let subscription = Subscription(facts)
                let next = subscription.nextCheck(after: subscription.reports.latestAt, policy: .standard)
                let dueAt: Instant? = try row.optional(at: 2)
                let reason: String? = try row.optional(at: 3)
                let hasReceipt: Bool? = try row.optional(at: 4)
                let nextAt: Instant? = try row.optional(at: 5)
                #expect(dueAt == next?.dueAt, "\(id)")
                #expect(reason == next?.reason.rawValue, "\(id)")
                #expect(nextAt == dueAt, "\(id)")
                #expect(hasReceipt == next.map { _ in subscription.reports.hasUnsigned }, "\(id)")
                if next != nil { scheduled += 1 }
            }
            #expect(scheduled > 0 && scheduled < stored.count, "\(scheduled) of \(stored.count)")
        }
    }

    @Test("a change of the lead recomputes the schedule")
    func lead() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<32)])])
            try await log.script(
                "insert into subledger.app_checks (app, check_lead) values ('\(CustomerLog.app)', 'PT6H')")
            await log.projector.foldAllStreams()
            let early = try await log.lines(Self.rows)
            try await log.script("update subledger.app_checks set check_lead = ''")
            await log.projector.foldAllStreams()

            #expect(early == ["10 01-31 18:00 renewal t 01-31 18:00"])
            #expect(try await log.lines(Self.rows) == [Self.renewal])
        }
    }

    @Test("a check is due from its time on, and after a record from the time that the record names")
    func due() async throws {
        try await Self.withQueue { log, queue in
            try await log.tell([.rows([Row("10", 1..<32), Row("20", 1..<31)])])

            #expect(try await queue.due(in: Self.stream(1), at: Self.hour(0, on: 31), limit: 10).isEmpty)
            #expect(try await queue.backlog(of: Self.stream(1), at: Self.hour(0, on: 31)).due == 0)
            #expect(
                try await queue.backlog(of: Self.stream(1), at: Self.hour(0, on: 31)).nextAt == Self.hour(1, on: 31))
            let both = try await queue.due(in: Self.stream(1), at: Self.hour(1, on: 32), limit: 10)
            #expect(both.map(\.originalTransactionId) == ["20", "10"])
            #expect(
                try await queue.due(in: Self.stream(1), at: Self.hour(1, on: 32), limit: 1).map(\.originalTransactionId)
                    == ["20"])
            #expect(try await queue.due(in: Self.stream(2), at: Self.hour(1, on: 32), limit: 10).isEmpty)

            let check = Self.record(both[1], at: Self.hour(1, on: 32), nextAt: Self.hour(4, on: 32))
            try await queue.record(check, in: 1)
            try await queue.record(check, in: 1)
            try await queue.record(Self.record(both[0], at: Self.hour(1, on: 32), .noReceipt, nextAt: nil), in: 1)

            #expect(try await queue.due(in: Self.stream(1), at: Self.hour(3, on: 32), limit: 10).isEmpty)
            let again = try await queue.due(in: Self.stream(1), at: Self.hour(4, on: 32), limit: 10)
            try #require(again.map(\.originalTransactionId) == ["10"])
            #expect(again[0].scheduled == StoreCheck(dueAt: Self.hour(1, on: 32), reason: .renewal))
            #expect(again[0].nextAt == Self.hour(4, on: 32))
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', original_transaction_id, reason, result, status)
                    from subledger.store_check
                    order by 1
                    """) == ["10 renewal unchanged 0", "20 renewal no_receipt 0"])
        }
    }

    @Test("a claimed check is no other process's until the claim ends, is moved or released, or the check is recorded")
    func claimed() async throws {
        try await Self.withQueue { log, queue in
            try await log.tell([.rows([Row("10", 1..<32), Row("20", 1..<31)])])
            let (now, stream) = (Self.hour(1, on: 32), Self.stream(1))
            func claim(at now: Instant) async throws -> [String] {
                try await queue.claimDue(in: stream, at: now, until: now.advanced(by: .seconds(20)), limit: 10)
                    .map(\.originalTransactionId)
            }

            let first = try await queue.claimDue(in: stream, at: now, until: now.advanced(by: .seconds(20)), limit: 1)
            #expect(first.map(\.originalTransactionId) == ["20"])
            #expect(try await claim(at: now) == ["10"])
            #expect(try await claim(at: now).isEmpty)
            #expect(try await queue.nextClaimEnd(in: [stream], after: now) == now.advanced(by: .seconds(20)))

            try await queue.claim(["20"], in: 1, until: now.advanced(by: .seconds(60)))
            #expect(try await claim(at: now.advanced(by: .seconds(20))) == ["10"])
            try await queue.claim(["20"], in: 1, until: nil)
            #expect(try await claim(at: now.advanced(by: .seconds(20))) == ["20"])
            // A claim that has ended is not begun again.
            try await queue.record(Self.record(first[0], at: now, nextAt: now.advanced(by: .seconds(30))), in: 1)
            try await queue.claim(["20"], in: 1, until: .latest)
            #expect(try await claim(at: now.advanced(by: .seconds(30))) == ["20"])
            #expect(try await queue.claimDue(in: Self.stream(2), at: now, until: now, limit: 10).isEmpty)
        }
    }

    @Test("of some subscriptions, the due ones are found; and the next time is the earliest after the given one")
    func among() async throws {
        try await Self.withQueue { log, queue in
            try await log.tell([.rows([Row("10", 1..<32), Row("20", 1..<31), Row("30", 1..<11)])])
            let now = Self.hour(1, on: 31)

            let due = try await queue.due(among: ["10", "20", "99"], in: Self.stream(1), at: now)

            #expect(due.map(\.originalTransactionId) == ["20"])
            #expect(due.map(\.nextAt) == [now])
            #expect(try await queue.nextAt(of: "10", in: Self.stream(1)) == Self.hour(1, on: 32))
            #expect(try await queue.nextAt(of: "99", in: Self.stream(1)) == nil)
            #expect(try await queue.nextDue(in: [Self.stream(1)], after: now) == Self.hour(1, on: 32))
            #expect(try await queue.nextDue(in: [Self.stream(1), Self.stream(2)], after: Self.hour(1, on: 32)) == nil)
            #expect(try await queue.nextDue(in: [Self.stream(2)], after: now) == nil)
            #expect(
                try await queue.streams(of: [CustomerLog.app, "com.example.other"]).map(\.key)
                    == [StreamKey(app: CustomerLog.app, environment: .production)])
            #expect(try await queue.streams(of: ["com.example.other"]).isEmpty)
        }
    }

    @Test("failures are counted since the last answer, each subscription by itself")
    func failures() async throws {
        try await Self.withQueue { log, queue in
            try await log.tell([.rows([Row("10", 1..<32), Row("20", 1..<32)])])
            let due = try #require(try await queue.due(in: Self.stream(1), at: Self.hour(1, on: 32), limit: 1).first)
            #expect(due.originalTransactionId == "10" || due.originalTransactionId == "20")
            var counts: [Int] = []
            for (hour, result) in [CheckResult.unavailable, .refused, .unchanged, .secretRejected].enumerated() {
                let askedAt = Self.hour(Int64(hour) + 2, on: 32)
                let check = Self.record(due, at: askedAt, result, nextAt: askedAt.advanced(by: .seconds(60)))
                try await queue.record(check, in: 1)
                counts.append(try await queue.failuresInRow(of: due.originalTransactionId, in: 1))
            }

            #expect(counts == [1, 2, 0, 1])
            #expect(try await queue.failuresInRow(of: "30", in: 1) == 0)
        }
    }

    @Test("a check that the facts have replaced meanwhile is recorded, and the new one stays")
    func replaced() async throws {
        try await Self.withQueue { log, queue in
            try await log.tell([.rows([Row("10", 1..<11)])])
            let due = try #require(try await queue.due(in: Self.stream(1), at: Self.hour(1, on: 11), limit: 1).first)
            try await log.tell([.rows([Row("10", 11..<32, transaction: "11")])], on: 11)

            let next = Self.hour(2, on: 11)
            try await queue.record(
                Self.record(due, at: Self.hour(1, on: 11), .appended(position: 2), nextAt: next), in: 1)

            #expect(try await log.lines(Self.rows) == [Self.renewal])
            #expect(try await log.lines("select position::text from subledger.store_check") == ["2"])
        }
    }

    @Test("recorded checks survive a refold and a rebuild, also of a schedule that was lost")
    func kept() async throws {
        try await Self.withQueue { log, queue in
            try await log.tell([.rows([Row("10", 1..<32)])])
            let due = try #require(try await queue.due(in: Self.stream(1), at: Self.hour(1, on: 32), limit: 1).first)
            try await queue.record(
                Self.record(due, at: Self.hour(1, on: 32), .unavailable, nextAt: Self.hour(2, on: 32)), in: 1)
            try await queue.record(
                Self.record(due, at: Self.hour(2, on: 32), nextAt: Self.hour(4, on: 32)), in: 1)
            #expect(try await log.lines(Self.rows) == [Self.checked])

            try await log.script("update subledger.checkpoint set projection_version = 0")
            await log.projector.foldAllStreams()
            #expect(try await log.lines(Self.rows) == [Self.checked])
            #expect(try await Self.rebuild(log).rowsReplaced == 0)
            #expect(try await log.lines(Self.rows) == [Self.checked])
            try await log.script("delete from subledger.check_schedule")
            _ = try await Self.rebuild(log)

            #expect(try await log.lines(Self.rows) == [Self.checked])
        }
    }

    @Test("the poller records checks, but changes neither facts, the schedule's own columns nor earlier records")
    func rights() async throws {
        let database = try await TestCluster.freshDatabase()
        let poller = try await TestCluster.connect(database.with(role: "subledger_poller"))
        let soon = ContinuousClock.now + .seconds(20)

        try await poller.script(
            """
            select body from subledger.event_body;
            select facts from subledger.subscription;
            select products from subledger.product_catalog;
            select subledger.event_body(1, 1);
            select receipt from subledger.receipt;
            update subledger.check_schedule set next_at = null;
            insert into subledger.store_check (stream_id, original_transaction_id, asked_at, result)
            values (1, '10', now(), 'unavailable')
            """, deadline: soon)
        for refused in [
            "insert into subledger.check_schedule select from subledger.check_schedule",
            "update subledger.check_schedule set due_at = now()", "delete from subledger.check_schedule",
            "update subledger.store_check set result = 'refused'", "delete from subledger.store_check",
            "delete from subledger.event", "update subledger.subscription set position = 1",
            "select from subledger.token",
            "update subledger.receipt set state = 'refused'", "insert into subledger.app_checks values ('a', '')",
        ] {
            let error = await #expect(throws: PostgresError.self) { try await poller.script(refused, deadline: soon) }
            #expect(error?.sqlstate == "42501", "\(refused)")
        }
        await poller.close()
    }

    @Test("results have the words of the database")
    func results() {
        let results: [CheckResult] = [
            .unchanged, .noReceipt, .secretRejected, .keyRejected, .notFound, .refused, .unreadable, .unavailable,
            .appended(position: 7),
        ]

        for result in results { #expect(CheckResult(label: result.label, position: result.position) == result) }
        #expect(Set(CheckResult.labels) == Set(results.map(\.label)))
        #expect(CheckResult(label: "appended", position: nil) == nil)
        #expect(CheckResult(label: "refused", position: 7) == nil)
        #expect(CheckResult(label: "lucky", position: nil) == nil)
    }
}

extension CheckQueue {
    /// The checks that are due, with claims that end at once.
    fileprivate func due(
        in stream: PolledStream, at now: Instant, limit: Int64
    ) async throws(ReadError) -> [DueCheck] {
        try await claimDue(in: stream, at: now, until: now, limit: limit)
    }
}
