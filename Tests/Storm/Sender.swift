import StoreSimulator
import Synchronization

/// Posts the load as Apple does: each notification by itself, and again while it is not acknowledged.
final class Sender: Sendable {
    enum Limits {
        /// As often as Apple comes again. Apple's pauses are hours; ours grow from these in the same way.
        static let retriesMax = 5
        static let backOff = Duration.milliseconds(100)
        static let connections = 24
        static let warmUp = 50
        /// How long everything may take once all is healed.
        static let healingMax = Duration.seconds(90)
    }

    let load: StormLoad
    let servers: [StormServer]
    let client: StormClient
    let ledger: SentLedger
    private let report: StormReport
    private let seed: UInt64
    private let state = Mutex(State())

    private struct State {
        var next = 0
        /// Given up after the last retry, until all is healed.
        var doubted: [Parcel] = []
        /// Some that were acknowledged, to be delivered once more.
        var recent: [Parcel] = []
    }

    init(
        load: StormLoad, servers: [StormServer], client: StormClient, ledger: SentLedger, report: StormReport,
        seed: UInt64
    ) {
        self.load = load
        self.servers = servers
        self.client = client
        self.ledger = ledger
        self.report = report
        self.seed = seed
    }

    /// Some work for every server, so that all its connections are open and memory has its usual size.
    func warmUp() async {
        await withTaskGroup(of: Void.self) { group in
            for port in servers.compactMap({ $0.ports?.private }) {
                for _ in 0..<Limits.connections {
                    group.addTask { [client] in _ = await client.get("/subscriptions/1", from: port) }
                }
            }
        }
        for _ in 0..<Limits.warmUp {
            guard let place = takePlace() else { return }
            let parcel = load[place]
            for server in servers where await !post(parcel, to: server) {
                report.problem("a server does not take notifications before anything is broken")
            }
        }
    }

    /// Posts everything once, retries included, spread over the duration.
    func sendAll(over duration: Duration) async {
        let start = ContinuousClock.now
        let interval = duration / max(1, load.count)
        await withTaskGroup(of: Void.self) { group in
            for connection in 0..<Limits.connections {
                group.addTask { [self] in
                    var random = SplitMix64(seed: seed, 1, UInt64(connection))
                    while let place = takePlace() {
                        try? await Task.sleep(until: start + interval * place, clock: .continuous)
                        await deliver(load[place], &random)
                    }
                }
            }
        }
    }

    /// Posts what was given up until it is taken. All must be, since nothing is broken any more.
    func sendDoubted() async {
        let deadline = ContinuousClock.now + Limits.healingMax
        report.say("\(doubtedCount) were given up in the storm and are sent again")
        await withTaskGroup(of: Void.self) { group in
            for connection in 0..<Limits.connections {
                group.addTask { [self] in
                    var random = SplitMix64(seed: seed, 2, UInt64(connection))
                    while ContinuousClock.now < deadline, let parcel = state.withLock({ $0.doubted.popLast() }) {
                        await deliver(parcel, &random)
                    }
                }
            }
        }
        if doubtedCount > 0 {
            report.problem("\(doubtedCount) notifications were not taken after everything was healed")
        }
    }

    private var doubtedCount: Int { state.withLock { $0.doubted.count } }

    /// How many are still to be sent for the first time.
    var remaining: Int { load.count - state.withLock { $0.next } }

    private func takePlace() -> Int? {
        state.withLock { state in
            guard state.next < load.count else { return nil }
            state.next += 1
            return state.next - 1
        }
    }

    /// One of the last that were acknowledged.
    func recent(_ random: inout SplitMix64) -> Parcel? {
        let number = Int(random.next() >> 33)
        return state.withLock { $0.recent.isEmpty ? nil : $0.recent[number % $0.recent.count] }
    }

    /// Posts until there is a 200, or the retries are used up.
    func deliver(_ parcel: Parcel, _ random: inout SplitMix64) async {
        var wait = Limits.backOff
        for attempt in 0...Limits.retriesMax {
            if await post(parcel, to: servers[Int.random(in: servers.indices, using: &random)]) { return }
            if attempt < Limits.retriesMax { try? await Task.sleep(for: wait) }
            wait *= 2
        }
        state.withLock { $0.doubted.append(parcel) }
    }

    /// True when it needs no repeat.
    func post(_ parcel: Parcel, to server: StormServer) async -> Bool {
        guard let port = server.ports?.public else { return false }
        ledger.willSend(parcel)
        let answer = await client.post(parcel.body, to: port)
        ledger.note("authentic", answer)
        guard let answer else { return false }
        switch answer.status {
        case 200:
            ledger.acknowledge(parcel, answer)
            state.withLock { state in
                if state.recent.count == 64 { state.recent.removeFirst() }
                state.recent.append(parcel)
            }
            return true
        // A body that is late because the server stood still.
        case 408, 500...: return false
        default:
            report.problem("an authentic notification was answered \(answer.status): \(answer.text)")
            return true
        }
    }
}
