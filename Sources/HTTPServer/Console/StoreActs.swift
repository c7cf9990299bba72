import EventLog
import Subscriptions

/// Questions to the stores and changes there that people ask for in the console.
package protocol StoreActs: Sendable {
    /// The stores that can be asked about an app.
    func stores(of app: String) -> Set<RefundRequest.Store>
    /// What Google's answer about a purchase says of its state, to which a deferral refers; nil if there is no answer.
    func etag(of purchaseToken: String, app: String) async -> String?
    /// The apps whose store can be asked about an order, sorted.
    func apps(for number: OrderNumber) -> [String]
    /// Asks for the purchases of an order, and stores what is answered.
    ///
    /// - Parameter app: One of ``apps(for:)``.
    /// - Throws: ``ReadError``, ``AppendError``.
    func find(_ number: OrderNumber, of app: String) async throws -> OrderOutcome
    /// Whether the stores are asked for changes at all, as the operator has set it.
    var makesChanges: Bool { get }
    /// Asks for a change. A request with an idempotency key that was answered before gets the same outcome.
    ///
    /// - Throws: ``ReadError``, ``AppendError``: then the store was not asked.
    func ask(_ request: StoreWrite, in stream: StreamKey) async throws -> StoreActOutcome
    /// What came of the request with an idempotency key; nil if there was none. One without a known answer is repeated, as it
    /// was.
    ///
    /// - Throws: ``ReadError``, ``AppendError``: then the store was not asked.
    func outcome(of key: StoreWrite.IdempotencyKey, in stream: StreamKey) async throws -> StoreActOutcome?
}

/// What asking for a change led to.
package enum StoreActOutcome: Sendable {
    /// The store was asked. What it answered is an event, unless `isRecorded` is false.
    case asked(StoreWrite, isRecorded: Bool)
    /// An earlier request for another change of this kind has no answer. The store was not asked.
    case open(StoreWrite)
    /// The first request with this idempotency key waits for the store. It was not asked again.
    case underWay(StoreWrite)
    /// The idempotency key is of another request. The store was not asked.
    case keyUsed
    /// No store of the app makes such a change.
    case impossible
}
