import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("A rebuild gives the same rows as live projection, while live projection continues")
struct RebuildTests {
    /// Damages rows of every projection table, so that correct rows afterwards come from the rebuild.
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
        update subledger.check_schedule
        set due_at = '2019-01-01Z', has_receipt = not has_receipt
        where original_transaction_id in (
          select original_transaction_id from subledger.check_schedule order by 1 limit 5
        );
        insert into subledger.access_period (
          stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, position
        )
        values (1, 'nobody', '2020-01-01', '2021-01-01', 'paid', 'nothing', 1)
        """

    @Test("a rebuild repairs damaged rows while events arrive and are projected")
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

            #expect(next > half, "no event arrived during the rebuild")
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

    @Test("a rebuild replaces no correct row, and removes the leftovers of a killed rebuild")
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

    @Test("an interrupted rebuild changes nothing and does not block the next one")
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

    /// Deletes every row that a rebuild makes again.
    private static let deleteAll = """
        delete from subledger.subscription;
        delete from subledger.transaction;
        delete from subledger.access_period;
        delete from subledger.refunded_period;
        delete from subledger.check_schedule;
        delete from subledger.customer_edge;
        delete from subledger.customer_link;
        delete from subledger.ownership;
        delete from subledger.customer_identity;
        delete from subledger.shared_account_token
        """

    @Test("one worker or several restore all rows, customers that a backend links included", arguments: [1, 3])
    func fromNothing(workers: Int) async throws {
        let simulation = SimulatedLog.simulation(subscriptions: 60)
        #expect(simulation.statements.contains { _ in true })
        try await SimulatedLog.withEveryStory { log in
            try await log.append(linksOf: simulation)
            await log.projector.foldAllStreams()
            let before = try await log.projections()
            try await log.script(Self.deleteAll)

            let outcome = try await log.rebuild(workers: workers)

            #expect(outcome.rowsReplaced > 200)
            let after = try await log.projections()
            #expect(Set(after).subtracting(before) == [])
            #expect(Set(before).subtracting(after) == [])
            #expect(after.count == before.count)
        }
    }

    @Test("several workers fold while events arrive, and nothing of a rebuild is left if one of them fails")
    func severalWorkers() async throws {
        struct Killed: Error {}
        let deliveries = try await SimulatedLog.deliveries(subscriptions: 12)
        try await SimulatedLog.with { log in
            let half = deliveries.count / 2
            try await log.append(deliveries[..<half])
            await log.projector.foldAllStreams()
            let before = try await log.projections()
            var reports: [ProjectionRebuild.Progress] = []

            do {
                _ = try await log.rebuild(workers: 3) {
                    reports.append($0)
                    if reports.count == 3 { throw Killed() }
                }
                Issue.record("the rebuild has succeeded")
            } catch is Killed {}
            #expect(try await log.projections() == before)
            try await log.script(Self.deleteAll)
            reports = []
            _ = try await log.rebuild(workers: 3) {
                reports.append($0)
                if reports.count == 2 { try await log.append(deliveries[half...]) }
            }

            #expect(reports.count > 4, "a page has at most a few events")
            #expect(zip(reports, reports.dropFirst()).allSatisfy { $0.eventsFolded <= $1.eventsFolded })
            #expect(reports.allSatisfy { $0.eventsFolded <= $0.eventsTotal })
            await log.projector.foldAllStreams()
            #expect(try await log.rebuild().rowsReplaced == 0)
        }
    }

    @Test("the tables of another rebuild are not written")
    func otherTables() async throws {
        try await SimulatedLog.withEveryStory { log in
            let before = try await log.projections()
            var isReplaced = false

            do {
                _ = try await log.rebuild(workers: 3) { _ in
                    if isReplaced { return }
                    isReplaced = true
                    // As a rebuild does that does not see this one's claim.
                    try await log.script(
                        """
                        delete from subledger_rebuild.checkpoint;
                        insert into subledger_rebuild.checkpoint
                        select *
                        from subledger.checkpoint
                        """)
                }
                Issue.record("the rebuild has succeeded")
            } catch let error as RebuildError {
                #expect("\(error)" == "another rebuild of this database is running: wait until it ends")
            }

            #expect(isReplaced)
            #expect(try await log.projections() == before)
        }
    }

    @Test("a rebuild of one stream leaves the other streams unchanged")
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

    @Test("a rebuild can start right after another one, whether that succeeded or failed")
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

    @Test("during a rebuild, another rebuild and a skip are rejected, and the first one completes")
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

    @Test("an event that cannot be folded ends a rebuild, and the live rows are unchanged")
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
