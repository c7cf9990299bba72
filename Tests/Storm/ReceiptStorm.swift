import Encoding
import Foundation
import Logging
import Simulation
import Subscriptions
import Synchronization
import TestSupport

/// Receipts that backends hand in during a storm, and a store that often fails to answer about them.
///
/// They belong to an app of their own, whose streams have no notifications.
final class ReceiptStorm: Sendable {
    static let app = "com.example.receipts"

    private let simulation: Simulation
    private let handIns: [SimulatedHandIn]
    /// The receipts of the hand-ins, signed as Apple's are: others share with strangers.
    private let receipts: [[UInt8]]
    private let store: SimulatedStore
    private let listener: Task<Void, Never>
    private let report: StormReport
    /// The base URL of the store.
    let address: String
    private let state = Mutex(State())

    private struct State {
        /// The ids of acknowledged receipts, by their numbers.
        var ids: [Int: String] = [:]
        var answers: [Int: Int] = [:]
    }

    private enum Limits {
        static let subscriptions = 40
        static let slowness = Duration.seconds(2)
        static let phase = Duration.seconds(1)
        /// The requests of a phase that fail in the same way.
        static let failingRequests = 1...6
        /// How long all receipts may take to be answered after the last fault, with the pauses of a breaker.
        static let healingMax = Duration.seconds(120)
        static let pause = Duration.milliseconds(500)
    }

    init(seed: UInt64, report: StormReport) async throws {
        var settings = Simulation.Settings(
            app: SimulatedApp(bundleId: Self.app, environment: .production, sharedSecret: Canary.secret))
        settings.seed = seed &+ 7
        settings.subscriptions = Limits.subscriptions
        // Their whole access is in the receipts of their end.
        settings.stories = [.renewals, .switchOffAndExpire, .resubscribeSame, .trialConversion, .refundOfOldPeriod]
        guard let simulation = Simulation(settings) else { throw CocoaError(.featureUnsupported) }
        self.simulation = simulation
        self.report = report
        let handIns = simulation.handIns
        let receipts = try handIns.map { try SignedReceipt.make(app: Self.app, opaque: $0.receipt) }
        let contents = Dictionary(zip(receipts, handIns.map(\.receipt))) { first, _ in first }
        (self.handIns, self.receipts) = (handIns, receipts)
        let store = SimulatedStore(simulation, slowness: Limits.slowness) { contents[$0] }
        self.store = store
        let (addresses, found) = AsyncStream<String>.makeStream()
        listener = Task {
            var logger = Logger(label: "storm")
            logger.logLevel = .critical
            try? await StoreListener(store, logger: logger) { found.yield($0) }.run()
            found.finish()
        }
        guard let address = await addresses.first(where: { _ in true }) else {
            throw CocoaError(.featureUnsupported)
        }
        self.address = address
    }

    func end() async {
        listener.cancel()
        await listener.value
    }

