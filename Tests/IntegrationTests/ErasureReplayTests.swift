import Encoding
import EventLog
import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("An erasure is repeated in a log that was restored from a backup from before it")
struct ErasureReplayTests {
    private static let first = "aaaaaaaa-0000-4000-8000-000000000001"
    private static let second = "bbbbbbbb-0000-4000-8000-000000000002"
    private static let other = "cccccccc-0000-4000-8000-000000000003"

    /// What `erase --list` prints, read again.
    private static func listed(_ log: CustomerLog) async throws -> [[Erasure.Record]] {
        let lines = try await ErasurePersonTests.with(log) { erasure in
            try await erasure.records().map { record -> String in
                var writer = JSONWriter()
                record.write(to: &writer)
                return writer.text
            }
        }
        return try #require(Erasure.Record.erasures(inLines: Array((lines + lines).joined(separator: "\n").utf8)))
    }

    private static func missing(_ records: [Erasure.Record], in log: CustomerLog) async throws -> Erasure.Missing {
        try await ErasurePersonTests.with(log) { try await $0.missing(of: records) }
    }

    /// Repeats one, and returns how many people were found.
    private static func replay(
        _ records: [Erasure.Record], in log: CustomerLog, on noon: Int
    ) async throws -> (people: Int, unexplained: Int) {
        let missing = try await missing(records, in: log)
        for repetition in missing.repetitions {
            _ = try await ErasurePersonTests.erase(
                repetition.key, log, on: noon, random: repetition.random,
                replacesTransactions: records[0].statement.replacesTransactions, isRepeated: true)
        }
        return (missing.repetitions.count, missing.unexplained)
    }

    /// Two logs, the second of which stands for a backup of the first.
    private static func withBackup(_ test: (CustomerLog, CustomerLog) async throws -> Void) async throws {
        try await CustomerLog.with { log in try await CustomerLog.with { try await test(log, $0) } }
    }

    private static func facts(_ log: CustomerLog) async throws -> [String] {
        try await ErasurePersonTests.lines(
            log,
            """
            select concat_ws(' ', event.position, facts, octet_length(body))
            from subledger.event
            join subledger.event_body using (stream_id, position)
            where kind <> 'erasure'
            order by event.position
            """)
    }

    private static let story: [CustomerLog.Told] = [
        .rows([.init("1", account: first)]), .rows([.init("9", account: other)]),
        .rows([.init("2", account: second)]), .rows([.init("3", appTransaction: "704000000000000001")]),
        .links(
            "u-7",
            [
                CustomerKey(.account, first), CustomerKey(.account, second),
                CustomerKey(.appTransaction, "704000000000000001"),
            ]),
        .links("u-9", [CustomerKey(.account, other)]),
    ]

