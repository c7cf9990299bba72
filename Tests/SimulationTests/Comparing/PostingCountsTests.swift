import Testing

@testable import Simulation

@Suite("The answers to posted requests are counted")
struct PostingCountsTests {
    @Test("an expected 409 is not rejected, and a link that is accepted although 409 is expected is counted")
    func refusals() {
        var counts = PostingCounts()
        counts.add(status: 200, isRefused: false)
        counts.add(status: 409, isRefused: true)
        #expect(counts.rejected == 0)
        #expect(
            counts.description("sent link statements")
                == "sent link statements 2, answered 200: 1, answered 409: 1, rejected: 0, failed: 0, refused as expected: 1"
        )

        counts.add(status: 409, isRefused: false)
        counts.add(status: 400, isRefused: true)
        counts.add(status: 200, isRefused: true)
        #expect(counts.rejected == 2)
        #expect((counts.refused, counts.wronglyAccepted) == (1, 1))
        #expect(counts.description().hasSuffix(", refused as expected: 1, wrongly accepted: 1"))

        var sum = PostingCounts()
        sum.add(counts)
        sum.add(counts)
        #expect((sum.statuses, sum.rejected, sum.wronglyAccepted) == ([200: 4, 409: 4, 400: 2], 4, 2))
    }
}
