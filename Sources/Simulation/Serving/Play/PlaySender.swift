import Encoding
import Synchronization

/// Pushes the messages that are due on the store's clock, as a Pub/Sub push subscription does: at least once, in no
/// certain order, again until they are acknowledged or seven days old. A failure holds the whole subscription back.
final class PlaySender: Sendable {
    private struct State {
        var queue = PlayPushQueue()
        /// By the number of the story: when its next message is published; nil after its last one.
        var next: [Instant?]
        var sentThrough = Instant.earliest
        var deliveries: [PlayDelivery] = []
        /// Valid push tokens that are used again for some minutes.
        var tokens: [String: (second: Int64, text: String)] = [:]
    }

    private let sending: PlaySending
    private let storyteller: PlayStoryteller
    private let rendering: PlayRendering
    private let courier: Courier
    private let state: Mutex<State>

    /// A push arrives this long after its publication.
    private static let lagMilliseconds: Int64 = 50
    /// A push token is used again for this long, of the hour for which it is valid.
    private static let tokenSeconds: Int64 = 300

    init(_ sending: PlaySending, storyteller: PlayStoryteller, stories: Int, rendering: PlayRendering) {
        self.sending = sending
        self.storyteller = storyteller
        self.rendering = rendering
        courier = Courier(connections: sending.connections)
        state = Mutex(State(next: Array(repeating: .earliest, count: stories)))
    }

    /// In the order of the attempts.
    var deliveries: [PlayDelivery] { state.withLock { $0.deliveries } }

    /// The number of messages that were never delivered in seven days.
    var expired: Int { state.withLock { $0.queue.expired } }

    /// Reads the messages of a story again, because an acknowledgement has changed what follows.
    func reconsider(story: Int?) {
        guard let story else { return }
        state.withLock { $0.next[story] = .earliest }
    }

    /// When the next message is published or the next push becomes due; nil after the last one.
    func nextPush(_ store: SimulatedPlay) -> Instant? {
        let reconsidered = state.withLock { state in state.next.indices.filter { state.next[$0] == .earliest } }
        for story in reconsidered {
            let messages = store.story(story).messages
            state.withLock { state in
                let through = state.sentThrough
                state.next[story] = messages.map(\.publishTime).first { $0 > through }
            }
        }
        return state.withLock { state in
            ([state.queue.nextDue] + state.next).compactMap(\.self).min()
        }
    }

    /// Adds a message of no story.
    func add(_ content: PlayPushQueue.Content, _ kind: PlayDelivery.Kind, at instant: Instant) {
        state.withLock { $0.queue.add(content, kind, dueAt: instant) }
    }

    /// Makes all pushes that are due until the instant, those that become due by failures included. Calls run one after
    /// the other, so that pushes of earlier calls have ended when this returns.
    func sendDue(at now: Instant, _ store: SimulatedPlay) async {
        await courier.afterEarlierCalls { await self.sendAll(until: now, store) }
    }

    private func sendAll(until now: Instant, _ store: SimulatedPlay) async {
        enqueue(until: now, store)
        while true {
            let due = state.withLock { $0.queue.takeDue(at: now, atMost: max(1, sending.connections)) }
            if due.isEmpty {
                guard state.withLock({ $0.queue.isDue(at: now) }) else { return }
                continue
            }
            let outcomes = await courier.deliver(due) { await self.push($0, store) }
            let inOrder = outcomes.sorted { PlayPushQueue.Item.precedes($0.attempt, $1.attempt) }
            state.withLock { $0.queue.finish(inOrder, sending.retry) }
        }
    }

    // MARK: - The queue

    private func enqueue(until now: Instant, _ store: SimulatedPlay) {
        let (due, through) = state.withLock { state in
            (state.next.indices.filter { state.next[$0].map { $0 <= now } ?? false }, state.sentThrough)
        }
        for story in due {
            let messages = store.story(story).messages
            state.withLock { state in
                for message in messages where through < message.publishTime && message.publishTime <= now {
                    plan(message, &state.queue)
                }
                state.next[story] = messages.map(\.publishTime).first { $0 > now }
            }
        }
        state.withLock { $0.sentThrough = max($0.sentThrough, now) }
    }

