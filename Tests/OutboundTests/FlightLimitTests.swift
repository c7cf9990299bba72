import Testing

@testable import Outbound

@Suite("Places for attempts in flight", .timeLimit(.minutes(1)))
struct FlightLimitTests {
    /// Waits until a condition holds.
    private func until(_ condition: () async -> Bool) async {
        while await !condition() { try? await Task.sleep(for: .milliseconds(2)) }
    }

    @Test("an attempt that turns slow gives its place back, so that others need not wait for its end")
    func slow() async {
        let limit = FlightLimit(quick: 4, slow: 2, quickTime: .milliseconds(30))
        for number in 0..<4 { _ = await limit.enter("slow \(number)") }

        // Nobody leaves.
        for _ in 0..<8 {
            let place = await limit.enter("quick")
            await limit.leave(place)
        }
    }

    @Test("slow endpoints share places of their own, until one of their attempts is quick again")
    func again() async {
        let limit = FlightLimit(quick: 2, slow: 1, quickTime: .milliseconds(200))
        let first = await limit.enter("a")
        await until { await limit.isSlow("a") }
        let entered = Task { await limit.enter("a") }
        await until { await limit.waitingCount == 1 }
        let other = await limit.enter("b")
        await limit.leave(other)
        #expect(await limit.waitingCount == 1)

        await limit.leave(first)
        await limit.leave(await entered.value)
        #expect(await limit.isSlow("a") == false)
        let places = [await limit.enter("a"), await limit.enter("a")]

        for place in places { await limit.leave(place) }
    }

    @Test("the endpoint with the fewest attempts in flight is next, then the one that has waited longest")
    func fair() async {
        let limit = FlightLimit(quick: 3, slow: 1, quickTime: .seconds(60))
        let places = [await limit.enter("a"), await limit.enter("a"), await limit.enter("a")]
        let ofA = Task { await limit.enter("a") }
        await until { await limit.waitingCount == 1 }
        let ofB = Task { await limit.enter("b") }
        await until { await limit.waitingCount == 2 }
        let ofC = Task { await limit.enter("c") }
        await until { await limit.waitingCount == 3 }

        await limit.leave(places[0])
        let placeOfB = await ofB.value
        #expect(await limit.waitingCount == 2)
        await limit.leave(places[1])
        let placeOfC = await ofC.value
        #expect(await limit.waitingCount == 1)
        await limit.leave(places[2])
        for place in [await ofA.value, placeOfB, placeOfC] { await limit.leave(place) }
    }
}
