import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("The projector stops at an event that it cannot fold until an operator skips it")
struct SkipTests {
    @Test("the projector stops at the event and continues once it is skipped, and a rebuild skips it too")
    func skip() async throws {
        let deliveries = try await SimulatedLog.deliveries(subscriptions: 4)
        try await SimulatedLog.with { log in
            try await log.append(deliveries[..<10])
            let bad = try #require(Int64(try await log.lines("select max(position)::text from subledger.event")[0])) + 1
            try await log.appendUnfoldable()
            try await log.append(deliveries[10...])
            let head = try #require(Int64(try await log.lines("select max(position)::text from subledger.event")[0]))

            #expect(await log.projector.foldAllStreams() == false)
            let status = "\(V1Body.app), sandbox: head \(head), folded \(bad - 1), lag \(head - bad + 1), skips 0"
            #expect(try await log.status().map { $0.hasPrefix("\(status), waiting since 2") } == [true])
            try await log.skip(bad)
            #expect(await log.projector.foldAllStreams() == true)

            #expect(
                try await log.status() == ["\(V1Body.app), sandbox: head \(head), folded \(head), lag 0, skips 1"])
            let recorded = try await log.lines(
                "select concat_ws(' ', position, reason, skipped_by) from subledger.projector_skip")
            #expect(recorded == ["\(bad) damaged by hand an operator"])
            let outcome = try await log.rebuild()
            #expect(outcome.rowsReplaced == 0)
            #expect(outcome.eventsFolded == head)
        }
    }

    @Test("the last event of the log can be skipped, which leaves no lag")
    func last() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 1))
            try await log.appendUnfoldable()
            await log.projector.foldAllStreams()
            let bad = try #require(Int64(try await log.lines("select max(position)::text from subledger.event")[0]))

            try await log.skip(bad)
            await log.projector.foldAllStreams()

            #expect(
                try await log.status() == ["\(V1Body.app), sandbox: head \(bad), folded \(bad), lag 0, skips 1"])
        }
    }

    @Test("skipping a missing, folded or already skipped event is rejected and not recorded")
    func refusals() async throws {
        try await SimulatedLog.with { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 2))
            await log.projector.foldAllStreams()
            try await log.appendUnfoldable()
            let bad = try #require(Int64(try await log.lines("select max(position)::text from subledger.event")[0]))
            try await log.skip(bad)

            await #expect(throws: SkipRefusal.skippedAlready(bad)) { try await log.skip(bad) }
            await #expect(throws: SkipRefusal.noEvent(bad + 1)) { try await log.skip(bad + 1) }
            await #expect(throws: SkipRefusal.noEvent(0)) { try await log.skip(0) }
            await #expect(throws: SkipRefusal.folded(1, upTo: bad - 1)) { try await log.skip(1) }
            await #expect(throws: SkipRefusal.noStream(StreamKey(app: "none", environment: .sandbox))) {
                try await log.skip(bad, app: "none")
            }
            #expect(try await log.lines("select count(*)::text from subledger.projector_skip") == ["1"])
        }
    }
}
