import Encoding

/// A ledger in memory, with the same rules for repeats and the same fold as the database's.
package struct MemoryLedger: Sendable {
    /// An app in an environment, as named in a body; a body may name no app.
    package struct Stream: Hashable, Sendable, Comparable {
        package let app: String?
        package let environment: Environment

        package init(app: String?, environment: Environment) {
            self.app = app
            self.environment = environment
        }

        package static func < (left: Stream, right: Stream) -> Bool {
            (left.app ?? "", left.environment.rawValue) < (right.app ?? "", right.environment.rawValue)
        }
    }

    private struct Content {
        var stored: [DedupeKey: (position: Int64, receivedAt: Instant)] = [:]
        /// The times of the first event of each key: a later one with the same bytes states nothing new.
        var firstTimes: [DedupeKey: (receivedAt: Instant, occurredAt: Instant?)] = [:]
        /// The position of the last event about each subscription.
        var subscriptionHeads: [ByteString: Int64] = [:]
        var head: Int64 = 0
        var subscriptions: [String: SubscriptionFacts] = [:]
        var holders = TransactionHolders()

        /// The position of the event that this one repeats; nil if it is new.
        func position(ofRepeated event: Event, receivedAt: Instant) -> Int64? {
            guard let known = stored[event.dedupeKey] else { return nil }
            if event.hasUniqueKey { return known.position }
            guard receivedAt <= known.receivedAt.advanced(by: Event.repeatAgeMax),
                event.subscriptions.allSatisfy({ subscriptionHeads[$0] ?? 0 <= known.position })
            else { return nil }
            return known.position
        }
    }

    private var streams: [Stream: Content] = [:]

    package init() {}

    /// Appends an event and returns its position; for a repeat, returns the position of the first one and changes
    /// nothing.
    @discardableResult
    package mutating func append(_ event: Event, receivedAt: Instant) -> Int64 {
        let stream = Stream(app: event.app, environment: event.environment)
        var content = streams.removeValue(forKey: stream) ?? Content()
        defer { streams[stream] = content }
        if let known = content.position(ofRepeated: event, receivedAt: receivedAt) { return known }
        content.head += 1
        let position = content.head
        content.stored[event.dedupeKey] = (position, receivedAt)
        for subscription in event.subscriptions { content.subscriptionHeads[subscription] = position }
        let times = content.firstTimes[event.dedupeKey] ?? (receivedAt, event.occurredAt)
        content.firstTimes[event.dedupeKey] = times
        let companion = event.facts.companion
        for (id, facts) in event.facts.bySubscription.sorted(by: { ByteString($0.key) < ByteString($1.key) }) {
            let stated = StatedFacts(facts, about: id)
            let line = content.subscriptions.join(id, with: stated, position: position)
            content.subscriptions.change(line, position: position) { subscription in
                subscription.fold(
                    stated, occurredAt: times.occurredAt, receivedAt: times.receivedAt, position: position,
                    companion: companion)
            }
            content.subscriptions.shareTransactions(
                of: stated, in: id, among: &content.holders, position: position)
        }
        return position
    }

    /// The facts of a stream by subscription. Purchases that continue another one have an entry without facts.
    package func facts(of stream: Stream) -> [String: SubscriptionFacts] { streams[stream]?.subscriptions ?? [:] }

    package var allStreams: [Stream] { streams.keys.sorted() }

    /// The state of every subscription, sorted by app, environment and id. Several purchases of Google that continue each
    /// other are one.
    ///
    /// - Parameter products: The configured products, by bundle id.
    package func subscriptions(
        products: [String: ProductCatalog]
    ) -> [(stream: Stream, subscription: Subscription)] {
        streams.sorted { $0.key < $1.key }.flatMap { stream, content in
            content.subscriptions.filter { $0.value.line == nil }.sorted { $0.key < $1.key }.map { _, facts in
                (stream, Subscription(facts, products: stream.app.flatMap { products[$0] } ?? .empty))
            }
        }
    }
}
