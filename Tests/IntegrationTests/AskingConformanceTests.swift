import AppStore
import Encoding
import EventLog
import Foundation
import StoreClient
import TestSupport
import Testing

/// The one specification of asking a store, for each way of asking.
@Suite("Asking a store keeps the same promises for every store")
struct AskingConformanceTests {
    // MARK: Due

    @Test(
        "the planned time is shown, and is the time at which the store is asked, once", arguments: AskedStore.allCases)
    func planned(_ store: AskedStore) async throws {
        try await AskingBundle.with(store) { bundle in
            try await bundle.withProcess { process async throws in
                let before = bundle.transport.questions.count
                let next = try #require(try await bundle.shown().next)
                #expect(next > AskingTransport.end)
                #expect(try await process.round(bundle.clock.now).nextDue == next)

                bundle.clock.set(next.advanced(by: .milliseconds(-1)))
                let early = try await process.round(bundle.clock.now)
                #expect(bundle.transport.questions.count == before)
                bundle.clock.set(next)
                let due = try await process.round(bundle.clock.now)
                try await bundle.server.isFolded()
                let again = try await process.round(bundle.clock.now)

                #expect(early.asked == 0)
                #expect(due.asked == 1)
                #expect(again.asked == 0)
                #expect(bundle.transport.questions.count == before + 1)
            }
        }
    }

    @Test(
        "an answer with news becomes one event, and the next question follows what it says",
        arguments: AskedStore.allCases)
    func news(_ store: AskedStore) async throws {
        try await AskingBundle.with(store) { bundle in
            try await bundle.withProcess { process async throws in
                let stored = try await bundle.answersStored()
                bundle.transport.answer(.renewed)
                let next = try #require(try await bundle.shown().next)
                bundle.clock.set(next)
                #expect(try await process.round(next).asked == 1)
                try await bundle.server.isFolded()
                let shown = try await bundle.shown()

                #expect(try await bundle.answersStored() > stored)
                #expect(shown.lastResult == "appended")
                #expect(shown.lastAt == next)
                let following = try #require(shown.next)
                #expect(following > AskingTransport.renewedEnd)
                #expect(following < AskingTransport.renewedEnd.advanced(by: .seconds(2 * 3600)))
                #expect(try await process.round(bundle.clock.now).nextDue == following)
            }
        }
    }

