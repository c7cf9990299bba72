import Crypto
import Encoding
import Subscriptions
import Synchronization

/// The simulated App Store Server API: signed answers about the stories of a run, from the store's books.
///
/// It reads Apple's documentation for itself and shares no code with the client that it tests.
package final class SimulatedServerAPI: Sendable {
    struct State {
        var amendments = BookAmendments()
        var hours: [Budget: (hour: Int64, count: Int)] = [:]
        var plan = FaultPlan<StoreAPIFault>()
        var tally = Tally<StoreAPIQuestion>()
        var consumptions: [SimulatedConsumption] = []
        var extensions: [ExtensionKey: StoreAPIAnswer] = [:]
        var massExtensions: [ExtensionKey: MassExtension] = [:]
        /// The UUIDs of test notifications by token.
        var tests: [String: String] = [:]
        /// The number of answers about statuses that were stale, by the renewal's transaction id.
        var staleAnswers: [String: Int] = [:]
        var identifiers: Identifiers
    }

    struct Budget: Hashable {
        let host: Subscriptions.Environment
        let endpoint: StoreEndpoint
    }

    let simulation: Simulation
    let settings: Settings
    let journal: NotificationJournal
    let state: Mutex<State>
    /// Held while an extension is made, so that the same request twice at once is one.
    let extending = Mutex(())
    private let faults: StoreAPIFaults
    private let tokens: TokenCheck
    /// Another store's.
    private let otherSigner: JWSSigner

    /// Above the number of every story, so that these ids are no story's.
    private static let ownStory = 60_000_000

    /// - Parameter faults: The fraction of requests with a fault, 0 to 1.
    init(_ simulation: Simulation, faults: Double, _ settings: Settings) {
        self.simulation = simulation
        self.settings = settings
        self.faults = StoreAPIFaults(draw: FaultDraw(seed: simulation.settings.seed, fraction: faults))
        journal = NotificationJournal(simulation)
        tokens = TokenCheck(key: settings.key, bundleId: simulation.settings.app.bundleId)
        var shape = TestCertificates.Shape()
        shape.label = "another make-believe store"
        otherSigner = JWSSigner(TestCertificates(shape))
        state = Mutex(
            State(
                identifiers: Identifiers(
                    seed: simulation.settings.seed, index: Self.ownStory, subscription: 0)))
    }

    var app: SimulatedApp { simulation.settings.app }

    /// Gives the next requests a fault, whatever they ask.
    package func inject(_ fault: StoreAPIFault, requests: Int = 1) {
        state.withLock { $0.plan.inject(fault, requests: requests) }
    }

    /// Takes back the faults that no request has had yet.
    package func withdrawFaults() {
        state.withLock { $0.plan.withdraw() }
    }

    /// The requests by endpoint, id and answer, in the order of their first ones.
    package var counts: [Tally<StoreAPIQuestion>.Entry] { state.withLock { $0.tally.entries } }

    /// What the app's server said about consumption, in the order of the requests.
    package var consumptions: [SimulatedConsumption] { state.withLock { $0.consumptions } }

    /// Every notification that the store has made at the instant, with the attempts to send it, ordered by signing time.
    package func notifications(at instant: Instant) -> [SimulatedNotification] { journal.notifications(at: instant) }
}

// MARK: - Requests

extension SimulatedServerAPI {
    func reaction(
        to call: StoreAPICall, at now: Instant, deleted: Set<SimulatedAccount.Key>
    ) -> SimulatedStore.Reaction {
        let match = StoreEndpoint.matching(call.method, call.path)
        let fault = nextFault(call, match?.endpoint, match?.parameters.first, at: now)
        var question = StoreAPIQuestion(
            host: call.host, endpoint: match?.endpoint, id: match?.parameters.first, fault: fault?.name)
        guard fault != .dropped else {
            count(question, at: now)
            return .closed
        }
        let request = match.map {
            StoreAPIRequest(
                call: call, endpoint: $0.endpoint, parameters: $0.parameters, now: now, deleted: deleted, fault: fault)
        }
        let (response, errorCode) = self.response(to: call, request, at: now, fault)
        question.status = response.status
        question.errorCode = errorCode
        count(question, at: now)
        return .response(response)
    }

    private func nextFault(
        _ call: StoreAPICall, _ endpoint: StoreEndpoint?, _ id: String?, at now: Instant
    ) -> StoreAPIFault? {
        let subject = "\(endpoint?.rawValue ?? "") \(id ?? "")"
        let (injected, number) = state.withLock { $0.plan.next(about: subject) }
        return injected ?? faults.fault(at: now, host: call.host, subject: subject, number: number)
    }

    private func count(_ question: StoreAPIQuestion, at instant: Instant) {
        state.withLock { $0.tally.add(question, at: instant) }
    }

    /// - Parameter request: Nil for a path or a method that Apple does not have.
    private func response(
        to call: StoreAPICall, _ request: StoreAPIRequest?, at now: Instant, _ fault: StoreAPIFault?
    ) -> (SimulatedStore.Response, errorCode: Int?) {
        switch fault {
        case .overloaded: return (.page(status: 503, "503 Service Unavailable"), nil)
        case .errorPage: return (.page(status: 500, "500 Internal Server Error"), nil)
        case .unauthorized(let hasText): return (.unauthorized(hasText: hasText), nil)
        default: break
        }
        guard settings.isReleased || call.host != .production,
            tokens.accepts(call.authorization, at: settings.tokenClock?() ?? now)
        else { return (.unauthorized(hasText: true), nil) }
        guard let request, request.endpoint.exists(on: call.host) else {
            return (.page(status: 404, "404 Not Found"), nil)
        }
        if let retryAfter = spend(request) {
            return (.error(.rateLimit, retryAfter: retryAfter.text), StoreAPIError.rateLimit.code)
        }
        do throws(StoreAPIError) {
            if case .error(let code) = fault { throw StoreAPIError(code, "A simulated error.") }
            if case .errorWithCharset(let code) = fault { throw StoreAPIError(code, "A simulated error.") }
            return (.answer(try answer(request), fault), nil)
        } catch {
            var response = SimulatedStore.Response.error(error)
            if case .errorWithCharset = fault { response.contentType = "application/json;charset=utf-8" }
            return (response, error.code)
        }
    }

