import Encoding
import EventLog
import Readers
import Subscriptions

/// Appends proven events that state something new.
struct NewsAppender: Sendable {
    let log: LogReader
    let subscriptions: SubscriptionReader
    let appender: Appender

    /// An event whose facts are in the log.
    struct Kept: Sendable {
        /// The `originalTransactionId`s that it names, sorted by bytes.
        let ids: [String]
        /// Those of its subscriptions that were known before, with what was known of them. A purchase of Google Play is
        /// part of a subscription, which is named after its first purchase.
        let before: [SubscriptionReader.Stored]
        /// The position of the event; nil if it stated nothing new.
        let position: Int64?
    }

    /// Appends an event if it states something new.
    ///
    /// Safe to repeat: what was appended before states nothing new.
    ///
    /// - Parameter containsReceipt: Whether Apple can be asked with the event from now on, which is news about
    ///   subscriptions without a receipt.
    /// - Parameter last: The position of the last answer about the same purchase, which the projections must have: an
    ///   answer that equals an earlier one states something new after another one. Nil if none is known.
    /// - Throws: ``ReadError``, ``AppendError``.
    func append(
        _ proven: some ProvenEvent, receivedAt: Instant, containsReceipt: Bool = false, after last: Int64? = nil
    ) async throws -> Kept {
        let ids = proven.event.subscriptions.sorted().map(\.text)
        let known = try await subscriptions.subscriptions(ids, in: proven.stream)
        let before = try await subscriptions.leading(known, in: proven.stream)
        var position: Int64?
        let isComplete = known.count == ids.count && last.map { last in before.contains { $0.has(last) } } ?? true
        if try await isNews(proven, receivedAt, isComplete: isComplete, ids, before, containsReceipt) {
            position = try await appender.append(PreparedEvent(proven, receivedAt: receivedAt)).position
        }
        return Kept(ids: ids, before: before, position: position)
    }

    /// Whether an event is to be appended: it changes what is known, or contains the first receipt of a subscription.
    ///
    /// - Parameter isComplete: Whether all that the event may change is among what was known before.
    ///
    /// If the projections lag, an event may be appended once too often, which changes nothing.
    private func isNews(
        _ proven: some ProvenEvent, _ receivedAt: Instant, isComplete: Bool, _ ids: [String],
        _ before: [SubscriptionReader.Stored], _ containsReceipt: Bool
    ) async throws -> Bool {
        // An event about no subscription states its details only, and its dedupe key shows whether the log has them.
        guard !ids.isEmpty else { return proven.event.details != nil }
        guard isComplete else { return true }
        let isChanged = before.contains { known in
            known.facts.isChanged(by: proven.event, receivedAt: receivedAt, products: known.products)
        }
        if isChanged || !containsReceipt { return isChanged }
        let positions = before.reduce(into: Set<Int64>()) { $0.formUnion($1.facts.positions) }
        let withReceipt = try await log.positionsWithReceipt(among: positions.sorted(), in: proven.stream)
        return before.contains { $0.facts.positions.isDisjoint(with: withReceipt) }
    }
}

extension SubscriptionReader.Stored {
    fileprivate func has(_ position: Int64) -> Bool { facts.positions.contains(position) }
}
