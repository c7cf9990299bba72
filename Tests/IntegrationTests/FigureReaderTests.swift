import Encoding
import EventLog
import Postgres
import Readers
import Synchronization
import TestSupport
import Testing

@Suite("Figures are kept, stamped, and not read for every page")
struct FigureReaderTests {
    private static let at = Instant(milliseconds: 1_573_200_840_000) ?? .earliest

    private static func stream(head: Int64) -> StreamState {
        StreamState(
            streamId: 1, app: V1Body.app, environment: "production", head: head, folded: head, waitingSince: nil)
    }

    /// How much time has passed for the reader.
    private final class Clock: Sendable {
        let passed = Mutex(Duration.zero)

        func pass(_ duration: Duration) { passed.withLock { $0 = duration } }
    }

    /// A reader whose clock the test moves.
    private static func withReader(
        _ test: (FigureReader, Clock, PostgresConnection) async throws -> Void
    ) async throws {
        let database = try await TestCluster.freshDatabase()
        let pool = PostgresPool(
            database.with(role: "subledger_reader"), limit: 2, logger: LogRecorder().logger)
        let start = ContinuousClock.now
        let clock = Clock()
        let reader = FigureReader(pool: pool, now: { start + clock.passed.withLock { $0 } })
        let owner = try await TestCluster.connect(database)
        try await test(reader, clock, owner)
        await owner.close()
        await pool.close()
    }

    private static func rows(
        _ reader: FigureReader, head: Int64, at instant: Instant = at
    ) async -> Result<FigureRows, FigureFailure> {
        await reader.rows(
            of: .active, in: stream(head: head), from: "2019-11-01", to: "2019-11-08", at: instant)
    }

    @Test("a quick figure is read again when events arrived, and otherwise after a minute")
    func quick() async throws {
        try await Self.withReader { reader, clock, _ in
            let later = Self.at.advanced(byMilliseconds: 1000)
            let first = try await Self.rows(reader, head: 1).get()
            let same = try await Self.rows(reader, head: 1, at: later).get()
            let other = try await Self.rows(reader, head: 2, at: later).get()
            clock.pass(.seconds(61))
            let last = Self.at.advanced(byMilliseconds: 61_000)
            let old = try await Self.rows(reader, head: 2, at: last).get()

            #expect(first.madeAt == Self.at)
            #expect(same.madeAt == Self.at)
            #expect(other.madeAt == later)
            #expect(old.madeAt == last)
        }
    }

    @Test("a slow figure is shown as it was read, and read again once a minute while it is shown")
    func slow() async throws {
        try await Self.withReader { reader, clock, owner in
            // The reading waits for a lock, and the clock passes meanwhile.
            try await owner.script(
                "begin; lock table subledger.access_period in access exclusive mode", deadline: .now + .seconds(20))
            async let slow = Self.rows(reader, head: 1)
            _ = try await eventually("the figure is being read") {
                try await owner.query(
                    Statement("waiting", "select pid from pg_locks where not granted"), deadline: .now + .seconds(20)
                ).count > 0 ? true : nil
            }
            clock.pass(.seconds(3))
            try await owner.script("rollback", deadline: .now + .seconds(20))
            #expect(try await slow.get().madeAt == Self.at)

            let later = Self.at.advanced(byMilliseconds: 10_000)
            #expect(try await Self.rows(reader, head: 500, at: later).get().madeAt == Self.at)
            clock.pass(.seconds(100))
            // Too old: it is shown once more, and read again meanwhile.
            #expect(try await Self.rows(reader, head: 500, at: later).get().madeAt == Self.at)
            _ = try await eventually("the figure was read again") {
                try await Self.rows(reader, head: 500).get().madeAt == later ? true : nil
            }
        }
    }
}