    /// Draws what happens to a message by its id, so that it does not depend on the clock's steps.
    private func plan(_ message: PlayMessage, _ queue: inout PlayPushQueue) {
        var fate = SplitMix64(seed: storyteller.settings.seed, UInt64(message.messageId) ?? 0, .max - 22)
        let isLost = fate.fraction() < sending.lose
        let isRepeated = fate.fraction() < sending.duplicate
        let isForged = fate.fraction() < sending.forged
        let isDamaged = fate.fraction() < sending.malformed
        let published = message.publishTime.advanced(byMilliseconds: Self.lagMilliseconds)
        let delay = sending.delayMax / .milliseconds(1)
        func later() -> Instant { published.advanced(byMilliseconds: Int64(fate.fraction() * delay)) }
        let arrival = later()
        if !isLost { queue.add(.message(message), .message, dueAt: arrival) }
        if isRepeated, !isLost {
            let pause = Int64(fate.fraction() * 3_600_000)
            queue.add(.message(message), .duplicate, dueAt: later().advanced(byMilliseconds: pause))
        }
        if isDamaged {
            let data = Array(message.notification(rendering).prefix(40))
            let id = "2" + message.messageId.dropFirst()
            queue.add(.data(data, messageId: id, publishTime: message.publishTime), .malformed, dueAt: arrival)
        }
        if isForged, sending.isAuthenticated {
            let defect = OIDCToken.Defect.allCases.randomElement(using: &fate) ?? .forged
            let forged = PlayMessage(
                messageId: "3" + message.messageId.dropFirst(), purchaseToken: message.purchaseToken,
                eventTime: message.eventTime, content: message.content)
            queue.add(.message(forged), .forged(defect), dueAt: arrival)
        }
    }

    // MARK: - Pushes

    private func push(_ item: PlayPushQueue.Item, _ store: SimulatedPlay) async -> Bool {
        let status = await sending.post(request(item, store))
        let delivery = PlayDelivery(
            messageId: item.content.messageId, purchaseToken: item.content.purchaseToken, kind: item.kind,
            at: item.at, attempt: item.attempts + 1, status: status)
        state.withLock { $0.deliveries.append(delivery) }
        return delivery.isAcknowledged
    }

    private func request(_ item: PlayPushQueue.Item, _ store: SimulatedPlay) -> PlaySending.Request {
        var push = PlayPush(subscription: sending.subscription)
        let spellings = PlayPush.Spelling.allCases
        push.spelling = sending.spelling ?? spellings[Int(item.number % UInt64(spellings.count))]
        push.wrapping = sending.wrapping
        push.deliveryAttempt = sending.hasDeadLetterTopic ? item.attempts + 1 : nil
        var headers = [(name: "content-type", value: "application/json")]
        let body: [UInt8]
        switch item.content {
        case .message(let message):
            headers += push.headers(message)
            body = push.body(message, rendering)
        case .data(let data, let messageId, let publishTime):
            body = push.body(data: data, messageId: messageId, publishTime: publishTime)
        }
        if let token = token(item, store) { headers.append(("authorization", "Bearer \(token)")) }
        return PlaySending.Request(headers: headers, body: body)
    }

    private func token(_ item: PlayPushQueue.Item, _ store: SimulatedPlay) -> String? {
        guard sending.isAuthenticated else { return nil }
        var token = OIDCToken(audience: sending.audience, email: sending.email)
        let issuers = OIDCToken.Issuer.allCases
        token.issuer = issuers[Int(item.number / 2 % UInt64(issuers.count))]
        let keys = store.publishedKeys
        let key = keys[Int(item.number % UInt64(keys.count))]
        let second = store.second
        if case .forged(let defect) = item.kind { return token.text(key, second: second, defect: defect) }
        let name = "\(key.keyId) \(token.issuer)"
        if let known = state.withLock({ $0.tokens[name] }), (0..<Self.tokenSeconds).contains(second - known.second) {
            return known.text
        }
        guard let text = token.text(key, second: second) else { return nil }
        state.withLock { $0.tokens[name] = (second, text) }
        return text
    }
}

extension SimulatedPlay {
    /// The pushes so far, in the order of the attempts.
    package var deliveries: [PlayDelivery] { sender?.deliveries ?? [] }

    /// The number of messages that were never delivered in seven days.
    package var expiredMessages: Int { sender?.expired ?? 0 }

    /// Pushes a test message, like the button of the Play Console, at the store's time.
    package func pushTest() async {
        let now = now
        let number = String(deliveries.count)
        let id = "4" + String(repeating: "0", count: max(0, 16 - number.count)) + number
        let message = PlayMessage(messageId: id, purchaseToken: "", eventTime: now, content: .test)
        sender?.add(.message(message), .message, at: now)
        await sender?.sendDue(at: now, self)
    }

    /// Pushes any bytes in place of a notification, at the store's time.
    package func push(data: [UInt8], messageId: String) async {
        let now = now
        sender?.add(.data(data, messageId: messageId, publishTime: now), .malformed, at: now)
        await sender?.sendDue(at: now, self)
    }
}
