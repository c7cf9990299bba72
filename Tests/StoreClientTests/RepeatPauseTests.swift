import Testing

@testable import StoreClient

@Suite("Pauses between the questions that fail")
struct RepeatPauseTests {
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