    /// Hands all receipts in, spread over the duration, while the store fails in phases that the seed draws.
    ///
    /// The store is well again before the end: a server repeats a question that failed after half a minute, which the check would
    /// wait for.
    func run(over duration: Duration, _ sender: Sender, seed: UInt64) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.failStore(for: duration * 2 / 3, seed: seed) }
            var random = SplitMix64(seed: seed, 5)
            let start = ContinuousClock.now
            let interval = duration / max(1, handIns.count)
            for number in handIns.indices {
                try? await Task.sleep(until: start + interval * number, clock: .continuous)
                let server = sender.servers[Int.random(in: sender.servers.indices, using: &random)]
                // Not waited for: the store may be slow.
                group.addTask { _ = await self.handIn(number, to: server, sender.client) }
            }
        }
    }

    private func failStore(for duration: Duration, seed: UInt64) async {
        var random = SplitMix64(seed: seed, 6)
        let faults: [StoreFault] = [.dropped, .overloaded, .slow, .status(21005, nil), .status(21009, nil), .cutOff]
        let end = ContinuousClock.now + duration
        while ContinuousClock.now < end, !Task.isCancelled {
            if let fault = faults.randomElement(using: &random) {
                store.inject(fault, requests: Int.random(in: Limits.failingRequests, using: &random))
            }
            try? await Task.sleep(for: Limits.phase)
            // Few requests are made while a breaker is open.
            store.withdrawFaults()
        }
    }

    /// - Returns: Whether the store has answered.
    private func handIn(_ number: Int, to server: StormServer, _ client: StormClient) async -> Bool {
        guard let port = server.ports?.private else { return false }
        let body = Array("{\"receipt\":\"\(Base64.text(receipts[number]))\"}".utf8)
        let answer = await client.post(body, to: port, path: "/receipts?app=\(Self.app)&environment=any")
        state.withLock { $0.answers[answer?.status ?? 0, default: 0] += 1 }
        guard let answer else { return false }
        if answer.text.contains(Canary.mark) { report.problem("an answer about a receipt contains a canary") }
        switch answer.status {
        case 200, 202:
            guard let id = answer.id else {
                report.problem("a receipt was accepted without an id: \(answer.text)")
                return false
            }
            state.withLock { $0.ids[number] = id }
            return answer.status == 200
        case 408, 429, 500...: return false
        default:
            report.problem("a receipt was answered \(answer.status): \(answer.text)")
            return true
        }
    }

    // MARK: Checks

    /// Checks that every acknowledged receipt is answered in the end, and that the access is that of the books.
    func check(_ run: StormRun) async throws {
        let acknowledged = state.withLock { $0.ids }
        let client = run.sender.client
        let deadline = ContinuousClock.now + Limits.healingMax
        var open = Set(handIns.indices)
        while !open.isEmpty, ContinuousClock.now < deadline {
            // At once: a request waits some seconds for the store.
            let answered = await withTaskGroup(of: Int?.self) { group in
                for number in open {
                    group.addTask { await self.handIn(number, to: run.servers[number % 2], client) ? number : nil }
                }
                var answered: Set<Int> = []
                for await number in group {
                    if let number { answered.insert(number) }
                }
                return answered
            }
            open.subtract(answered)
            if !open.isEmpty { try await Task.sleep(for: Limits.pause) }
        }
        if !open.isEmpty { report.problem("\(open.count) receipts are not answered after the last fault") }
        guard let port = run.servers[1].ports?.private else { throw CocoaError(.featureUnsupported) }
        for id in acknowledged.values {
            let answer = await client.get("/receipts/\(id)?environment=any", from: port)
            guard answer?.status == 200, answer?.state == "answered" else {
                report.addLost(1)
                report.problem("receipt \(id) was acknowledged and is \(answer?.text ?? "lost")")
                continue
            }
        }
        try await compare(client, port)
        let answers = state.withLock { $0.answers }.sorted { $0.key < $1.key }
            .map { "\($0.value) x \($0.key == 0 ? "no answer" : String($0.key))" }.joined(separator: ", ")
        report.log("\(handIns.count) receipts, \(acknowledged.count) acknowledged during the storm, \(answers)")
    }

    private func compare(_ client: StormClient, _ port: Int) async throws {
        var compared = 0
        // Receipts of single transactions do not show earlier periods.
        let complete = handIns.map(\.account).filter { $0.style == .app }.flatMap(\.subscriptions)
        let ids = Set(complete.map(\.originalTransactionId))
        for expected in simulation.answers where ids.contains(expected.originalTransactionId) {
            let path =
                "/subscriptions/\(expected.originalTransactionId)?app=\(Self.app)&environment=production"
                + "&at=\(expected.at)"
            let answer = await client.get(path, from: port)
            let active = answer?.status == 404 ? false : answer?.isActive
            if active != expected.active {
                report.problem("\(path): expected active \(expected.active), answered \(answer?.text ?? "nothing")")
            }
            compared += 1
        }
        report.log("compared \(compared) answers about receipts")
    }
}
