import Simulation
import Synchronization

/// Posts the load as Apple does: one notification per request, retried until it is acknowledged.
final class Sender: Sendable {
    enum Limits {
        /// As many as Apple's. Apple's pauses are hours; these start at ``backOff`` and double.
        static let retriesMax = 5
        static let backOff = Duration.milliseconds(100)
        static let connections = 24
        static let warmUp = 50
        /// How long the remaining notifications may take after the last fault.
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
        /// Notifications whose retries are used up. They are sent again after the last fault.
        var unacknowledged: [Parcel] = []
        /// Recently acknowledged notifications, for repeats.
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

    /// Sends some requests to every server, so that its connections are open and its memory use is typical.
    func warmUp() async {
        await withTaskGroup(of: Void.self) { group in
            for port in servers.compactMap({ $0.ports?.private }) {
                for _ in 0..<Limits.connections {
                    group.addTask { [client] in _ = await client.get("/subscriptions/1", from: port) }
                }
            }
        }
        for _ in 0..<Limits.warmUp {
            guard let place = nextPlace() else { return }
            let parcel = load[place]
            for server in servers where await !post(parcel, to: server) {
                report.problem("a server does not accept notifications before the first fault")
            }
        }
    }

    /// Posts the whole load with retries, spread over the duration.
    func sendAll(over duration: Duration) async {
        let start = ContinuousClock.now
        let interval = duration / max(1, load.count)
        await withTaskGroup(of: Void.self) { group in
            for connection in 0..<Limits.connections {
                group.addTask { [self] in
                    var random = SplitMix64(seed: seed, 1, UInt64(connection))
                    while let place = nextPlace() {
                        try? await Task.sleep(until: start + interval * place, clock: .continuous)
                        await deliver(load[place], &random)
                    }
                }
            }
        }
    }

    /// Posts the unacknowledged notifications until they are acknowledged. All must be, because no fault is active.
    func sendUnacknowledged() async {
        let deadline = ContinuousClock.now + Limits.healingMax
        report.log("sending \(unacknowledgedCount) unacknowledged notifications again")
        await withTaskGroup(of: Void.self) { group in
            for connection in 0..<Limits.connections {
                group.addTask { [self] in
                    var random = SplitMix64(seed: seed, 2, UInt64(connection))
                    while ContinuousClock.now < deadline,
                        let parcel = state.withLock({ $0.unacknowledged.popLast() })
                    {
                        await deliver(parcel, &random)
                    }
                }
            }
        }
        if unacknowledgedCount > 0 {
            report.problem("\(unacknowledgedCount) notifications were not acknowledged after the last fault")
        }
    }

    private var unacknowledgedCount: Int { state.withLock { $0.unacknowledged.count } }

    /// The number of notifications that were not sent yet.
    var remaining: Int { load.count - state.withLock { $0.next } }

    private func nextPlace() -> Int? {
        state.withLock { state in
            guard state.next < load.count else { return nil }
            state.next += 1
            return state.next - 1
        }
    }

    /// A recently acknowledged notification.
    func recent(_ random: inout SplitMix64) -> Parcel? {
        let number = Int(random.next() >> 33)
        return state.withLock { $0.recent.isEmpty ? nil : $0.recent[number % $0.recent.count] }
    }

    /// Posts until the notification is acknowledged or the retries are used up.
    func deliver(_ parcel: Parcel, _ random: inout SplitMix64) async {
        var wait = Limits.backOff
        for attempt in 0...Limits.retriesMax {
            if await post(parcel, to: servers[Int.random(in: servers.indices, using: &random)]) { return }
            if attempt < Limits.retriesMax { try? await Task.sleep(for: wait) }
            wait *= 2
        }
        state.withLock { $0.unacknowledged.append(parcel) }
    }

    /// - Returns: False if the notification needs a retry.
    func post(_ parcel: Parcel, to server: StormServer) async -> Bool {
        guard let port = server.ports?.public else { return false }
        ledger.willSend(parcel)
        let answer = await client.post(parcel.body, to: port)
        ledger.count("authentic", answer)
        guard let answer else { return false }
        switch answer.status {
        case 200:
            ledger.acknowledge(parcel, answer)
            state.withLock { state in
                if state.recent.count == 64 { state.recent.removeFirst() }
                state.recent.append(parcel)
            }
            return true
        // 408: the body was late because the server was stopped.
        case 408, 500...: return false
        default:
            report.problem("authentic notification answered \(answer.status): \(answer.text)")
            return true
        }
    }
}
