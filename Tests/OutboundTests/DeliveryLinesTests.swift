import Encoding
import Outbound
import Testing

@Suite("Messages are in order for each line")
struct DeliveryLinesTests {
    private let start = Instant(iso8601: "2026-11-27T03:00:00Z") ?? .earliest

    private func after(_ seconds: Int64) -> Instant { start.advanced(by: .seconds(seconds)) }

    private func next(_ lines: inout DeliveryLines, _ now: Instant) throws -> DeliveryLines.Message {
        let message = lines.next(at: now)
        return try #require(message)
    }

    /// Expects the next message to have this number, or that there is none.
    private func expectNext(_ lines: inout DeliveryLines, _ now: Instant, _ number: Int64?) {
        let message = lines.next(at: now)
        #expect(message?.number == number)
    }

    /// Sends everything that is due and returns the numbers, without settling.
    private func taken(_ lines: inout DeliveryLines, at now: Instant) -> [DeliveryLines.Message] {
        var messages: [DeliveryLines.Message] = []
        while let message = lines.next(at: now) { messages.append(message) }
        return messages
    }

    @Test("lines are sent beside each other, and each line one message at a time")
    func order() {
        var lines = DeliveryLines(cursor: 0, recorded: [])
        for (number, line) in [(1, "a"), (2, "b"), (3, "a"), (5, "c")] as [(Int64, String)] {
            lines.accept(number, line: line)
        }
        lines.skip(through: 7)

        let first = taken(&lines, at: start)

        #expect(first.map(\.number) == [1, 2, 5])
        #expect(lines.cursor == 0)
        lines.settle(first[1], .delivered)
        #expect(lines.cursor == 0)
        lines.settle(first[0], .delivered)
        #expect(lines.cursor == 2)
        let second = taken(&lines, at: start)
        #expect(second.map(\.number) == [3])
        lines.settle(second[0], .delivered)
        #expect(lines.cursor == 4)
        lines.settle(first[2], .delivered)
        #expect(lines.cursor == 7)
        #expect(lines.openCount == 0)
        let nothing = lines.takeRecords()
        #expect(nothing.isEmpty)
    }

    @Test("a failed message waits with those after it, is recorded, and lets other lines and the cursor go on")
    func failure() throws {
        var lines = DeliveryLines(cursor: 10, recorded: [])
        lines.accept(11, line: "a")
        lines.accept(12, line: "a")
        lines.accept(13, line: "b")
        let sent = taken(&lines, at: start)
        lines.settle(sent[0], .failed(after(5)))
        lines.settle(sent[1], .delivered)
        lines.accept(14, line: "a")

        #expect(lines.cursor == 14)
        #expect(lines.waitingLineCount == 1)
        #expect(lines.recordedCount == 3)
        let records = lines.takeRecords()
        #expect(records.waiting.keys.sorted() == [11, 12, 14])
        #expect(records.waiting[11]?.attempts == 1)
        #expect(records.waiting[11]?.dueAt == after(5))
        #expect(records.waiting[12]?.dueAt == nil)
        #expect(records.removed.isEmpty)

        expectNext(&lines, after(4), nil)
        #expect(lines.nextDue == after(5))
        let again = try next(&lines, after(5))
        #expect(again.number == 11)
        lines.settle(again, .delivered)
        for number in [12, 14] as [Int64] {
            let next = try next(&lines, after(5))
            #expect(next.number == number)
            expectNext(&lines, after(5), nil)
            lines.settle(next, .delivered)
        }
        let ended = lines.takeRecords()
        #expect(ended.waiting.isEmpty)
        #expect(ended.removed == [11, 12, 14])
        #expect(lines.waitingLineCount == 0)
        #expect(lines.recordedCount == 0)
    }

    @Test("after its last attempt a message is kept, and its line goes on")
    func exhausted() throws {
        var lines = DeliveryLines(
            cursor: 9, recorded: [.init(number: 3, line: "a", attempts: 9, dueAt: start), .init(number: 4, line: "a")])
        let last = try next(&lines, start)
        #expect(last.attempts == 9)

        lines.settle(last, .exhausted)

        let records = lines.takeRecords()
        #expect(records.exhausted[3]?.attempts == 10)
        #expect(records.waiting.isEmpty)
        #expect(records.removed.isEmpty)
        expectNext(&lines, start, 4)
    }

    @Test("what was recorded waits for its instant after a start, in the order of its line")
    func reload() throws {
        var lines = DeliveryLines(
            cursor: 20,
            recorded: [
                .init(number: 5, line: "a", attempts: 2, dueAt: after(60)), .init(number: 6, line: "a"),
                .init(number: 7, line: "b"),
            ])
        lines.accept(21, line: "a")
        lines.accept(22, line: "c")

        let due = taken(&lines, at: start).map(\.number)
        #expect(due == [7, 22])
        #expect(lines.cursor == 21)
        let records = lines.takeRecords()
        #expect(records.waiting.keys.sorted() == [21])
        let first = try next(&lines, after(60))
        #expect(first.number == 5)
    }

