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
        let news = NewsAppender(log: log, subscriptions: subscriptions, appender: appender)
        let kept = try await news.append(verified, receivedAt: verified.receivedAt, containsReceipt: true)
        return .success(Kept(verified: verified, ids: kept.ids, before: kept.before, position: kept.position))
    }
}
