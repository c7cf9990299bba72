import EventLog
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("Refund requests are what the events about a purchase say")
struct RefundRequestTests {
    /// An event about a purchase.
    private struct Stated {
        let kind: String
        let transaction: String
        let occurredAt: String
        var source = "apple-v2"
        var stream = 1

        static func asked(_ transaction: String, _ at: String) -> Stated {
            Stated(kind: "consumption_request", transaction: transaction, occurredAt: at)
        }

        static func granted(_ transaction: String, _ at: String) -> Stated {
            Stated(kind: "refund", transaction: transaction, occurredAt: at)
        }

        static func declined(_ transaction: String, _ at: String) -> Stated {
            Stated(kind: "refund_declined", transaction: transaction, occurredAt: at)
        }

        static func reversed(_ transaction: String, _ at: String) -> Stated {
            Stated(kind: "refund_reversal", transaction: transaction, occurredAt: at)
        }
    }

    /// Appends events in the order of their arrival, one a minute from 2026-06-01 on.
    private static func append(_ events: [Stated], to log: SimulatedLog) async throws {
        let rows = events.enumerated().map { index, event in
            """
            (
              \(event.stream), \(index + 1), timestamptz '2026-06-01 00:00Z' + \(index) * interval '1 minute',
              '\(event.occurredAt)', '\(event.source)', '\(event.kind)', sha256('\(index)'),
              '{"transactions":[{"transactionId":"\(event.transaction)","originalTransactionId":"o","productId":"p"}]}',
              sha256('{}'), sha256('')
            )
            """
        }
        try await log.script(
            """
            insert into subledger.stream (stream_id, app, environment)
            values (1, 'com.example.app', 'production'), (2, 'com.example.app', 'sandbox');
            insert into subledger.event (
              stream_id, position, received_at, occurred_at, source, kind, dedupe_key, facts, body_sha256,
              chain
            )
            values \(rows.joined(separator: ",\n"));
            """)
    }

    private static let requests: StaticString = """
        select
          format(
            '%s %s: %s asked %s, %s %s%s', stream_id, transaction_id, position, requests,
            coalesce(decision, 'open'), to_char(decided_at at time zone 'UTC', 'MM-DD'),
            to_char(reversed_at at time zone 'UTC', ', "reversed" MM-DD')
          )
        from subledger.refund_request
        order by stream_id, position
        """

    private static func read(_ events: [Stated]) async throws -> [String] {
        var found: [String] = []
        try await SimulatedLog.with { log in
            try await append(events, to: log)
            found = try await log.lines(requests)
        }
        return found
    }

    @Test("questions with different ids before a decision are one request")
    func oneRequest() async throws {
        let found = try await Self.read([
            .asked("t1", "2026-05-01"), .asked("t1", "2026-05-02"), .asked("t2", "2026-05-01"),
            .granted("t1", "2026-05-03"), .granted("t3", "2026-05-03"),
        ])
        #expect(found == ["1 t1: 1 asked 2, granted 05-03", "1 t2: 3 asked 1, open "])
    }

    @Test("a question after a decision, or after its reversal, is a new request")
    func askedAgain() async throws {
        let found = try await Self.read([
            .asked("t1", "2026-05-01"), .declined("t1", "2026-05-02"), .asked("t1", "2026-05-03"),
            .granted("t1", "2026-05-04"), .reversed("t1", "2026-05-05"), .asked("t1", "2026-05-06"),
        ])
        #expect(
            found == [
                "1 t1: 1 asked 1, declined 05-02", "1 t1: 3 asked 1, granted 05-04, reversed 05-05",
                "1 t1: 6 asked 1, open ",
            ])
    }

    @Test("the order in which the notifications arrive does not matter")
    func shuffled() async throws {
        let found = try await Self.read([
            .reversed("t1", "2026-05-05"), .granted("t1", "2026-05-04"), .asked("t1", "2026-05-03"),
            .declined("t1", "2026-05-02"), .asked("t1", "2026-05-01"),
        ])
        #expect(found == ["1 t1: 3 asked 1, granted 05-04, reversed 05-05", "1 t1: 5 asked 1, declined 05-02"])
    }

    @Test("version 1 does not say which purchase it asks about; streams are apart, and fetched notifications count")
    func sources() async throws {
        var old = Stated.asked("t1", "2026-05-01")
        old.source = "apple-v1"
        var fetched = Stated.asked("t2", "2026-05-01")
        fetched.source = "apple-history"
        var sandbox = Stated.declined("t2", "2026-05-02")
        sandbox.stream = 2
        let found = try await Self.read([old, fetched, sandbox])
        #expect(found == ["1 t2: 2 asked 1, open "])
    }

    @Test("a query about one purchase reads the events of that purchase alone")
    func plan() async throws {
        try await SimulatedLog.with { log in
            try await Self.append([.asked("t1", "2026-05-01")], to: log)
            let plan = try await log.lines(
                """
                explain select position
                from subledger.refund_request
                where stream_id = 1
                  and transaction_id = 't1'
                """)
            #expect(plan.contains { $0.contains("event_refund_request_idx") }, "\(plan)")
            #expect(plan.contains { $0.contains("Index Cond") && $0.contains("'t1'") }, "\(plan)")
        }
    }

    @Test("analysts see each request with its answer and its decision, and their numbers by month")
    func analysts() async throws {
        try await SimulatedLog.with { log in
            try await Self.append(
                [
                    .asked("t1", "2026-05-01"), .granted("t1", "2026-05-01T18:30:00Z"),
                    .reversed("t1", "2026-05-05"), .asked("t2", "2026-05-30"), .declined("t2", "2026-06-02"),
                    .asked("t3", "2026-05-31"),
                ], to: log)
            try await log.script(
                """
                insert into subledger.consumption_answer (
                  stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
                  delivery_status, refund_preference, state, attempts, asked_at
                )
                values (
                  1, 1, 't1', '2026-05-01 12:00Z', 'policy', '2026-05-01', true, 'DELIVERED', 'DECLINE', 'accepted', 1,
                  '2026-05-01 00:05Z'
                )
                """)
            let requests = try await log.lines(
                """
                select
                  concat_ws(
                    ' ', transaction_id, answer, answered_by, refund_preference, decision, hours, reversed_at is not null
                  )
                from analyst.refund_requests_detail
                order by position
                """)
            #expect(
                requests == [
                    "t1 accepted policy DECLINE granted 18.5 t", "t2 unanswered declined 72.0 f", "t3 unanswered f",
                ])
            let months = try await log.lines(
                """
                select
                  concat_ws(
                    ' ', month, product_id, requests, answered, granted, declined, reversed, open, p50_hours
                  )
                from analyst.refund_requests
                """)
            #expect(months == ["2026-05-01 p 3 1 1 1 1 1 18.5"])
        }
    }
}
