import Encoding

/// A request to the simulated API, with its answer.
package struct PlayQuestion: Sendable, Hashable {
    /// Nil for a path or a method that Google does not have.
    package let endpoint: PlayEndpoint?
    /// The purchase token or the order id in the path.
    package let id: String
    /// See ``PlayFault/name``.
    package let fault: String?
    /// The HTTP status; nil if there was no answer.
    package var status: Int?
    package var reason: String?
}

/// The number of equal requests with equal answers.
package struct PlayCount: Sendable, Hashable {
    package let question: PlayQuestion
    /// The place of the first of them among all kinds of requests.
    let ordinal: Int
    package private(set) var count = 0
    /// The simulated time of the last one.
    package private(set) var lastAt: Instant

    init(question: PlayQuestion, ordinal: Int, lastAt: Instant) {
        self.question = question
        self.ordinal = ordinal
        self.lastAt = lastAt
    }

    mutating func add(at instant: Instant) {
        count += 1
        lastAt = instant
    }

    /// `{"endpoint":…,"id":…,"status":…,"reason":…,"fault":…,"count":…,"lastAt":…}`
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("endpoint", question.endpoint?.rawValue)
            writer.member("id", question.id)
            writer.member("status", question.status)
            writer.member("reason", question.reason)
            writer.member("fault", question.fault)
            writer.member("count", count)
            writer.member("lastAt", lastAt)
        }
    }
}