    @Test("a message that was not sent is sent again, before those after it")
    func putBack() throws {
        var lines = DeliveryLines(cursor: 0, recorded: [])
        lines.accept(1, line: "a")
        lines.accept(2, line: "a")
        let first = try next(&lines, start)

        lines.putBack(first)

        expectNext(&lines, start, 1)
        expectNext(&lines, start, nil)
        let nothing = lines.takeRecords()
        #expect(nothing.isEmpty)
    }

    @Test("records that could not be written are returned again, as far as they still hold")
    func recordsAgain() throws {
        var lines = DeliveryLines(cursor: 0, recorded: [])
        lines.accept(1, line: "a")
        lines.accept(2, line: "b")
        for message in taken(&lines, at: start) { lines.settle(message, .failed(after(5))) }
        let lost = lines.takeRecords()
        lines.settle(try next(&lines, after(5)), .delivered)

        lines.putBack(lost)

        let records = lines.takeRecords()
        #expect(records.waiting.keys.sorted() == [2])
        #expect(records.removed == [1])
    }

    @Test("with 1,000 lines waiting, the endpoint waits")
    func full() throws {
        var lines = DeliveryLines(cursor: 0, recorded: [])
        for number in 1...Int64(Limits.waitingLinesMax) {
            #expect(lines.hasRoom())
            lines.accept(number, line: "line \(number)")
            lines.settle(try next(&lines, start), .failed(after(5)))
        }

        #expect(!lines.hasRoom())
        lines.settle(try next(&lines, after(5)), .delivered)
        #expect(lines.hasRoom())
    }

    @Test("what may be kept in memory bounds what is read, whether it waits or is only read ahead")
    func held() throws {
        var lines = DeliveryLines(cursor: 0, recorded: [])
        for number in 1...10 { lines.accept(Int64(number), line: "a") }

        #expect(lines.heldCount == 10)
        #expect(lines.hasRoom(heldMax: 11) && !lines.hasRoom(heldMax: 10))
        let first = try next(&lines, start)
        lines.settle(first, .failed(after(5)))
        #expect(lines.heldCount == 10 && lines.openCount == 0 && !lines.hasRoom(heldMax: 10))
        let again = try next(&lines, after(5))
        lines.settle(again, .delivered)
        #expect(lines.hasRoom(heldMax: 10))
    }

    /// Against a model: whatever fails and in whatever order attempts end, each line's messages arrive in order, none is lost,
    /// and the cursor and the records name exactly what was not delivered.
    @Test("nothing is lost and nothing is out of order in any line", arguments: 1...40)
    func anyCourse(_ seed: UInt64) throws {
        var random = SplitMix(state: seed)
        var lines = DeliveryLines(cursor: 0, recorded: [])
        var expected: [String: [Int64]] = [:]
        var delivered: [String: [Int64]] = [:]
        var stored: [Int64: DeliveryLines.Message] = [:]
        var cursor: Int64 = 0
        var inFlight: [DeliveryLines.Message] = []
        var now = start
        var number: Int64 = 0
        func record() {
            let records = lines.takeRecords()
            stored.merge(records.waiting) { $1 }
            for number in records.removed { stored[number] = nil }
            cursor = lines.cursor
        }
        for _ in 0..<2000 {
            switch random.next() % 10 {
            case 0...2 where number < 300:
                number += 1 + Int64(random.next() % 2)
                let line = "line \(random.next() % 7)"
                lines.accept(number, line: line)
                expected[line, default: []].append(number)
            case 3...5:
                if let message = lines.next(at: now) { inFlight.append(message) }
            case 6...7:
                guard !inFlight.isEmpty else { continue }
                let message = inFlight.remove(at: Int(random.next() % UInt64(inFlight.count)))
                if random.next() % 3 == 0 {
                    lines.settle(message, .failed(now.advanced(by: .seconds(Int64(random.next() % 60)))))
                } else {
                    delivered[message.line, default: []].append(message.number)
                    lines.settle(message, .delivered)
                }
            case 8:
                now = now.advanced(by: .seconds(Int64(random.next() % 30)))
                record()
            default:
                guard random.next() % 20 == 0 else { continue }
                // The process is killed: what is in flight is lost, and what was delivered since the last record comes again.
                inFlight = []
                lines = DeliveryLines(cursor: cursor, recorded: stored.values.sorted { $0.number < $1.number })
                var again: [(number: Int64, line: String)] = []
                for (line, numbers) in expected { again += numbers.map { ($0, line) } }
                again.sort { $0.number < $1.number }
                for (number, line) in again where number > cursor { lines.accept(number, line: line) }
                lines.skip(through: number)
            }
        }
        for message in inFlight { lines.putBack(message) }
        now = .latest
        while let message = lines.next(at: now) {
            delivered[message.line, default: []].append(message.number)
            lines.settle(message, .delivered)
        }
        record()

        for (line, numbers) in expected {
            var seen: Set<Int64> = []
            #expect((delivered[line] ?? []).filter { seen.insert($0).inserted } == numbers, "seed \(seed)")
        }
        #expect(stored.isEmpty)
        #expect(cursor == number)
    }

    private struct SplitMix: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }
}
