import AppStore
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

@Suite("Temporary failures are retried with random pauses")
struct ReceiptRetryTests {
    /// Random numbers of one seed.
    private final class Numbers: Sendable {
        private let generator: Mutex<SeededGenerator>

        init(seed: UInt64) {
            generator = Mutex(SeededGenerator(seed: seed))
        }

        func next() -> Double {
            generator.withLock { Double.random(in: 0..<1, using: &$0) }
        }
    }

    @Test("the pauses are random parts of one, two and four seconds", arguments: [7, 11, 2026] as [UInt64])
    func pauses(seed: UInt64) async {
        let numbers = Numbers(seed: seed)
        let bundle = ReceiptBundle(
            FakeStore(production: [FakeStore.Reply](repeating: .status(21005), count: 4)),
            random: { numbers.next() })
        let same = Numbers(seed: seed)
        let longest: [Duration] = [.seconds(1), .seconds(2), .seconds(4)]
        let expected = longest.map { $0 * same.next() }

        _ = await bundle.ask()

        #expect(bundle.clock.slept == expected)
    }

    @Test("a pause that the store requests is kept, if a question can wait that long")
    func retryAfter() async {
        let reply = FakeStore.Reply.body("", httpStatus: 429, retryAfter: .seconds(5))
        let bundle = ReceiptBundle(FakeStore(production: [reply, reply, .status(0)]))

        let outcome = await bundle.ask()

        #expect(outcome.text == "answered by production")
        #expect(bundle.clock.slept == [.seconds(5), .seconds(5)])
    }

    @Test(
        "a longer pause is returned to the caller, up to an hour",
        arguments: [(9, "30.0"), (60, "60.0"), (86_400, "3600.0")])
    func longRetryAfter(seconds: Int, expected: String) async {
        let reply = FakeStore.Reply.body("", httpStatus: 503, retryAfter: .seconds(seconds))
        let bundle = ReceiptBundle(FakeStore(production: [reply]))

        let outcome = await bundle.ask()

        #expect(outcome.text == "unavailable http_status, \(expected) seconds")
        #expect(bundle.clock.slept.isEmpty)
    }

    @Test("each call has a time limit")
    func timeout() async {
        let bundle = ReceiptBundle(FakeStore(production: [.status(0)]))

        _ = await bundle.ask()

        #expect(bundle.store.requests.map(\.timeout) == [.seconds(20)])
    }

    @Test("a question that is cancelled during a pause ends")
    func cancelled() async throws {
        let clock = ManualClock()
        let bundle = ReceiptBundle(FakeStore(production: [.status(21005)]), clock: clock, random: { 0.5 })
        let question = Task { await bundle.ask() }
        _ = try await eventually("the pause begins") { clock.sleeping == 1 ? true : nil }

        question.cancel()

        #expect(await question.value.text == "unavailable cancelled, 0.0 seconds")
        #expect(bundle.store.requests.count == 1)
    }

    // MARK: Breaker

    @Test("after five failures in a row, questions end without a call, until one call tries the host")
    func breaker() async {
        let bundle = ReceiptBundle(
            FakeStore(
                production: [FakeStore.Reply](repeating: .failure(.timeout), count: 5) + [.status(0), .status(0)]))

        let first = await bundle.ask()
        let second = await bundle.ask()
        let third = await bundle.ask()
        let stateAfterFailures = bundle.client.breakerState(of: .production)
        bundle.clock.advance(by: .seconds(15))
        let fourth = await bundle.ask()
        let fifth = await bundle.ask()

        #expect(first.text == "unavailable timeout, 30.0 seconds")
        #expect(second.text == "unavailable breaker_open, 15.0 seconds")
        #expect(third.text == "unavailable breaker_open, 15.0 seconds")
        #expect(stateAfterFailures == .open)
        #expect([fourth.text, fifth.text] == ["answered by production", "answered by production"])
        #expect(bundle.client.breakerState(of: .production) == .closed)
    }

    @Test("while one question tries the host, others end without a call")
    func probe() async throws {
        let network = ManualClock()
        let clock = ManualClock(jumps: true)
        let held = network.now + .seconds(1)
        let store = FakeStore { request in
            guard request.text.contains(ReceiptBundle.receipt(2).base64) else { return .failure(.unreachable) }
            try? await network.clock.sleep(held)
            return .status(0)
        }
        let bundle = ReceiptBundle(store, clock: clock)
        for _ in 0..<2 { _ = await bundle.ask() }
        clock.advance(by: .seconds(15))
        let trying = Task { await bundle.ask(2) }
        _ = try await eventually("the host is tried") { network.sleeping == 1 ? true : nil }

        let other = await bundle.ask()
        let stateWhileTrying = bundle.client.breakerState(of: .production)
        network.advance(by: .seconds(1))
        let tried = await trying.value

        #expect(other.text == "unavailable breaker_open, 5.0 seconds")
        #expect(stateWhileTrying == .halfOpen)
        #expect(tried.text == "answered by production")
        #expect(store.requests.count == 6)
    }

    @Test("answers without a status about one app do not stop questions about another")
    func separateApps() async {
        let store = FakeStore { request in
            request.text.contains(ReceiptBundle.nextSecret) ? .body("{}") : .status(0)
        }
        let bundle = ReceiptBundle(store)
        let ill = ReceiptBundle.app(secrets: [ReceiptBundle.nextSecret], bundleId: "com.example.ill")

        for _ in 0..<3 { _ = await bundle.ask(app: ill) }
        let stopped = await bundle.ask(app: ill)
        let other = await bundle.ask()

        #expect(stopped.text.hasPrefix("unavailable breaker_open"))
        #expect(other.text == "answered by production")
        #expect(bundle.client.breakerState(of: .production) == .open)
        #expect(bundle.log.text.contains(#""stream.app": com.example.ill"#), "\(bundle.log.text)")
    }

    @Test("a failing sandbox does not stop calls to production")
    func separateHosts() async {
        let store = FakeStore { request in
            request.url == FakeStore.sandboxURL ? .failure(.unreachable) : .status(21007)
        }
        let bundle = ReceiptBundle(store)

        for _ in 0..<3 { _ = await bundle.ask() }

        #expect(bundle.client.breakerState(of: .sandbox) == .open)
        #expect(bundle.client.breakerState(of: .production) == .closed)
    }

    @Test("a status about a single receipt does not stop calls", arguments: [21002, 21009, 21199])
    func singleReceipt(number: Int) async {
        let bundle = ReceiptBundle(FakeStore { _ in .status(number) })

        for _ in 0..<10 { _ = await bundle.ask() }

        #expect(bundle.client.breakerState(of: .production) == .closed)
    }
}