    @Test("the same person is found by the events that were erased, and gets the same names")
    func same() async throws {
        try await Self.withBackup { log, backup in
            try await log.tell(Self.story)
            try await backup.tell(Self.story)
            #expect(try await Self.facts(backup) == Self.facts(log))
            _ = try await ErasurePersonTests.erase(CustomerKey(.link, "u-7"), log, on: 2)
            let erasures = try await Self.listed(log)
            #expect(erasures.map(\.count) == [1])

            #expect(try await Self.missing(erasures[0], in: log).repetitions.isEmpty)
            let replayed = try await Self.replay(erasures[0], in: backup, on: 3)

            #expect(replayed == (1, 0))
            #expect(
                try await !ErasurePersonTests.mentions(
                    "u-7", Self.first, Self.second, "704000000000000001", in: backup))
            #expect(try await ErasurePersonTests.mentions("u-9", in: backup))
            #expect(try await ErasurePersonTests.mentions(Self.other, in: backup))
            #expect(try await Self.facts(backup) == Self.facts(log))
            #expect(try await ErasurePersonTests.owners(backup) == ErasurePersonTests.owners(log))
            #expect(try await ErasurePersonTests.isAsRebuilt(backup))
            #expect(try await Self.replay(erasures[0], in: backup, on: 4) == (0, 0))
        }
    }

    @Test("the stores' own ids are replaced again, also those of someone who was erased without them before")
    func transactions() async throws {
        try await Self.withBackup { log, backup in
            let story: [CustomerLog.Told] = [
                .rows([.init("2000000000000101", -300..<(-200), account: Self.first)]),
                .rows([.init("2000000000000901", account: Self.other)]),
                .links("u-7", [CustomerKey(.account, Self.first)]),
            ]
            try await log.tell(story)
            try await backup.tell(story)
            _ = try await ErasurePersonTests.erase(CustomerKey(.link, "u-7"), log, on: 2)
            _ = try await ErasurePersonTests.erase(
                CustomerKey(.subscription, "2000000000000101"), log, on: 3, replacesTransactions: true)
            let erasures = try await Self.listed(log)
            #expect(erasures.map { $0[0].statement.replacesTransactions } == [false, true])

            for erasure in erasures {
                #expect(try await Self.missing(erasure, in: log).repetitions.isEmpty)
                #expect(try await Self.replay(erasure, in: backup, on: 4) == (1, 0))
            }

            #expect(try await !ErasurePersonTests.mentions("2000000000000101", "u-7", Self.first, in: backup))
            #expect(try await Self.facts(backup) == Self.facts(log))
            #expect(try await ErasurePersonTests.owners(backup) == ErasurePersonTests.owners(log))
            #expect(try await ErasurePersonTests.isAsRebuilt(backup))
            for erasure in erasures { #expect(try await Self.replay(erasure, in: backup, on: 5) == (0, 0)) }
        }
    }

    @Test("a backup from before a link has several people who were one later, and events of its own since")
    func shorter() async throws {
        try await Self.withBackup { log, backup in
            try await log.tell(Self.story)
            _ = try await ErasurePersonTests.erase(CustomerKey(.account, Self.second), log, on: 2)
            try await backup.tell(Array(Self.story.prefix(3)))
            // At positions that the list has, too.
            try await backup.tell(
                [
                    .rows([.init("4", 5..<32, account: Self.other)]), .rows([.init("1", 5..<40, account: Self.first)]),
                    .links("u-9", [CustomerKey(.account, Self.other)]),
                ], on: 5)
            let erasures = try await Self.listed(log)
            #expect(erasures[0][0].statement.positions == [1...1, 3...5])

            let missing = try await Self.missing(erasures[0], in: backup)
            #expect(missing.repetitions.filter { $0.random != nil }.count == 1)
            let replayed = try await Self.replay(erasures[0], in: backup, on: 6)

            #expect(replayed == (2, 0))
            #expect(try await !ErasurePersonTests.mentions(Self.first, Self.second, in: backup))
            #expect(try await ErasurePersonTests.mentions(Self.other, in: backup))
            #expect(
                try await ErasurePersonTests.lines(
                    backup,
                    """
                    select position::text
                    from subledger.event_body
                    where octet_length(body) = 0
                    order by position
                    """) == ["1", "3", "5"])
            #expect(try await ErasurePersonTests.isAsRebuilt(backup))
            #expect(try await Self.replay(erasures[0], in: backup, on: 7) == (0, 0))
        }
    }

    @Test("events that are not one person's alone are left, and counted; a malformed list is refused")
    func unexplained() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([.init("1", account: Self.first)]), .rows([.init("1", 5..<40, account: Self.first)]),
                .rows([.init("9", account: Self.other)]),
            ])
            let before = try await Self.facts(log)
            func record(_ positions: [ClosedRange<Int64>], at: Instant = day(2)) -> [Erasure.Record] {
                [
                    Erasure.Record(
                        stream: StreamKey(app: CustomerLog.app, environment: .production), position: 50,
                        statement: ErasureStatement(
                            pseudonym: "erased-00000000000000000000000000000001", at: at, by: "test",
                            reason: "by mail", subscriptions: [], positions: positions))
                ]
            }

            #expect(try await Self.replay(record([1...1]), in: log, on: 3) == (0, 1))
            #expect(try await Self.replay(record([40...60]), in: log, on: 3) == (0, 0))
            #expect(try await Self.replay(record([1...3], at: day(1)), in: log, on: 3) == (0, 0))
            #expect(try await Self.facts(log) == before)
            #expect(try await Self.replay(record([3...3]), in: log, on: 3) == (1, 0))
            #expect(try await !ErasurePersonTests.mentions(Self.other, in: log))
        }
        for text in ["{}", "not JSON", #"{"app":"a","environment":"production","position":1}"#] {
            #expect(Erasure.Record.erasures(inLines: Array(text.utf8)) == nil)
        }
        #expect(Erasure.Record.erasures(inLines: []) == [])
    }
}