    @Test(
        "an answer without news is recorded alone, and each following question comes at the time that is shown",
        arguments: AskedStore.allCases)
    func noNews(_ store: AskedStore) async throws {
        try await AskingBundle.with(store) { bundle in
            try await bundle.withProcess { process async throws in
                let stored = try await bundle.answersStored()
                for number in 1...4 {
                    let next = try #require(try await bundle.shown().next)
                    #expect(next > bundle.clock.now)
                    bundle.clock.set(next.advanced(by: .milliseconds(-1)))
                    #expect(try await process.round(bundle.clock.now).asked == 0)
                    bundle.clock.set(next)
                    #expect(try await process.round(next).asked == 1, "question \(number)")
                    // Answers of the App Store Server API state another renewal info at first.
                    try await bundle.server.isFolded()
                    let shown = try await bundle.shown()
                    #expect(shown.lastAt == next)
                    if number > 1 { #expect(shown.lastResult == "unchanged") }
                }
                #expect(try await bundle.answersStored() <= stored + 1)
            }
        }
    }

    // MARK: Failures

    @Test(
        "a question without an answer changes nothing, and is asked again at the time that is shown",
        arguments: AskedStore.allCases)
    func failed(_ store: AskedStore) async throws {
        try await AskingBundle.with(store) { bundle in
            try await bundle.withProcess { process async throws in
                let stored = try await bundle.answersStored()
                let next = try #require(try await bundle.shown().next)
                bundle.clock.set(next)
                bundle.transport.answer(.unreachable)
                #expect(try await process.round(next).asked == 1)
                let shown = try await bundle.shown()
                let again = try #require(shown.next)
                #expect(shown.lastResult == "unavailable")
                #expect(again > next)
                #expect(try await bundle.answersStored() == stored)

                bundle.transport.answer(.renewed)
                let calls = bundle.transport.questions.count
                if again.advanced(by: .milliseconds(-1)) > bundle.clock.now {
                    bundle.clock.set(again.advanced(by: .milliseconds(-1)))
                    #expect(try await process.round(bundle.clock.now).asked == 0)
                    #expect(bundle.transport.questions.count == calls)
                }
                bundle.clock.pass(to: again)
                #expect(try await process.round(bundle.clock.now).asked == 1)
                #expect(bundle.transport.questions.count == calls + 1)
                try await bundle.server.isFolded()
                #expect(try await bundle.shown().lastResult == "appended")
            }
        }
    }

    @Test(
        "an outage of 30 hours is asked about ever more slowly, changes no access, and is over with the first answer",
        arguments: AskedStore.allCases)
    func outage(_ store: AskedStore) async throws {
        try await AskingBundle.with(store) { bundle in
            try await bundle.withProcess { process async throws in
                let stored = try await bundle.answersStored()
                let start = try #require(try await bundle.shown().next)
                bundle.clock.set(start)
                bundle.transport.answer(.unreachable)
                let over = start.advanced(by: .seconds(30 * 3600))
                let first = bundle.transport.questions.count
                while bundle.clock.now < over {
                    _ = try await process.round(bundle.clock.now)
                    let next = try #require(try await process.round(bundle.clock.now).nextDue)
                    bundle.clock.pass(to: max(next, bundle.clock.now.advanced(by: .milliseconds(500))))
                }
                let during = try await bundle.results()

                // While a store does not answer at all, few calls are let through.
                let calls = bundle.transport.questions.count - first
                #expect((5...1500).contains(calls), "\(calls)")
                #expect(during.contains("unavailable"))
                #expect(try await bundle.answersStored() == stored)

                bundle.transport.answer(.renewed)
                let before = bundle.transport.questions.count
                for _ in 0..<100 where try await bundle.answersStored() == stored {
                    let next = try #require(try await process.round(bundle.clock.now).nextDue)
                    bundle.clock.pass(to: next)
                }
                try await bundle.server.isFolded()
                #expect(bundle.transport.questions.count == before + 1)
                #expect(try await bundle.shown().lastResult == "appended")
            }
        }
    }

    @Test("an outage of one app holds up no question about another", arguments: AskedStore.allCases)
    func outageOfOneApp(_ store: AskedStore) async throws {
        try await AskingBundle.with(store, subscriptions: 4, ofSecond: 4) { bundle in
            let (ids, others) = ((1...4).map { store.id($0) }, (101...104).map { store.id($0) })
            bundle.transport.answer(.renewed)
            bundle.transport.answer(.unreachable, about: ids)
            bundle.clock.set(AskingTransport.end.advanced(by: .seconds(3 * 3600)))
            let before = bundle.transport.questions.count
            let stored = try await bundle.answersStored()
            try await bundle.withProcess { process async throws in
                let now = bundle.clock.now
                _ = try await process.round(now)
                try await bundle.server.isFolded()

                let asked = bundle.transport.questions[before...]
                #expect(asked.filter { others.contains($0) }.sorted() == others)
                // Calls about the first app have stopped.
                #expect((5...8).contains(asked.count { ids.contains($0) }), "\(asked)")
                for id in others {
                    let shown = try await bundle.shown(id)
                    #expect(shown.lastResult == "appended" && shown.lastAt == now, "\(id): \(shown)")
                }
                #expect(try await bundle.answersStored() == stored + 4)

                let next = try #require(try await bundle.shown(others[0]).next)
                bundle.clock.set(next)
                _ = try await process.round(next)
                try await bundle.server.isFolded()
                #expect(try await bundle.shown(others[0]).lastAt == next)
            }
        }
    }

    @Test(
        "what the budget holds back is no failure: it is asked as soon as there is budget, once",
        arguments: AskedStore.allCases)
    func budget(_ store: AskedStore) async throws {
        try await AskingBundle.with(store, subscriptions: 5) { bundle in
            bundle.transport.answer(.renewed)
            let start = AskingTransport.end.advanced(by: .seconds(3 * 3600))
            bundle.clock.set(start)
            let before = bundle.transport.questions.count
            let budget = CallBudget(callsPerMinute: 1, concurrency: 4)
            try await bundle.withProcess(budget: budget) { process async throws in
                for number in 1...5 {
                    let round = try await process.round(bundle.clock.now)
                    try await bundle.server.isFolded()
                    #expect(round.asked == 1, "question \(number)")
                    let next = try #require(round.nextDue)
                    if number < 5 { bundle.clock.pass(to: next) }
                }
            }

            #expect(start.duration(to: bundle.clock.now) == .seconds(4 * 60))
            #expect(bundle.transport.questions[before...].sorted() == (1...5).map { store.id($0) })
            #expect(try await bundle.results().suffix(5) == Array(repeating: "appended", count: 5)[...])
        }
    }

    // MARK: Processes that die

    /// Where a process dies.
    enum Death: String, Sendable, CaseIterable, CustomTestStringConvertible {
        case asked = "after the question"
        case appended = "after the answer is in the log"

        var testDescription: String { rawValue }
    }

    @Test(
        "two processes ask nothing twice; after a death the other one asks once more, and one event comes of it",
        arguments: AskedStore.allCases, Death.allCases)
    func died(_ store: AskedStore, _ death: Death) async throws {
        try await AskingBundle.with(store) { bundle in
            let stored = try await bundle.answersStored()
            let before = bundle.transport.questions.count
            bundle.transport.answer(.renewed)
            let next = try #require(try await bundle.shown().next)
            bundle.clock.set(next)
            try await bundle.withProcess { first async throws in
                switch death {
                case .asked:
                    bundle.transport.hold()
                    let asking = Task { try await first.round(next) }
                    _ = try await eventually("the store is asked") {
                        bundle.transport.questions.count > before ? true : nil
                    }
                    try await bundle.withProcess { second async throws in
                        #expect(try await second.round(next).asked == 0)
                        #expect(bundle.transport.questions.count == before + 1)
                    }
                    // Nothing is recorded by a process that died.
                    asking.cancel()
                    _ = await asking.result
                    bundle.transport.release()
                case .appended:
                    _ = try await bundle.server.sql(
                        """
                        do $$ begin
                        execute 'alter table subledger.store_check add constraint died check (asked_at < ''-infinity'') not valid';
                        end $$
                        """)
                    _ = try? await first.round(next)
                    _ = try await bundle.server.sql(
                        "do $$ begin execute 'alter table subledger.store_check drop constraint died'; end $$")
                }
            }
            try await bundle.server.isFolded()
            let appended = try await bundle.answersStored()
            try await bundle.forgetDeadProcess()
            try await bundle.withProcess { second async throws in
                _ = try await second.round(bundle.clock.now)
                try await bundle.server.isFolded()
                _ = try await second.round(bundle.clock.now)
            }
            try await bundle.server.isFolded()

            #expect(appended == (death == .asked ? stored : stored + 1))
            #expect(try await bundle.answersStored() == stored + 1)
            #expect((1...2).contains(bundle.transport.questions.count - before))
            let following = try #require(try await bundle.shown().next)
            #expect(following > AskingTransport.renewedEnd)
        }
    }

    @Test(
        "what a process that is gone has claimed is asked by another one as soon as the claim ends, and one event comes of it",
        arguments: AskedStore.allCases)
    func killed(_ store: AskedStore) async throws {
        try await AskingBundle.with(store) { bundle in
            let stored = try await bundle.answersStored()
            let before = bundle.transport.questions.count
            bundle.transport.answer(.renewed)
            let next = try #require(try await bundle.shown().next)
            bundle.clock.set(next)
            try await bundle.withProcess { first async throws in
                // From here on, the first one does nothing more, as after kill -9.
                bundle.transport.hold(1)
                let asking = Task { try await first.round(next) }
                _ = try await eventually("the store is asked") {
                    bundle.transport.questions.count > before ? true : nil
                }
                try await bundle.endLeases()
                try await bundle.withProcess { second async throws in
                    let waiting = try await second.round(bundle.clock.now)
                    #expect(waiting.asked == 0)
                    let end = try #require(waiting.nextDue)
                    #expect(next.duration(to: end) <= .seconds(30))
                    bundle.clock.set(end)
                    #expect(try await second.round(end).asked == 1)
                    try await bundle.server.isFolded()
                    #expect(try await second.round(end).asked == 0)
                }
                #expect(try await bundle.shown().lastResult == "appended")
                #expect(try await bundle.answersStored() == stored + 1)
                asking.cancel()
                _ = await asking.result
            }
            #expect(bundle.transport.questions.count == before + 2)
        }
    }

    @Test("what is due twenty times over is asked by two processes at once, each once", arguments: AskedStore.allCases)
    func together(_ store: AskedStore) async throws {
        try await AskingBundle.with(store, subscriptions: 20) { bundle in
            bundle.transport.answer(.renewed)
            let before = bundle.transport.questions.count
            bundle.clock.set(AskingTransport.end.advanced(by: .seconds(3 * 3600)))
            let now = bundle.clock.now
            try await bundle.withProcess { first async throws in
                try await bundle.withProcess { second async throws in
                    async let one = first.round(now)
                    async let other = second.round(now)
                    let asked = try await (one.asked, other.asked)
                    #expect(asked.0 + asked.1 == 20)
                }
            }

            let asked = bundle.transport.questions[before...].sorted()
            #expect(asked == (1...20).map { store.id($0) }.sorted())
            #expect(try await bundle.results().suffix(20) == Array(repeating: "appended", count: 20)[...])
        }
    }

    // MARK: Idle

    @Test("a server with both stores that has nothing to ask makes at most one statement a second to find that out")
    func idle() async throws {
        try await AskingBundle.with(.google) { bundle in
            // Nothing is due. The first rounds connect, and prepare statements.
            try await bundle.withProcess(inRealTime: true) { google async throws in
                try await bundle.withProcess(of: .key, inRealTime: true) { apple async throws in
                    let alone = try await bundle.statements(within: .seconds(12))
                    let running = [Task { await google.run() }, Task { await apple.run() }]
                    try await Task.sleep(for: .seconds(3))
                    let together = try await bundle.statements(within: .seconds(12))
                    for task in running { task.cancel() }
                    for task in running { await task.value }

                    #expect(together - alone <= 12, "\(together) and \(alone)")
                }
            }
        }
    }

    // MARK: What is shown

    @Test("an app that has the same name in both stores: each store is asked about its own subscriptions, as is shown")
    func sharedName() async throws {
        try await AskingBundle.with(.google, sharedName: true) { bundle in
            let next = try #require(try await bundle.shown().next)
            bundle.clock.set(next)
            let before = bundle.transport.questions.count
            try await bundle.withProcess(of: .key) { apple async throws in
                let round = try await apple.round(next)
                #expect(round.asked == 0)
                #expect(round.nextDue == nil)
            }
            #expect(bundle.transport.questions.count == before)
            #expect(try await bundle.shown().next == next)
            try await bundle.withProcess { google async throws in
                #expect(try await google.round(next).asked == 1)
            }
            #expect(bundle.transport.questions.dropFirst(before) == ["token-1"])
            #expect(try await bundle.shown().lastAt == next)
        }
    }

    @Test("after a change of plan, the last and the next check are those of the plan that is in force")
    func planChange() async throws {
        try await AskingBundle.with(.google) { bundle in
            try await bundle.withProcess { process async throws in
                bundle.clock.advance(by: .seconds(10 * 86_400))
                bundle.transport.link("token-2", to: "token-1")
                try await bundle.push("token-2")
                _ = try await process.round(bundle.clock.now)
                let changed = bundle.clock.now
                try await bundle.server.isFolded()

                for id in ["token-1", "token-2"] { #expect(try await bundle.shown(id).lastAt == changed) }
                let next = try #require(try await bundle.shown().next)
                bundle.clock.set(next)
                let before = bundle.transport.questions.count
                _ = try await process.round(next)
                #expect(Array(bundle.transport.questions[before...]) == ["token-2"])
                #expect(try await bundle.shown().lastAt == next)
            }
        }
    }
}
