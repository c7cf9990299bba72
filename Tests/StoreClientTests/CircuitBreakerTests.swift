import Testing

@testable import StoreClient

@Suite("Calls to a failing host stop, and one call at a time tries it")
struct CircuitBreakerTests {
    private let start = ContinuousClock.now

    /// Makes a call and ends it immediately. Returns false if it was rejected.
    @discardableResult
    private func call(
        _ breaker: inout CircuitBreaker, _ result: CircuitBreaker.Result, at now: ContinuousClock.Instant
    ) -> Bool {
        guard case .call(let permit) = breaker.begin(at: now) else { return false }
        breaker.end(permit, result, at: now)
        return true
    }

    private func openBreaker() -> CircuitBreaker {
        var breaker = CircuitBreaker()
        for _ in 0..<5 { call(&breaker, .failed, at: start) }
        return breaker
    }

    @Test("five failures in a row open it; an answer between them starts the count again")
    func inRow() {
        var breaker = CircuitBreaker()

        for result: CircuitBreaker.Result in [.failed, .failed, .failed, .failed, .answered, .failed, .failed] {
            call(&breaker, result, at: start)
        }
        let stateBefore = breaker.state
        for _ in 0..<3 { call(&breaker, .failed, at: start) }

        #expect(stateBefore == .closed)
        #expect(breaker.state == .open)
        #expect(breaker.rejection(at: start) == .seconds(15))
    }

    @Test("ten failures among the last twenty calls open it, and nine do not")
    func share() {
        var breaker = CircuitBreaker()

        for number in 0..<20 {
            call(&breaker, number.isMultiple(of: 2) || number == 1 ? .answered : .failed, at: start)
        }
        let nine = breaker.state
        // The first of the twenty was an answer, and so is the second.
        call(&breaker, .failed, at: start)

        #expect(nine == .closed)
        #expect(breaker.state == .open)
    }

    @Test("calls are rejected until the pause has passed, to the instant")
    func pause() {
        var breaker = openBreaker()

        let isEarlyMade = call(&breaker, .answered, at: start + .milliseconds(14_999))
        let remaining = breaker.rejection(at: start + .milliseconds(14_999))
        let isLaterMade = call(&breaker, .answered, at: start + .seconds(15))

        #expect(!isEarlyMade && isLaterMade)
        #expect(remaining == .milliseconds(1))
        #expect(breaker.state == .closed)
    }

    @Test("while one call tries the host, others are rejected")
    func halfOpen() throws {
        var breaker = openBreaker()

        let probe = breaker.begin(at: start + .seconds(15))
        let other = breaker.begin(at: start + .seconds(16))

        guard case .call = probe else { throw NotPermitted() }
        #expect(other == .reject(pause: .seconds(5)))
        #expect(breaker.state == .halfOpen)
    }

    @Test("each failed try doubles the pause, up to five minutes, and an answer resets it")
    func doubling() {
        var breaker = openBreaker()
        var now = start
        var pauses: [Duration] = []

        for _ in 0..<7 {
            let pause = breaker.rejection(at: now) ?? .zero
            pauses.append(pause)
            now += pause
            call(&breaker, .failed, at: now)
        }
        now += .seconds(300)
        call(&breaker, .answered, at: now)
        for _ in 0..<5 { call(&breaker, .failed, at: now) }

        let expected: [Duration] = [
            .seconds(15), .seconds(30), .seconds(60), .seconds(120), .seconds(240), .seconds(300), .seconds(300),
        ]
        #expect(pauses == expected)
        #expect(breaker.rejection(at: now) == .seconds(15))
    }

    @Test("a cancelled try lets the next call try the host, and a cancelled call is no failure")
    func abandoned() {
        var breaker = openBreaker()
        let now = start + .seconds(15)

        call(&breaker, .abandoned, at: now)
        let stateAfterCancelledTry = breaker.state
        let isNextMade = call(&breaker, .answered, at: now)
        for _ in 0..<20 { call(&breaker, .abandoned, at: now) }

        #expect(stateAfterCancelledTry == .open)
        #expect(isNextMade)
        #expect(breaker.state == .closed)
    }

    @Test("a call from before the failures neither closes it nor ends a try")
    func lateResult() throws {
        var breaker = CircuitBreaker()
        guard case .call(let late) = breaker.begin(at: start) else { throw NotPermitted() }
        for _ in 0..<5 { call(&breaker, .failed, at: start) }

        breaker.end(late, .answered, at: start)
        let stateWhileOpen = breaker.state
        guard case .call = breaker.begin(at: start + .seconds(15)) else { throw NotPermitted() }
        breaker.end(late, .answered, at: start + .seconds(15))

        #expect(stateWhileOpen == .open)
        #expect(breaker.state == .halfOpen)
    }
}

private struct NotPermitted: Error {}