    private func answer(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        switch request.endpoint {
        case .transactionInfo: try transactionInfo(request)
        case .history: try history(request)
        case .statuses: try statuses(request)
        case .refundHistory: try refundHistory(request)
        case .orderLookup: try orderLookup(request)
        case .notificationHistory: try notificationHistory(request)
        case .testNotification: try testNotification(request)
        case .testNotificationStatus: try testNotificationStatus(request)
        case .consumption: try consumption(request)
        case .consumptionV1: try consumptionV1(request)
        case .accountToken: try setAccountToken(request)
        case .extend: try extend(request)
        case .extendAll: try extendAll(request)
        case .extendAllStatus: try extendAllStatus(request)
        }
    }

    /// Counts a request of the endpoint's hour.
    ///
    /// - Returns: The value of `Retry-After` if the hour has no request left; nil if it has one.
    private func spend(_ request: StoreAPIRequest) -> RetryAfterValue? {
        let host = request.call.host
        guard let limit = settings.hourlyLimits[request.endpoint] ?? request.endpoint.hourlyLimit(host) else {
            return nil
        }
        let hour = request.now.milliseconds / 3_600_000
        let isAllowed = state.withLock { state -> Bool in
            let budget = Budget(host: host, endpoint: request.endpoint)
            let spent = state.hours[budget].map { $0.hour == hour ? $0.count : 0 } ?? 0
            guard spent < limit else { return false }
            state.hours[budget] = (hour, spent + 1)
            return true
        }
        guard !isAllowed else { return nil }
        let next = (hour + 1) * 3_600_000
        let text: String? =
            switch settings.retryAfter {
            case .milliseconds: String(next)
            case .seconds: String(next / 1000)
            case .secondsToWait: String((next - request.now.milliseconds + 999) / 1000)
            case .past: String(request.now.milliseconds - 60_000)
            case .missing: nil
            }
        return RetryAfterValue(text: text)
    }
}

/// The header of a refused request; its text is nil if the header is missing.
private struct RetryAfterValue {
    let text: String?
}

/// A request of an endpoint, at an instant.
struct StoreAPIRequest: Sendable {
    let call: StoreAPICall
    let endpoint: StoreEndpoint
    /// The ids in the path.
    let parameters: [String]
    let now: Instant
    /// The Apple Accounts that no longer exist.
    let deleted: Set<SimulatedAccount.Key>
    /// Changes the answer.
    let fault: StoreAPIFault?

    var id: String { parameters.first ?? "" }
}

// MARK: - Ids and signatures

extension SimulatedServerAPI {
    /// Finds the Apple Account of the id in the request's path.
    func find(_ request: StoreAPIRequest) throws(StoreAPIError) -> SimulatedLookup {
        try find(request.id, request)
    }

    func find(_ id: String, _ request: StoreAPIRequest) throws(StoreAPIError) -> SimulatedLookup {
        guard (1...20).contains(id.utf8.count), id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw .transactionId
        }
        guard request.call.host == app.environment, let found = simulation.lookup(id, at: request.now),
            found.knownSince.advanced(by: settings.newIdDelay) <= request.now
        else { throw .transactionNotFound }
        guard !request.deleted.contains(found.account.key) else { throw .accountNotFound }
        return settings.joinsFamilies ? simulation.joiningFamily(found) : found
    }

    var amendments: BookAmendments { state.withLock { $0.amendments } }

    /// The app in signed answers.
    private func shownApp(_ fault: StoreAPIFault?) -> SimulatedApp {
        var shown = app
        if fault == .otherApp { shown.bundleId += ".other" }
        if fault == .otherEnvironment { shown.environment = app.environment == .production ? .sandbox : .production }
        return shown
    }

    func sign(_ transaction: SimulatedTransaction, _ request: StoreAPIRequest) -> String {
        sign(transaction.payload(app: shownApp(request.fault), signedDate: request.now), request.fault)
    }

    func signRenewalInfo(of status: SimulatedStatus, _ request: StoreAPIRequest) -> String {
        sign(status.renewalInfo(app: shownApp(request.fault), signedDate: request.now).json, request.fault)
    }

    private func sign(_ payload: [UInt8], _ fault: StoreAPIFault?) -> String {
        let signer = fault == .otherRoot ? otherSigner : simulation.signer
        let signed = String(decoding: signer.sign(payload), as: UTF8.self)
        guard fault == .unsigned, let dot = signed.lastIndex(of: ".") else { return signed }
        // A signature of 64 bytes that are zero.
        return signed[...dot] + String(repeating: "A", count: 86)
    }

    /// Writes the members that most answers have.
    func writeApp(to writer: inout JSONWriter) {
        writer.member("environment", app.environmentName)
        writer.member("bundleId", app.bundleId)
        writer.member("appAppleId", app.appAppleId)
    }

    /// A mark of texts, to bind a revision or a token to its request.
    static func mark(_ texts: [String]) -> String {
        let digest = SHA256.hash(data: Array(texts.joined(separator: "\n").utf8))
        return String(Hex.text(Array(digest)).prefix(16))
    }
}
