import Encoding
import Subscriptions

/// A request to the simulated App Store Server API, with its answer.
package struct StoreAPIQuestion: Sendable, Hashable {
    package let host: Subscriptions.Environment
    /// Nil for a path or a method that Apple does not have.
    package let endpoint: StoreEndpoint?
    /// The id in the path; nil if there is none.
    package let id: String?
    /// See ``StoreAPIFault/name``.
    package let fault: String?
    /// The HTTP status; nil if there was no answer.
    package var status: Int?
    package var errorCode: Int?

    init(host: Subscriptions.Environment, endpoint: StoreEndpoint?, id: String?, fault: String?) {
        self.host = host
        self.endpoint = endpoint
        self.id = id
        self.fault = fault
    }
}

/// The number of equal requests with equal answers.
package struct StoreAPICount: Sendable, Hashable {
    package let question: StoreAPIQuestion
    /// The place of the first of them among all kinds of requests.
    let ordinal: Int
    package private(set) var count = 0
    /// The simulated time of the last one.
    package private(set) var lastAt: Instant

    init(question: StoreAPIQuestion, ordinal: Int, lastAt: Instant) {
        self.question = question
        self.ordinal = ordinal
        self.lastAt = lastAt
    }

    mutating func add(at instant: Instant) {
        count += 1
        lastAt = instant
    }

    /// `{"host":…,"endpoint":…,"id":…,"status":…,"errorCode":…,"fault":…,"count":…,"lastAt":…}`
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("host", question.host.rawValue)
            writer.member("endpoint", question.endpoint?.rawValue)
            writer.member("id", question.id)
            writer.member("status", question.status)
            writer.member("errorCode", question.errorCode)
            writer.member("fault", question.fault)
            writer.member("count", count)
            writer.member("lastAt", lastAt)
        }
    }
}
