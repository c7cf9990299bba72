import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("A rebuild gives row for row what live projection gives, while that goes on")
struct RebuildTests {
    /// Spoils rows of every projection table, so that what is right afterwards was put there by the rebuild.
    private static let damage = """
        update subledger.subscription
        set facts = '{"transactions":[],"renewals":[]}', auto_renew = not coalesce(auto_renew, true)
        where stream_id = 1
          and original_transaction_id in (
            select original_transaction_id from subledger.subscription order by 1 limit 5
          );
        delete from subledger.transaction
        where original_transaction_id in (
          select original_transaction_id from subledger.subscription order by 1 desc limit 5
        );
        update subledger.transaction
        set price = coalesce(price, 0) + 1
        where transaction_id in (select transaction_id from subledger.transaction order by 1 limit 5);
        insert into subledger.access_period (
          stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, position
        )
        values (1, 'nobody', '2020-01-01', '2021-01-01', 'paid', 'nothing', 1)
        """

    @Test("also when rows were damaged before, and events arrive and are projected while it runs")
    func rowForRow() async throws {
        let deliveries = try await SimulatedLog.deliveries()
        var expected: [String] = []
        try await SimulatedLog.with { log in
            try await log.append(deliveries)
            await log.projector.foldAllStreams()
            expected = try await log.projections()
        }

        try await SimulatedLog.with { log in
            let half = deliveries.count / 2
            try await log.append(deliveries[..<half])
            await log.projector.foldAllStreams()
            try await log.script(Self.damage)
            let catalog = try await log.catalog()
            let live = Task { await log.projector.run() }
            var next = half

            let outcome = try await log.rebuild { _ in
                let end = min(next + 60, deliveries.count)
                try await log.append(deliveries[next..<end])
                next = end
            }

            #expect(next > half, "nothing arrived while it ran")
            try await log.append(deliveries[next...])
            _ = try await eventually("every event is folded") {
                try await log.status().allSatisfy { $0.contains("lag 0") } ? true : nil
            }
            live.cancel()
            await live.value
            let rebuilt = try await log.projections()
            #expect(outcome.rowsReplaced > 0)
            #expect(expected.count > 200)
            #expect(Set(rebuilt).subtracting(expected) == [])
            #expect(Set(expected).subtracting(rebuilt) == [])
            #expect(rebuilt.count == expected.count)
            #expect(try await log.catalog() == catalog)
            #expect(try await log.lines("select nspname::text from pg_namespace where nspname ~ 'rebuild'") == [])
        }
    }

    @Test("where nothing is wrong no row is replaced, and what a killed rebuild has left is cleared away")
    func nothingToDo() async throws {
        try await SimulatedLog.withEveryStory { log in
            let before = try await log.projections()
            try await log.script(
                """
                create schema subledger_rebuild;
                create table subledger_rebuild.subscription (left_over integer)
                """)

            let outcome = try await log.rebuild()

            #expect(outcome.rowsReplaced == 0)
            #expect(outcome.streams == 1)
            #expect(outcome.eventsFolded > 100)
            #expect(try await log.projections() == before)
        }
    }

    @Test("one that ends in the middle changes nothing, and the next one is not in its way")
    func interrupted() async throws {
        struct Killed: Error {}
        try await SimulatedLog.withEveryStory { log in
            let before = try await log.projections()
            try await log.script("update subledger.subscription set position = position + 1")
            let damaged = try await log.projections()

            await #expect(throws: Killed.self) { try await log.rebuild { _ in throw Killed() } }

            #expect(try await log.projections() == damaged)
            _ = try await log.rebuild()
            #expect(try await log.projections() == before)
        }
    }

    @Test("from nothing: all rows are made, by a rebuild alone")
    func fromNothing() async throws {
        try await SimulatedLog.withEveryStory { log in
            let before = try await log.projections()
            try await log.script("delete from subledger.subscription; delete from subledger.transaction")

            _ = try await log.rebuild()

            #expect(try await log.projections() == before)
        }
    }

    @Test("of one stream leaves the others as they are")
    func oneStream() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 4))
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 4, environment: .production))
            await log.projector.foldAllStreams()
            try await log.script("update subledger.subscription set position = 999999")

            let outcome = try await log.rebuild(app: V1Body.app, environment: .production)

            #expect(outcome.streams == 1)
            let damaged = try await log.lines(
                """
                select distinct environment
                from subledger.stream
                join subledger.subscription using (stream_id)
                where position = 999999
                """)
            #expect(damaged == ["sandbox"])
            let error = await #expect(throws: RebuildError.self) { try await log.rebuild(app: "com.example.none") }
            #expect(error?.description == "no such stream: see `subledger projector status`")
        }
    }

    @Test("one right after the other is not in its way, however the one before ended")
    func inARow() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 1))
            await log.projector.foldAllStreams()
            for _ in 1...25 {
                #expect(try await log.rebuild().rowsReplaced == 0)
                let error = await #expect(throws: RebuildError.self) { try await log.rebuild(app: "com.example.none") }
                #expect(error?.description == "no such stream: see `subledger projector status`")
            }
        }
    }

    @Test("a second one at the same time is refused, and so is a skip; the first one goes on")
    func twoAtOnce() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 4))
            await log.projector.foldAllStreams()
            var errors: [any Error] = []

            let outcome = try await log.rebuild { _ in
                do { _ = try await log.rebuild() } catch { errors.append(error) }
                do { try await log.skip(1) } catch { errors.append(error) }
            }

            #expect(outcome.rowsReplaced == 0)
            #expect(errors.first.map { "\($0)" } == "another rebuild of this database is running: wait until it ends")
            #expect(errors.dropFirst().first as? SkipRefusal == .rebuildRuns)
        }
    }

    @Test("an event that cannot be folded ends it, and the live rows stay")
    func unfoldable() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 2))
            await log.projector.foldAllStreams()
            try await log.appendUnfoldable()
            let before = try await log.projections()

            let error = await #expect(throws: RebuildError.self) { try await log.rebuild() }

            #expect(error?.description.contains("cannot be folded: stored facts are unreadable") == true)
            #expect(try await log.projections() == before)
        }
    }
}
