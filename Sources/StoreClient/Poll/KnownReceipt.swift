import AppStore
import EventLog
import Readers
import Subscriptions

/// A receipt to ask about a subscription with.
struct KnownReceipt: Sendable {
    let receipt: Receipt
    /// The `originalTransactionId`s that are known by it. Others may have been added since.
    let subscriptions: Set<String>
}

/// Finds the receipt with which Apple can be asked about a subscription.
struct ReceiptFinder: Sendable {
    let log: LogReader
    let handIns: HandInLog

    /// The receipt of the newest event about the subscription that has one; else that of the newest hand-in that names
    /// it. Any of them will do: Apple answers with what it knows now.
    ///
    /// - Returns: Nil if there is none.
    func latest(of facts: SubscriptionFacts, in stream: StreamKey) async throws(ReadError) -> KnownReceipt? {
        let positions = try await log.positionsWithReceipt(among: facts.positions.sorted(), in: stream)
        for position in positions.sorted(by: >).prefix(Limits.receiptEventsMax) {
            guard let body = try await log.body(at: position, in: stream),
                let receipt = Receipt(latestIn: body.bytes)
            else { continue }
            return KnownReceipt(receipt: receipt, subscriptions: body.subscriptions)
        }
        let handedIn = try await handIns.newestReceipt(naming: facts.originalTransactionId, in: stream)
        return handedIn.map {
            KnownReceipt(receipt: Receipt(stored: $0.bytes), subscriptions: Set($0.subscriptions))
        }
    }
}
