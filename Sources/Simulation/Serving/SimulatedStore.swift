import Crypto
import Encoding
import Subscriptions
import Synchronization

/// A simulated App Store with a clock that its users set. It answers receipts and requests of the App Store Server API
/// about the stories of a run, counts the requests, and sends the notifications.
///
/// Answers depend on the run, on the clock, on the deleted accounts, on earlier requests that change something, and on
/// faults only.
package final class SimulatedStore: Sendable {
    /// What happens to a request.
    package enum Reaction: Sendable, Hashable {
        case response(Response)
        /// The connection is closed without a response.
        case closed
    }

    package struct Response: Sendable, Hashable {
        package let status: Int
        /// Nil for a response without a body.
        package var contentType: String?
        package let body: [UInt8]
        /// Sent long after the request.
        package var isSlow = false
        /// The header of this name.
        package var retryAfter: String?
    }

    private struct State {
        var now: Instant
        var deleted: Set<SimulatedAccount.Key> = []
        var plan = FaultPlan<StoreFault>()
        var tally = Tally<StoreQuestion>()
    }

    private let simulation: Simulation
    private let faults: StoreFaults
    /// The delay of a slow response.
    let slowness: Duration
    /// The App Store Server API of the store.
    package let api: SimulatedServerAPI
    /// Nil if the store sends no notifications.
    private let sender: NotificationSender?
    private let unwrap: @Sendable ([UInt8]) -> [UInt8]?
    private let state: Mutex<State>

    /// - Parameters:
    ///   - now: The clock's first instant; nil for the end of all stories.
    ///   - faults: The fraction of requests with a fault, 0 to 1.
    ///   - unwrap: Returns the receipt that a signed container has, which is answered for it; nil if it is none.
    package init(
        _ simulation: Simulation, now: Instant? = nil, faults: Double = 0, slowness: Duration = .seconds(60),
        api settings: SimulatedServerAPI.Settings = .init(),
        unwrap: @escaping @Sendable ([UInt8]) -> [UInt8]? = { _ in nil }
    ) {
        self.simulation = simulation
        self.unwrap = unwrap
        self.faults = StoreFaults(seed: simulation.settings.seed, fraction: faults)
        self.slowness = slowness
        let api = SimulatedServerAPI(simulation, faults: faults, settings)
        self.api = api
        sender = settings.sending.map {
            NotificationSender(
                api.journal, $0, seed: simulation.settings.seed, environment: simulation.settings.app.environment)
        }
        state = Mutex(State(now: now ?? Simulation.end))
    }

    /// The simulated clock, which stands still until it is set. Setting it sends nothing; see ``setClock(_:)``.
    package var now: Instant {
        get { state.withLock { $0.now } }
        set { state.withLock { $0.now = newValue } }
    }

    /// Sets the clock, and sends the notifications that have become due. Returns when each was answered.
    package func setClock(_ instant: Instant) async {
        now = instant
        await sendNotifications()
    }

    /// Sends the notifications that are due, if the store sends any. Returns when each was answered.
    package func sendNotifications() async { await sender?.sendDue(at: now) }

    /// Every notification that the store has made until now, with the attempts to send it.
    package var notifications: [SimulatedNotification] { api.notifications(at: now) }

    /// The requests by receipt and answer, in the order of their first ones.
    package var counts: [Tally<StoreQuestion>.Entry] { state.withLock { $0.tally.entries } }

    /// Deletes the Apple Account that has the subscription. Its receipts are answered with status 21010.
    ///
    /// - Returns: False if no account of the run has it.
    package func deleteAccount(of originalTransactionId: String) -> Bool {
        guard let story = Identifiers.story(of: originalTransactionId, seed: simulation.settings.seed),
            (0..<simulation.settings.subscriptions).contains(story)
        else { return false }
        let account = simulation.storyteller.accounts(ofStory: story).first {
            $0.subscriptions.contains { $0.originalTransactionId == originalTransactionId }
        }
        guard let account else { return false }
        state.withLock { _ = $0.deleted.insert(account.key) }
        return true
    }

    /// Gives the next requests a fault, whatever they ask.
    package func inject(_ fault: StoreFault, requests: Int = 1) {
        state.withLock { $0.plan.inject(fault, requests: requests) }
    }

    /// Takes back the faults that no request has had yet.
    package func withdrawFaults() {
        state.withLock { $0.plan.withdraw() }
    }
}

// MARK: - Requests

extension SimulatedStore {
    /// - Parameter body: The body of a POST; nil for any other method.
    package func reaction(to body: [UInt8]?, host: Subscriptions.Environment) -> Reaction {
        let body = body.map(unwrapped)
        let receipt = body.flatMap { VerifyReceipt.receipt(in: $0) }.map { Hex.text(Array(SHA256.hash(data: $0))) }
        let (now, deleted, injected) = state.withLock { ($0.now, $0.deleted, $0.plan.next()) }
        let number = receipt.flatMap { UInt64($0.prefix(16), radix: 16) } ?? 0
        let fault = injected ?? faults.fault(at: now, host: host, receipt: number)
        var question = StoreQuestion(host: host, receipt: receipt, fault: fault?.name)
        switch fault {
        case .dropped:
            count(question, at: now)
            return .closed
        case .overloaded:
            count(question, at: now)
            let page = "<html><body><h1>503 Service Unavailable</h1></body></html>\n"
            return .response(
                Response(status: 503, contentType: "text/html", body: Array(page.utf8)))
        case .slow, .status, .cutOff, .markedAsHTML, .padded, .withoutPurchases, nil:
            let answer = simulation.verifyReceipt.answer(
                to: body, host: host, at: now, deleted: deleted, fault: fault)
            question.status = answer.status
            question.subscriptions =
                answer.account.flatMap { simulation.storyteller.account($0) }?.subscriptions
                .map(\.originalTransactionId) ?? []
            count(question, at: now)
            return .response(
                Response(
                    status: 200, contentType: fault == .markedAsHTML ? "text/html" : "application/json",
                    body: answer.body, isSlow: fault == .slow))
        }
    }

    private func unwrapped(_ body: [UInt8]) -> [UInt8] {
        guard let receipt = VerifyReceipt.receipt(in: body), let inner = unwrap(receipt) else { return body }
        let text = String(decoding: body, as: UTF8.self)
        return Array(text.replacing(Base64.text(receipt), with: Base64.text(inner)).utf8)
    }

    /// Answers a request of the App Store Server API.
    package func reaction(to call: StoreAPICall) -> Reaction {
        let (now, deleted) = state.withLock { ($0.now, $0.deleted) }
        return api.reaction(to: call, at: now, deleted: deleted)
    }

    private func count(_ question: StoreQuestion, at instant: Instant) {
        state.withLock { $0.tally.add(question, at: instant) }
    }
}
