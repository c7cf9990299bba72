import TestSupport
import Testing

@testable import StoreClient

@Suite("Pauses between calls grow and are random")
struct BackOffTests {
    @Test("the upper bound doubles up to the maximum")
    func bounds() {
        let bounds = (1...6).map { BackOff.longest(before: $0) }

        #expect(bounds == [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(8), .seconds(8)])
    }

    @Test("a pause lies between zero and its upper bound, over the whole range", arguments: 1...4)
    func jitter(retry: Int) {
        var generator = TestSeed.generator(retry)
        let longest = BackOff.longest(before: retry)

        let pauses = (0..<1000).map { _ in
            BackOff.pause(before: retry, part: Double.random(in: 0..<1, using: &generator))
        }

        #expect(pauses.allSatisfy { $0 >= .zero && $0 < longest })
        #expect(pauses.contains { $0 < longest / 10 })
        #expect(pauses.contains { $0 > longest * 9 / 10 })
    }
}
