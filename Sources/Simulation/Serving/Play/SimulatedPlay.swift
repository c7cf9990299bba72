import Encoding
import Synchronization

/// A simulated Google Play with a clock that its users set: the token endpoint, the keys of push tokens, the Google Play
/// Developer API over the books of its stories, and a Pub/Sub push subscription.
///
/// It reads Google's documentation for itself and shares no code with the client that it tests. Answers depend on the
/// stories, the clock, earlier acknowledgements and faults only.
package final class SimulatedPlay: Sendable {
    /// What happens to a request.
    package enum Reaction: Sendable, Hashable {
        case response(PlayResponse)
        /// The connection is closed without a response.
        case closed
    }

    /// A purchase that the app's server acknowledged.
    package struct Acknowledgement: Sendable, Hashable {
        package let purchaseToken: String
        package let at: Instant
        /// It was acknowledged before, by the app or its server.
        package let isRepeated: Bool
        /// The app user whom the server named with it.
        package let account: PlayAccount
    }

    /// What the developer answered about a charge-back.
    package struct RefundReview: Sendable, Hashable {
        package let orderId: String
        package let pendingRefundToken: String
        package let body: [UInt8]
        package let at: Instant
    }

    struct State {
        var now: Instant
        var tokens: PlayTokenEndpoint
        var quota: PlayQuota
        /// By the number of the story. Also the first answers by which alone an end can be dated, see ``PlayLife/endKey(of:)``.
        var acknowledged: [Int: [String: Instant]] = [:]
        var acknowledgements: [Acknowledgement] = []
        /// The app users of purchases outside the app, as their acknowledgements named them, by purchase token.
        var namedAccounts: [String: PlayAccount] = [:]
        var refundReviews: [RefundReview] = []
        /// Purchase tokens of deleted Google accounts.
        var deleted: Set<String> = []
        var plan = FaultPlan<PlayFault>()
        var tally = Tally<PlayQuestion>()
        /// The number of stale answers, by purchase token and change.
        var staleAnswers: [String: Int] = [:]
        /// How often the keys of push tokens were exchanged.
        var keyRotation = 0
        var areKeysAway = false
        var keyRequests = 0
        /// The voids by the number of the story, as far as they have been needed.
        var voids: [Int: [PlayVoid]] = [:]
    }

    package let storyteller: PlayStoryteller
    /// The number of stories.
    package let storyCount: Int
    package let settings: Settings
    private let faults: PlayFaults
    let state: Mutex<State>
    /// By the number of the story.
    private let told = Mutex<[Int: Told]>([:])
    /// Nil if the store pushes no messages.
    let sender: PlaySender?

    /// - Parameter now: The clock's first instant; nil for the end of all stories.
    package init(
        _ storyteller: PlayStoryteller, stories storyCount: Int, now: Instant? = nil, _ settings: Settings
    ) {
        self.storyteller = storyteller
        self.storyCount = storyCount
        self.settings = settings
        faults = PlayFaults(draw: FaultDraw(seed: storyteller.settings.seed, fraction: settings.faults))
        state = Mutex(
            State(
                now: now ?? Simulation.end, tokens: PlayTokenEndpoint(settings.tokens),
                quota: PlayQuota(settings.quota)))
        sender = settings.sending.map {
            PlaySender($0, storyteller: storyteller, stories: storyCount, rendering: settings.rendering)
        }
    }

    /// The simulated clock, which stands still until it is set. Setting it pushes nothing; see ``setClock(_:)``.
    package var now: Instant {
        get { state.withLock { $0.now } }
        set { state.withLock { $0.now = newValue } }
    }

    /// Sets the clock, and pushes the messages that have become due. Returns when each was answered.
    package func setClock(_ instant: Instant) async {
        now = instant
        await sender?.sendDue(at: instant, self)
    }

    /// When the next push becomes due, or is drawn; nil after the last one.
    package var nextPush: Instant? { sender?.nextPush(self) }

    /// The story with this number, with what was acknowledged until now.
    package func story(_ number: Int) -> RenderedPlayStory {
        let acknowledged = state.withLock { $0.acknowledged[number] ?? [:] }
        if let known = told.withLock({ $0[number] }), known.acknowledged == acknowledged { return known.story }
        let story = storyteller.story(at: number, acknowledged: acknowledged)
        told.withLock { told in
            if told.count >= Self.toldMax { told = [:] }
            told[number] = Told(acknowledged: acknowledged, story: story)
        }
        return story
    }

    /// A story as it was told last: most requests are about one that was told before, and of a long one it takes time.
    private struct Told: Sendable {
        let acknowledged: [String: Instant]
        let story: RenderedPlayStory
    }

    private static let toldMax = 256

    /// Gives the next requests of the API a fault, whatever they ask.
    package func inject(_ fault: PlayFault, requests: Int = 1) {
        state.withLock { $0.plan.inject(fault, requests: requests) }
    }

    /// Deletes the Google account that has the purchase. Its tokens are answered with 410.
    package func deleteAccount(of purchaseToken: String) {
        state.withLock { _ = $0.deleted.insert(purchaseToken) }
    }

    /// The requests by endpoint, id and answer, in the order of their first ones.
    package var counts: [Tally<PlayQuestion>.Entry] { state.withLock { $0.tally.entries } }

    /// In the order of the requests.
    package var acknowledgements: [Acknowledgement] { state.withLock { $0.acknowledgements } }

    /// The answers about charge-backs that count, in the order of the requests: the first to each question.
    package var refundReviews: [RefundReview] { state.withLock { $0.refundReviews } }

    /// When the app's server acknowledged purchases first, by the number of the story and by purchase token. Also the first
    /// answers by which alone an end can be dated, see ``PlayLife/endKey(of:)``.
    package var acknowledged: [Int: [String: Instant]] { state.withLock { $0.acknowledged } }

    /// Forgets the answers by which alone an end can be dated, of a time that the server has lost.
    package func forgetEnds(in lost: (Instant) -> Bool) {
        state.withLock { state in
            let mark = PlayLife.endKey(of: "")
            for (story, instants) in state.acknowledged {
                state.acknowledged[story] = instants.filter { !$0.key.hasSuffix(mark) || !lost($0.value) }
            }
        }
    }

    package var quota: PlayQuota { state.withLock { $0.quota } }

    /// Changes the token endpoint.
    package func changeTokenEndpoint(_ change: (inout PlayTokenEndpoint) -> Void) {
        state.withLock { change(&$0.tokens) }
    }

    package var tokenCounts: [String: Int] { state.withLock { $0.tokens.counts } }

    private func isOut(at instant: Instant) -> Bool { settings.outage?.contains(instant) ?? false }

    /// The time of access tokens and push tokens, in seconds since 1970.
    var second: Int64 { settings.tokenClock?() ?? now.milliseconds / 1000 }
}

