import EventLog

/// Which checks of a stream a round has begun, so that each is made once and one answer serves all subscriptions of an
/// Apple Account.
struct PollCourse: Sendable {
    /// What came of a question.
    struct Answer: Sendable {
        let number: Int
        let wasAsked: Bool
        /// The subscriptions whose checks were recorded.
        let recorded: Set<String>
    }

    /// The number of questions to the store.
    private(set) var asked = 0
    /// The subscriptions whose checks need no question in this round.
    private(set) var seen: Set<String> = []
    /// By number of the question: the subscriptions that its answer probably covers.
    private var expected: [Int: Set<String>] = [:]
    private var lastNumber = 0

    /// The number of questions without an answer.
    var inFlight: Int { expected.count }

    /// Whether a check is neither made nor expected to be covered by a question in flight.
    func isOpen(_ check: CheckQueue.DueCheck) -> Bool {
        let id = check.originalTransactionId
        return !seen.contains(id) && !expected.values.contains { $0.contains(id) }
    }

    /// - Parameter covered: The subscriptions known by the receipt.
    /// - Returns: The number of the question.
    mutating func begin(_ check: CheckQueue.DueCheck, covering covered: Set<String>) -> Int {
        lastNumber += 1
        seen.insert(check.originalTransactionId)
        expected[lastNumber] = covered
        return lastNumber
    }

    mutating func skip(_ check: CheckQueue.DueCheck) {
        seen.insert(check.originalTransactionId)
    }

    mutating func note(_ answer: Answer) {
        expected[answer.number] = nil
        seen.formUnion(answer.recorded)
        if answer.wasAsked { asked += 1 }
    }
}
