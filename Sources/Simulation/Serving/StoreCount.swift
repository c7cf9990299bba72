import Encoding
import Subscriptions

/// A request to the simulated store, with its answer.
package struct StoreQuestion: Sendable, Hashable {
    package let host: Subscriptions.Environment
    /// The SHA-256 of the receipt, as hexadecimal digits; nil if the request had none.
    package let receipt: String?
    /// See ``StoreFault/name``.
    package let fault: String?
    /// The original transaction ids of the receipt's Apple Account. Empty if the answer names none.
    package var subscriptions: [String] = []
    /// Nil if there was no answer.
    package var status: Int?

    init(host: Subscriptions.Environment, receipt: String?, fault: String?) {
        self.host = host
        self.receipt = receipt
        self.fault = fault
    }
}

/// The number of equal requests with equal answers.
package struct StoreCount: Sendable, Hashable {
    package let question: StoreQuestion
    /// The place of the first of them among all kinds of requests.
    let ordinal: Int
    package private(set) var count: Int
    /// The simulated time of the last one.
    package private(set) var lastAt: Instant

    init(question: StoreQuestion, ordinal: Int, count: Int, lastAt: Instant) {
        self.question = question
        self.ordinal = ordinal
        self.count = count
        self.lastAt = lastAt
    }

    mutating func add(at instant: Instant) {
        count += 1
        lastAt = instant
    }

    /// `{"host":…,"receipt":…,"subscriptions":[…],"status":…,"fault":…,"count":…,"lastAt":…}`
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("host", question.host.rawValue)
            writer.member("receipt", question.receipt)
            writer.key("subscriptions")
            writer.array(question.subscriptions) { $0.value($1) }
            writer.member("status", question.status)
            writer.member("fault", question.fault)
            writer.member("count", count)
            writer.member("lastAt", lastAt)
        }
    }
}