// MARK: - Tokens and keys

extension SimulatedPlay {
    /// Answers a POST to the token endpoint.
    package func tokenResponse(contentType: String?, body: [UInt8]) -> PlayResponse {
        guard !isOut(at: now) else { return .page(503, "Service Unavailable") }
        let second = second
        return state.withLock { $0.tokens.response(contentType: contentType, body: body, atSecond: second) }
    }

    /// The keys of push tokens that are published, oldest first.
    package var publishedKeys: [RSATestKey] {
        let rotation = state.withLock { $0.keyRotation }
        return (0..<2).map { RSATestKeys.push[(rotation + $0) % RSATestKeys.push.count] }
    }

    /// Withdraws the oldest key of push tokens and publishes a new one.
    package func rotateKeys() { state.withLock { $0.keyRotation += 1 } }

    /// Whether the keys are unreachable: answered with 503.
    package var areKeysAway: Bool {
        get { state.withLock { $0.areKeysAway } }
        set { state.withLock { $0.areKeysAway = newValue } }
    }

    package var keyRequests: Int { state.withLock { $0.keyRequests } }

    /// The keys of push tokens as a JSON Web Key set.
    package func keysResponse() -> PlayResponse {
        let isAway = state.withLock { state in
            state.keyRequests += 1
            return state.areKeysAway
        }
        guard !isAway else { return .page(503, "Service Unavailable") }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("keys")
            writer.array(publishedKeys) { $1.writeJWK(to: &$0) }
        }
        var response = PlayResponse.json(writer.bytes)
        response.cacheControl = "public, max-age=\(settings.keysMaxAgeSeconds), must-revalidate, no-transform"
        return response
    }
}

