import EventLog

/// Which checks of a stream a round has begun, so that each is made once and one answer serves all subscriptions of an
/// Apple Account.
struct PollCourse: Sendable {
    /// What came of a question.
    struct Answer: Sendable {
        let number: Int
        let wasAsked: Bool
        /// The subscriptions whose checks were recorded, or replaced by the facts of the answer.
        let settled: Set<String>
    }

    /// What an answer probably covers.
    struct Coverage: Sendable {
        /// Those that are known by the receipt.
        var subscriptions: Set<String> = []
        /// The `appTransactionId`s of the Apple Account, whose subscriptions are all in one answer.
        var accounts: Set<String> = []
    }

    /// The number of questions to the store.
    private(set) var asked = 0
    /// The subscriptions whose checks need no question in this round.
    private(set) var seen: Set<String> = []
    /// By number of the question: what its answer probably covers.
    private var expected: [Int: Coverage] = [:]
    private var lastNumber = 0

    /// The number of questions without an answer.
    var inFlight: Int { expected.count }

    /// Whether a check is neither made nor expected to be covered by a question in flight.
    func isOpen(_ check: CheckQueue.DueCheck) -> Bool {
        let id = check.originalTransactionId
        return !seen.contains(id) && !expected.values.contains { $0.subscriptions.contains(id) }
    }

    /// Whether a question in flight is about one of these Apple Accounts.
    func isAsking(about accounts: Set<String>) -> Bool {
        expected.values.contains { !$0.accounts.isDisjoint(with: accounts) }
    }

    /// - Returns: The number of the question.
    mutating func begin(_ check: CheckQueue.DueCheck, covering coverage: Coverage) -> Int {
        lastNumber += 1
        seen.insert(check.originalTransactionId)
        expected[lastNumber] = coverage
        return lastNumber
    }

    mutating func skip(_ check: CheckQueue.DueCheck) {
        seen.insert(check.originalTransactionId)
    }

    mutating func note(_ answer: Answer) {
        expected[answer.number] = nil
        seen.formUnion(answer.settled)
        if answer.wasAsked { asked += 1 }
    }
}
