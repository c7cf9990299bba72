import EventLog
import Readers

/// Finds the purchases of orders by their numbers, for backends and for people in the console, who share one rate for each
/// store.
package struct OrderQuestions: Sendable {
    private let reader: ConsoleReader
    private let stores: any StoreActs
    private let rate = KeyedBuckets<String>(
        perSecond: Limits.orderQuestionsPerSecond, capacity: Limits.orderQuestionBurstMax,
        keysMax: Limits.handInCustomersMax)

    package init(reader: ConsoleReader, stores: any StoreActs) {
        self.reader = reader
        self.stores = stores
    }

    /// The questions exceed the rate. No store was asked.
    struct TooMany: Error, CustomStringConvertible {
        let description =
            "too many order numbers: at most \(Limits.orderQuestionsPerSecond) question per second to a store"
    }

    /// The apps whose store can be asked about an order.
    func apps(for number: OrderNumber) -> [String] { stores.apps(for: number) }

    /// Looks for an order in the ledger, or else asks the store of each app: each of these is a question.
    ///
    /// - Parameter app: Only this app; nil for each.
    /// - Throws: ``TooMany``, ``ReadError``, ``AppendError``.
    func purchases(of number: OrderNumber, app: String?) async throws -> OrderSearch.Answer {
        try await OrderSearch(reader: reader, apps: stores.apps(for: number)) { questions in
            // More apps than the burst could never be asked about.
            let count = min(questions, Limits.orderQuestionBurstMax)
            guard rate.admit(number.store.rawValue, as: count, at: .now) else { throw TooMany() }
        } ask: { number, app in
            try await stores.find(number, of: app)
        }.purchases(of: number, app: app)
    }
}
