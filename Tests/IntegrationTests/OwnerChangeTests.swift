import Encoding
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("The change feed publishes every change of owner, by the clock and of the past, too")
struct OwnerChangeTests {
    typealias Row = CustomerLog.Row

    /// The changes of owner: the customer, when it took effect, why, and the end of its access.
    private static func changes(_ log: CustomerLog) async throws -> [String] {
        try await log.lines(
            """
            select concat_ws(' ', customer_id, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI'), cause, position,
              coalesce(to_char(until at time zone 'UTC', 'YYYY-MM-DD'), '–'))
            from subledger.change
            where kind = 'customer_changed'
            order by number
            """)
    }

    /// Folds a log with clocks that the test sets.
    private static func withProjector(
        _ test: (CustomerLog, (Instant) async -> Void) async throws -> Void
    ) async throws {
        try await CustomerLog.with { log in
            let role = log.database.with(role: "subledger_projector")
            let pool = PostgresPool(role, limit: Projector.connectionsMax, logger: LogRecorder().logger)
            let outcome: Result<Void, any Error>
            do {
                try await test(log) { now in
                    let projector = Projector(
                        pool: pool, listener: role, now: { now }, logger: LogRecorder().logger)
                    #expect(await projector.foldAllStreams())
                }
                outcome = .success(())
            } catch {
                outcome = .failure(error)
            }
            await pool.close()
            try outcome.get()
        }
    }

    @Test("a purchase whose date is ahead of the clock moves the subscription when the clock reaches it, once")
    func future() async throws {
        try await Self.withProjector { log, fold in
            try await log.tell([.rows([Row("10", 1..<32, account: "aa")])], on: 2, folding: false)
            await fold(day(2))
            try await log.tell(
                [.rows([Row("10", 20..<51, account: "bb", transaction: "11")])], on: 19, folding: false)
            await fold(day(19))
            #expect(try await Self.changes(log) == [])
            #expect(
                try await log.lines("select (next_at = '2024-01-20Z')::text from subledger.change_head") == ["true"])

            await fold(day(20, milliseconds: -1000))
            #expect(try await Self.changes(log) == [])
            await fold(day(20))
            let turn = ["aa 2024-01-20T00:00 clock –", "bb 2024-01-20T00:00 clock 2024-02-20"]
            #expect(try await Self.changes(log) == turn)
            await fold(day(21))
            #expect(try await Self.changes(log) == turn)
        }
    }

    @Test("a late token of a past purchase is published for the user who loses that time and the one who gains it")
    func past() async throws {
        try await Self.withProjector { log, fold in
            try await log.tell([.rows([Row("10", 1..<8, account: "aa")])], on: 2, folding: false)
            await fold(day(2))
            try await log.tell(
                [.rows([Row("10", 20..<32, account: "bb", transaction: "11")])], on: 20, folding: false)
            await fold(day(20, milliseconds: 60_000))
            try await log.tell([.rows([Row("10", 1..<8, account: "cc")])], on: 21, folding: false)
            await fold(day(21, milliseconds: 120_000))

            #expect(
                try await Self.changes(log) == [
                    "aa 2024-01-20T00:01 event 2 –", "bb 2024-01-20T00:01 event 2 2024-02-01",
                    "aa 2024-01-21T00:02 event 3 –", "cc 2024-01-21T00:02 event 3 –",
                ])
        }
    }

    @Test("a rebuild that corrects a past owner publishes it for both customers")
    func rebuild() async throws {
        try await Self.withProjector { log, fold in
            try await log.tell(
                [
                    .rows([Row("10", 1..<8, account: "aa")]),
                    .rows([Row("10", 20..<32, account: "bb", transaction: "11")]),
                ], on: 20, folding: false)
            await fold(day(21))
            try await log.script("update subledger.ownership set customer_id = 'zz' where customer_id = 'aa'")
            let pool = PostgresPool(
                log.database.with(role: "subledger_projector"), limit: 4, logger: LogRecorder().logger)

            _ = try await ProjectionRebuild(
                owner: log.database, pool: pool, app: nil, environment: nil, now: { day(22) }
            ).run { _ in }
            await pool.close()

            #expect(
                try await Self.changes(log)
                    == ["aa 2024-01-22T00:00 rebuild –", "zz 2024-01-22T00:00 rebuild –"])
        }
    }
}
