import TestSupport
import Testing

@testable import StoreClient

@Suite("Pauses between the questions that fail")
struct RepeatPauseTests {
    @Test("within a question, the pause doubles from a second up to eight")
    func call() {
        let bounds = (1...6).map { RepeatPause.call.longest(after: $0) }

        #expect(bounds == [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(8), .seconds(8)])
    }

    @Test("within a question, the pause lies between zero and its bound, over the whole range", arguments: 1...4)
    func wholeRange(retry: Int) {
        var generator = TestSeed.generator(retry)
        let longest = RepeatPause.call.longest(after: retry)

        let pauses = (0..<1000).map { _ in
            RepeatPause.call.pause(after: retry, part: Double.random(in: 0..<1, using: &generator))
        }

        #expect(pauses.allSatisfy { $0 >= .zero && $0 < longest })
        #expect(pauses.contains { $0 < longest / 10 })
        #expect(pauses.contains { $0 > longest * 9 / 10 })
    }

    @Test("of a receipt that was handed in, the pause doubles from 5 seconds up to an hour")
    func handIn() {
        #expect(RepeatPause.handIn.longest(after: 1) == .seconds(5))
        #expect(RepeatPause.handIn.longest(after: 2) == .seconds(10))
        #expect(RepeatPause.handIn.longest(after: 4) == .seconds(40))
        #expect(RepeatPause.handIn.longest(after: 10) == .seconds(2560))
        #expect(RepeatPause.handIn.longest(after: 11) == .seconds(3600))
        #expect(RepeatPause.handIn.longest(after: .max) == .seconds(3600))
    }

    @Test("of a scheduled check, the pause doubles from five minutes up to six hours")
    func check() {
        #expect(RepeatPause.check.longest(after: 1) == .seconds(300))
        #expect(RepeatPause.check.longest(after: 2) == .seconds(600))
        #expect(RepeatPause.check.longest(after: 7) == .seconds(19_200))
        #expect(RepeatPause.check.longest(after: 8) == .seconds(21_600))
        #expect(RepeatPause.check.longest(after: .max) == .seconds(21_600))
    }

    @Test("the pause is random between half of its bound and the bound")
    func jitter() {
        #expect(RepeatPause.handIn.pause(after: 1, part: 0) == .milliseconds(2500))
        #expect(RepeatPause.handIn.pause(after: 1, part: 0.5) == .milliseconds(3750))
        #expect(RepeatPause.handIn.pause(after: 11, part: 0) == .seconds(1800))
        #expect(RepeatPause.handIn.pause(after: 11, part: 0.999) < .seconds(3600))
        #expect(RepeatPause.check.pause(after: 8, part: 0) == .seconds(10_800))
    }
}
