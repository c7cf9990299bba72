import AppStore
import Encoding
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

@Suite("Calls of an app wait for its budget and its number of calls in flight")
struct CallGateTests {
    /// One call a second after a burst of five.
    private static let slow = ReceiptBundle.app(budget: CallBudget(callsPerMinute: 60, concurrency: 256))

    /// Starts questions one after the other, so that they wait in this order.
    private func start(
        _ numbers: [UInt8], _ priority: AskPriority, in bundle: ReceiptBundle, waitingBefore: Int
    ) async throws -> [Task<ReceiptOutcome, Never>] {
        var tasks: [Task<ReceiptOutcome, Never>] = []
        for number in numbers {
            tasks.append(Task { await bundle.ask(number, app: Self.slow, priority: priority) })
            let waiting = waitingBefore + tasks.count
            try await reach("the call waits") { bundle.client.waiting(of: Self.slow) == waiting }
        }
        return tasks
    }

    private func reach(_ what: String, _ isReached: () -> Bool) async throws {
        _ = try await eventually(what) { isReached() ? true : nil }
    }

    private func useUpBurst(of bundle: ReceiptBundle) async {
        for _ in 0..<5 { _ = await bundle.ask(99, app: Self.slow, priority: .check) }
    }

    @Test("after the burst, one call is made per second")
    func budget() async throws {
        let bundle = ReceiptBundle(FakeStore { _ in .status(0) }, clock: ManualClock())
        await useUpBurst(of: bundle)
        let tasks = try await start([1, 2, 3], .check, in: bundle, waitingBefore: 0)

        bundle.clock.advance(by: .milliseconds(999))
        let early = bundle.store.requests.count
        var counts: [Int] = []
        for step in [Duration.milliseconds(1), .seconds(1), .seconds(1)] {
            bundle.clock.advance(by: step)
            let expected = 6 + counts.count
            try await reach("the next call is made") { bundle.store.requests.count == expected }
            counts.append(bundle.client.waiting(of: Self.slow))
        }
        for task in tasks { #expect(await task.value.text == "answered by production") }

        #expect(early == 5)
        #expect(counts == [2, 1, 0])
        #expect(bundle.metrics.prometheusText.contains("subledger_store_budget_waits_total 3\n"))
    }

    @Test("a hand-in overtakes waiting checks, and among equals the first comes first")
    func order() async throws {
        let bundle = ReceiptBundle(FakeStore { _ in .status(0) }, clock: ManualClock())
        await useUpBurst(of: bundle)
        let checks = try await start([1, 2], .check, in: bundle, waitingBefore: 0)
        let handIns = try await start([3, 4], .handIn, in: bundle, waitingBefore: 2)

        for number in 1...4 {
            bundle.clock.advance(by: .seconds(1))
            try await reach("call \(number) is made") { bundle.store.requests.count == 5 + number }
        }
        for task in checks + handIns { _ = await task.value }

        let texts = bundle.store.requests.dropFirst(5).map(\.text)
        for (text, number) in zip(texts, [3, 4, 1, 2] as [UInt8]) {
            #expect(text.contains(ReceiptBundle.receipt(number).base64))
        }
    }

    @Test("strangers use half of the calls in flight and of the calls a minute, and delay nobody else")
    func strangers() async throws {
        let clock = ManualClock()
        let narrow = CallGate(CallBudget(callsPerMinute: 6000, concurrency: 4), clock: clock.clock) {}
        let strangers = (0..<6).map { _ in Task { await narrow.enter(.stranger) } }
        try await reach("four strangers wait") { narrow.waiting == 4 }
        for _ in 0..<2 { #expect(await narrow.enter(.check) == .admitted) }
        narrow.leave(.check)
        #expect(await narrow.enter(.handIn) == .admitted)
        for left in [3, 2, 1, 0] {
            narrow.leave(.stranger)
            try await reach("\(left) strangers wait") { narrow.waiting == left }
        }
        for stranger in strangers { #expect(await stranger.value == .admitted) }

        // A burst of ten, of which five are theirs, and then one a second.
        let slow = CallGate(CallBudget(callsPerMinute: 120, concurrency: 256), clock: clock.clock) {}
        for _ in 0..<5 { #expect(await slow.enter(.stranger) == .admitted) }
        let late = (0..<2).map { _ in Task { await slow.enter(.stranger) } }
        try await reach("two strangers wait") { slow.waiting == 2 }
        #expect(await slow.enter(.stranger) == .refused(wait: .seconds(3)))
        #expect(await slow.enter(.check) == .admitted)
        for left in [1, 0] {
            clock.advance(by: .seconds(1))
            try await reach("\(left) strangers wait") { slow.waiting == left }
        }
        for stranger in late { #expect(await stranger.value == .admitted) }
    }

    private final class Admitted: Sendable {
        let words = Mutex<[String]>([])
    }

    @Test("questions of strangers for whom nobody waits leave places to the others, and have every fourth turn")
    func strangersLater() async throws {
        let clock = ManualClock()
        let gate = CallGate(CallBudget(callsPerMinute: 6000, concurrency: 2), clock: clock.clock) {}
        #expect(await gate.enter(.stranger) == .admitted)
        let admitted = Admitted()
        var tasks: [Task<Void, Never>] = []
        // The places of the queue are used up by those for whom nobody waits, who do not hold those of the others.
        for number in 0..<Limits.strangersWaitingMax {
            tasks.append(
                Task {
                    guard await gate.enter(.strangerLater) == .admitted else { return }
                    admitted.words.withLock { $0.append("later") }
                    gate.leave(.strangerLater)
                })
            try await reach("it waits") { gate.waiting == number + 1 }
        }
        #expect(await gate.enter(.strangerLater) == .refused(wait: Limits.unavailablePause))
        for number in 0..<5 {
            tasks.append(
                Task {
                    guard await gate.enter(.stranger) == .admitted else { return }
                    admitted.words.withLock { $0.append("now") }
                    gate.leave(.stranger)
                })
            try await reach("it waits") { gate.waiting == Limits.strangersWaitingMax + number + 1 }
        }

        gate.leave(.stranger)
        for task in tasks { await task.value }

        // The first one of all was admitted at once.
        let first = admitted.words.withLock { Array($0.prefix(8)) }
        #expect(first == ["now", "now", "later", "now", "now", "now", "later", "later"])
    }

    @Test("a few unproven purchases of a customer are asked about at a time, whoever else hands in")
    func customers() {
        let customers = AskingCustomers()
        let one = AskingCustomers.Key(app: "a", customerId: "1")
        for _ in 0..<Limits.unprovenOfCustomerMax { #expect(customers.enter(one)) }

        #expect(!customers.enter(one))
        for other in [("a", "2"), ("b", "1"), ("a", nil)] as [(String, String?)] {
            #expect(customers.enter(AskingCustomers.Key(app: other.0, customerId: other.1)))
        }
        customers.leave(one)
        #expect(customers.enter(one))
        #expect(!customers.enter(one))
    }

    @Test("calls of strangers use up a quarter of the day, and no other share")
    func day() throws {
        var day = DayQuota(callsMax: 100)
        let now = Instant.earliest.advanced(by: .seconds(86_400))
        for _ in 0..<25 { #expect(day.take(at: now, isScheduled: false, isStranger: true) == nil) }
        #expect(day.take(at: now, isScheduled: false, isStranger: true) != nil)
        for _ in 0..<50 { #expect(day.take(at: now, isScheduled: true) == nil) }
        #expect(day.take(at: now, isScheduled: true) != nil)
        for _ in 0..<25 { #expect(day.take(at: now, isScheduled: false) == nil) }
        #expect(day.take(at: now, isScheduled: false) != nil)
    }

    @Test("a question that has begun goes on before new ones of its priority")
    func continued() async throws {
        let bundle = ReceiptBundle(
            FakeStore { request in
                let isSandboxReceipt = request.text.contains(ReceiptBundle.receipt(9).base64)
                return .status(isSandboxReceipt && request.url == FakeStore.productionURL ? 21007 : 0)
            }, clock: ManualClock())
        await useUpBurst(of: bundle)
        let tasks = try await start([9, 1], .check, in: bundle, waitingBefore: 0)

        bundle.clock.advance(by: .seconds(1))
        try await reach("the sandbox call waits") {
            bundle.store.requests.count == 6 && bundle.client.waiting(of: Self.slow) == 2
        }
        bundle.clock.advance(by: .seconds(1))
        try await reach("the sandbox is called") { bundle.store.requests.count == 7 }
        bundle.clock.advance(by: .seconds(1))
        for task in tasks { _ = await task.value }

        #expect(
            bundle.store.requests.dropFirst(5).map(\.url) == [
                FakeStore.productionURL, FakeStore.sandboxURL, FakeStore.productionURL,
            ])
    }

    @Test("a question that would wait longer than 30 seconds ends with the wait, and a hand-in counts no checks")
    func longWait() async throws {
        let bundle = ReceiptBundle(FakeStore { _ in .status(0) }, clock: ManualClock())
        await useUpBurst(of: bundle)
        let checks = try await start([UInt8](1...30), .check, in: bundle, waitingBefore: 0)

        let refused = await bundle.ask(31, app: Self.slow, priority: .check)
        let handIn = try await start([32], .handIn, in: bundle, waitingBefore: 30)

        #expect(refused.text == "unavailable budget, 31.0 seconds")
        for task in checks + handIn { task.cancel() }
        for task in checks + handIn { #expect(await task.value.text == "unavailable cancelled, 0.0 seconds") }
        #expect(bundle.client.waiting(of: Self.slow) == 0)
        #expect(bundle.store.requests.count == 5)
    }

    @Test("no more calls than configured are in flight, and each end admits the next")
    func concurrency() async throws {
        let network = ManualClock()
        let held = network.now + .seconds(1)
        let app = ReceiptBundle.app(budget: CallBudget(callsPerMinute: 60_000, concurrency: 3))
        let bundle = ReceiptBundle(
            FakeStore { _ in
                try? await network.clock.sleep(held)
                await Task.yield()
                return .status(0)
            }, clock: ManualClock())
        let tasks = (0..<100).map { number in Task { await bundle.ask(UInt8(number), app: app, priority: .check) } }
        try await reach("three calls are in flight") {
            bundle.store.inFlight == 3 && bundle.client.waiting(of: app) == 97
        }

        network.advance(by: .seconds(1))
        for task in tasks { #expect(await task.value.text == "answered by production") }

        #expect(bundle.store.inFlightMax == 3)
        #expect(bundle.store.requests.count == 100)
    }

    @Test("a cancelled call frees its place")
    func cancelled() async throws {
        let network = ManualClock()
        let held = network.now + .seconds(1)
        let app = ReceiptBundle.app(budget: CallBudget(callsPerMinute: 600, concurrency: 1))
        let bundle = ReceiptBundle(
            FakeStore { request in
                guard request.text.contains(ReceiptBundle.receipt(1).base64) else { return .status(0) }
                try? await network.clock.sleep(held)
                return .failure(.cancelled)
            }, clock: ManualClock())
        let first = Task { await bundle.ask(1, app: app) }
        try await reach("the first call is in flight") { network.sleeping == 1 }
        let second = Task { await bundle.ask(2, app: app) }
        try await reach("the second call waits") { bundle.client.waiting(of: app) == 1 }

        first.cancel()

        #expect(await first.value.text == "unavailable cancelled, 0.0 seconds")
        #expect(await second.value.text == "answered by production")
    }

    @Test("a question of a cancelled task makes no call")
    func cancelledBefore() async {
        let bundle = ReceiptBundle(FakeStore(), clock: ManualClock())
        let question = Task {
            // Ends when the task is cancelled.
            try? await Task.sleep(for: .seconds(3600))
            return await bundle.ask()
        }

        question.cancel()

        #expect(await question.value.text == "unavailable cancelled, 0.0 seconds")
        #expect(bundle.store.requests.isEmpty)
    }

    @Test("apps have budgets of their own")
    func apps() async {
        let bundle = ReceiptBundle(FakeStore { _ in .status(0) }, clock: ManualClock())
        let budget = CallBudget(callsPerMinute: 1, concurrency: 1)
        let one = ReceiptBundle.app(budget: budget, bundleId: "com.example.one")
        let two = ReceiptBundle.app(budget: budget, bundleId: "com.example.two")

        let outcomes = [
            await bundle.ask(app: one), await bundle.ask(app: two), await bundle.ask(app: one),
        ]

        #expect(
            outcomes.map(\.text) == [
                "answered by production", "answered by production", "unavailable budget, 60.0 seconds",
            ])
    }
}
