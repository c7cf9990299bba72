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
    /// Records a request that the server sends later.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    func note(_ request: StoreWrite, in stream: StreamKey) async throws
    /// Asks for a change.
    ///
    /// - Throws: ``ReadError``, ``AppendError``: then the store was not asked.
    func ask(_ request: StoreWrite, in stream: StreamKey) async throws -> StoreActOutcome
}

/// What asking for a change led to.
package enum StoreActOutcome: Sendable {
    /// The store was asked. What it answered is an event, unless `isRecorded` is false.
    case asked(StoreWrite, isRecorded: Bool)
    /// An earlier request for another change of this kind has no answer. The store was not asked.
    case open(StoreWrite)
    /// No store of the app makes such a change.
    case impossible
}
