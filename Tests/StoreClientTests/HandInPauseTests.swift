import Testing

@testable import StoreClient

@Suite("Pauses between the questions about a pending receipt")
struct HandInPauseTests {
    @Test("the pause doubles from 5 seconds up to an hour")
    func longest() {
        #expect(HandInPause.longest(after: 1) == .seconds(5))
        #expect(HandInPause.longest(after: 2) == .seconds(10))
        #expect(HandInPause.longest(after: 4) == .seconds(40))
        #expect(HandInPause.longest(after: 10) == .seconds(2560))
        #expect(HandInPause.longest(after: 11) == .seconds(3600))
        #expect(HandInPause.longest(after: .max) == .seconds(3600))
    }

    @Test("the pause is random between half of its bound and the bound")
    func jitter() {
        #expect(HandInPause.pause(after: 1, part: 0) == .milliseconds(2500))
        #expect(HandInPause.pause(after: 1, part: 0.5) == .milliseconds(3750))
        #expect(HandInPause.pause(after: 11, part: 0) == .seconds(1800))
        #expect(HandInPause.pause(after: 11, part: 0.999) < .seconds(3600))
    }
}
