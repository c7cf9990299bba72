import Synchronization

/// The customers about whose unproven purchases a store is asked while they wait, a few of each at a time.
final class AskingCustomers: Sendable {
    struct Key: Sendable, Hashable {
        let app: String
        /// Nil for all hand-ins without one.
        let customerId: String?
    }

    private let questions = Mutex<[Key: Int]>([:])

    /// Pair it with ``leave(_:)`` if it returns true.
    ///
    /// - Returns: False if ``Limits/unprovenOfCustomerMax`` questions are asked about purchases of the customer.
    func enter(_ key: Key) -> Bool {
        questions.withLock { questions in
            guard questions[key, default: 0] < Limits.unprovenOfCustomerMax else { return false }
            questions[key, default: 0] += 1
            return true
        }
    }

    func leave(_ key: Key) {
        questions.withLock { questions in
            let left = (questions[key] ?? 1) - 1
            questions[key] = left > 0 ? left : nil
        }
    }
}