// MARK: - Requests

/// A request of an endpoint, at an instant.
struct PlayRequest: Sendable {
    let call: PlayCall
    let match: PlayEndpoint.Match
    let now: Instant
    /// Whether the answer can be read.
    var isReadable = true

    var id: String { match.id }
}

extension SimulatedPlay {
    /// Answers a request of the API.
    package func reaction(to call: PlayCall) -> Reaction {
        let now = now
        let match = PlayEndpoint.matching(call.method, Array(call.path.dropFirst()))
        let subject = "\(match?.endpoint.rawValue ?? "") \(match?.id ?? "")"
        let (injected, number) = state.withLock { $0.plan.next(about: subject) }
        let drawn = isOut(at: now) ? PlayFault.unavailable : faults.fault(at: now, subject: subject, number: number)
        let fault = injected ?? drawn
        var question = PlayQuestion(endpoint: match?.endpoint, id: match?.id ?? "", fault: fault?.name)
        guard fault != .dropped else {
            count(question, at: now)
            return .closed
        }
        let request = match.map { PlayRequest(call: call, match: $0, now: now) }
        let (response, reason) = self.response(to: call, request, fault)
        question.status = response.status
        question.reason = reason
        count(question, at: now)
        return .response(response)
    }

    private func count(_ question: PlayQuestion, at instant: Instant) {
        state.withLock { $0.tally.add(question, at: instant) }
    }

    private func response(
        to call: PlayCall, _ request: PlayRequest?, _ fault: PlayFault?
    ) -> (PlayResponse, reason: String?) {
        switch fault {
        case .unavailable: return (.page(503, "The service is currently unavailable."), nil)
        case .emptyError: return (PlayResponse(status: 500, contentType: nil), nil)
        case .backend(let isSlow):
            var response = PlayResponse.error(.backend)
            response.isSlow = isSlow
            return (response, PlayError.backend.reason)
        case .error(let error): return (.error(error), error.reason)
        case .quota(let form, let retryAfter):
            return (.error(.quota(form), retryAfter: retryAfter), PlayError.quota(form).reason)
        case .dropped, .slow, .cutOff, nil: break
        }
        do throws(PlayError) {
            try authorize(call)
            guard var request else { throw .notFound }
            request.isReadable = fault != .cutOff
            if let refusal = state.withLock({ $0.quota.spend(request.match.endpoint, at: request.now) }) {
                let error = PlayError.quota(refusal.form)
                return (.error(error, retryAfter: refusal.retryAfter), error.reason)
            }
            var response = try answer(request)
            response.isSlow = fault == .slow
            if fault == .cutOff { response.body = Array(response.body.prefix(response.body.count / 2)) }
            return (response, nil)
        } catch {
            return (.error(error), error.reason)
        }
    }

    private func authorize(_ call: PlayCall) throws(PlayError) {
        guard let authorization = call.authorization, authorization.hasPrefix("Bearer ") else { throw .login }
        let second = second
        let isValid = state.withLock { $0.tokens.accepts(authorization.dropFirst("Bearer ".count), atSecond: second) }
        guard isValid else { throw .credentials }
        guard call.path.first == settings.rendering.packageName else { throw .otherDeveloper }
    }

    private func answer(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        switch request.match.endpoint {
        case .subscriptionV2: try subscriptionV2(request)
        case .subscription: try subscription(request)
        case .productV2: try productV2(request)
        case .product: try product(request)
        case .acknowledgeSubscription: try acknowledgeSubscription(request)
        case .acknowledgeProduct: try acknowledgeProduct(request)
        case .consumeProduct: try acknowledgeProduct(request)
        case .voidedPurchases: try voidedPurchases(request)
        case .order: try order(request)
        case .orders: try orders(request)
        case .reviewRefund: try reviewRefund(request)
        }
    }
}
