import Synchronization
import Testing

@testable import Outbound

/// Attempts are quick until the test says that those in flight have become late.
private final class Lateness: Sendable {
    private let waiting = Mutex<[AsyncStream<Never>.Continuation]>([])

    /// The attempts that have begun since the last ones became late.
    var begun: Int { waiting.withLock(\.count) }

    func wait() async {
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        waiting.withLock { $0.append(continuation) }
        for await _ in stream {}
    }

    func pass() {
        let late = waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        for continuation in late { continuation.finish() }
    }
}

@Suite("Places for attempts in flight")
struct FlightLimitTests {
    private let lateness = Lateness()

    /// Waits until a condition holds.
    private func until(_ condition: () async -> Bool) async {
        while await !condition() { try? await Task.sleep(for: .milliseconds(2)) }
    }

    private func makeLimit(quick: Int, slow: Int) -> FlightLimit {
        FlightLimit(quick: quick, slow: slow) { [lateness] in await lateness.wait() }
    }

    @Test("an attempt that turns slow gives its place back, so that others need not wait for its end")
    func slow() async {
        let limit = makeLimit(quick: 4, slow: 2)
        for number in 0..<4 { _ = await limit.enter("slow \(number)") }
        await until { lateness.begun == 4 }
        let next = Task { await limit.enter("quick") }
        await until { await limit.waitingCount == 1 }

        // Nobody of them leaves.
        lateness.pass()
        await limit.leave(await next.value)
        for _ in 0..<8 {
            let place = await limit.enter("quick")
            await limit.leave(place)
        }
    }

    @Test("slow endpoints share places of their own, until one of their attempts is quick again")
    func again() async {
        let limit = makeLimit(quick: 2, slow: 1)
        let first = await limit.enter("a")
        await until { lateness.begun == 1 }
        lateness.pass()
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
        let limit = makeLimit(quick: 3, slow: 1)
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
