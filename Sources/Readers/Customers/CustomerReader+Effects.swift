import Encoding
import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// What an event changed of a subscription.
    package struct Effect: Sendable {
        /// By the events before it; nil if it is the first one about the subscription.
        package let before: Subscription?
        /// By the same events and this one.
        package let after: Subscription

        package init(before: Subscription?, after: Subscription) {
            self.before = before
            self.after = after
        }
    }

    /// What an event changed, in byte order of the subscriptions. Events after it do not count.
    ///
    /// Folds the events of the store account again. Nil if there are more than ``Limits/eventsShownMax``,
    /// or if the projections know nothing of the subscription.
    ///
    /// - Parameter id: One of the subscriptions that the event is about.
    package func effects(
        of position: Int64, on id: String, in stream: StreamKey
    ) async throws(ReadError) -> [Effect]? {
        try await reading {
            let reference = Reference(app: stream.app, environment: stream.environment, id: id, kind: .subscription)
            let apps = try await knowledge(around: reference, knownAt: nil)
            guard let known = apps.joined().first(where: { $0.app == stream.app }) else { return nil }
            let ids = Set(known.facts.map(\.originalTransactionId))
            let positions = Set(known.facts.flatMap(\.positions)).filter { $0 <= position }.sorted()
            guard positions.last == position, positions.count <= Limits.eventsShownMax else { return nil }
            var folded: [String: SubscriptionFacts] = [:]
            var before: [String: SubscriptionFacts] = [:]
            var holders = TransactionHolders()
            for event in try await events(positions, known.streamId, .latest) {
                if event.position == position { before = folded }
                event.about { ids.contains($0) }.fold(into: &folded, among: &holders)
            }
            func subscription(_ facts: SubscriptionFacts?) -> Subscription? {
                facts.flatMap { $0.line == nil ? Subscription($0, products: known.products) : nil }
            }
            return folded.values.filter { $0.positions.contains(position) }
                .sorted { ByteString($0.originalTransactionId) < ByteString($1.originalTransactionId) }
                .compactMap { facts in
                    subscription(facts).map { after in
                        Effect(before: subscription(before[facts.originalTransactionId]), after: after)
                    }
                }
        }
    }
}
