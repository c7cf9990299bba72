import Synchronization

/// The customers about whose unproven purchases a store is asked while they wait, a few of each at a time.
final class AskingCustomers: Sendable {
    struct Key: Sendable, Hashable {
        let app: String
        /// Nil for all hand-ins without one.
        let customerId: String?
    }

    /// The number of hand-ins of each purchase.
    private let questions = Mutex<[Key: [String: Int]]>([:])

    /// Pair it with ``leave(_:_:)`` if it returns true. Several hand-ins of one purchase are one question.
    ///
    /// - Returns: False if ``Limits/unprovenOfCustomerMax`` questions are asked about other purchases of the customer.
    func enter(_ key: Key, _ purchase: String) -> Bool {
        questions.withLock { questions in
            var asked = questions[key] ?? [:]
            guard asked[purchase] != nil || asked.count < Limits.unprovenOfCustomerMax else { return false }
            asked[purchase, default: 0] += 1
            questions[key] = asked
            return true
        }
    }

    func leave(_ key: Key, _ purchase: String) {
        questions.withLock { questions in
            guard var asked = questions[key] else { return }
            let left = (asked[purchase] ?? 1) - 1
            asked[purchase] = left > 0 ? left : nil
            questions[key] = asked.isEmpty ? nil : asked
        }
    }
}
