import AppStore
import EventLog
import Readers
import Subscriptions

/// Stores Apple's answers about receipts: appends what they state, if it is news.
struct AnswerStore: Sendable {
    let apps: Apps
    let log: LogReader
    let subscriptions: SubscriptionReader
    let appender: Appender

    /// A genuine answer, whose facts are in the log.
    struct Kept: Sendable {
        let verified: VerifiedReceipt
        /// The `originalTransactionId`s that it names, sorted by bytes.
        let ids: [String]
        /// Those of its subscriptions that were known before, with what was known of them.
        let before: [SubscriptionReader.Stored]
        /// The position of the event that it became; nil if it stated nothing new.
        let position: Int64?
    }

    /// Verifies an answer and appends it if it states something new.
    ///
    /// Safe to repeat: what was appended before states nothing new.
    ///
    /// - Parameters:
    ///   - known: The `originalTransactionId`s known by the receipt, for an answer that the account was deleted.
    ///   - stream: The stream to which the answer must belong; nil if any of the app's will do.
    /// - Returns: Failure if the answer is not a fact about the app.
    /// - Throws: ``ReadError``, ``AppendError``.
    func store(
        _ answer: AnswerFromApple, of app: String, known: [String], in stream: StreamKey? = nil
    ) async throws -> Result<Kept, ReceiptRefusal> {
        let verified: VerifiedReceipt
        do throws(ReceiptRefusal) {
            verified = try apps.verify(answer, of: app, subscriptions: known)
        } catch {
            return .failure(error)
        }
        if let stream, stream != verified.stream { return .failure(.wrongEnvironment) }
        let ids = verified.event.subscriptions.sorted().map(\.text)
        let before = try await subscriptions.subscriptions(ids, in: verified.stream)
        var position: Int64?
        if try await isNews(verified, ids, before) {
            let event = PreparedEvent(verified, receivedAt: verified.receivedAt)
            position = try await appender.append(event).position
        }
        return .success(Kept(verified: verified, ids: ids, before: before, position: position))
    }

    /// Whether an answer is to be appended: it changes what is known, or it is the first receipt of a subscription, with
    /// which Apple can be asked from now on.
    ///
    /// If the projections lag, an answer may be appended once too often, which changes nothing.
    private func isNews(
        _ verified: VerifiedReceipt, _ ids: [String], _ before: [SubscriptionReader.Stored]
    ) async throws -> Bool {
        guard before.count == ids.count else { return true }
        let isChanged = before.contains { known in
            known.facts.isChanged(
                by: verified.event, receivedAt: verified.receivedAt, products: known.products)
        }
        if isChanged { return true }
        let positions = before.reduce(into: Set<Int64>()) { $0.formUnion($1.facts.positions) }
        let withReceipt = try await log.positionsWithReceipt(among: positions.sorted(), in: verified.stream)
        return before.contains { $0.facts.positions.isDisjoint(with: withReceipt) }
    }
}
