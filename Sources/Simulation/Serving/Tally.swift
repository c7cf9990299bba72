import Encoding

/// A request to a simulated store, with its answer.
package protocol TallyQuestion: Sendable, Hashable {
    /// Writes the members that tell it from other requests.
    func write(to writer: inout JSONWriter)
}

/// The requests to a simulated store, counted by request and answer.
package struct Tally<Question: TallyQuestion>: Sendable {
    /// The number of equal requests with equal answers.
    package struct Entry: Sendable, Hashable {
        package let question: Question
        /// The place of the first of them among all kinds of requests.
        fileprivate let ordinal: Int
        package fileprivate(set) var count = 0
        /// The simulated time of the last one.
        package fileprivate(set) var lastAt: Instant

        /// An object with the members of the question, and `"count":…,"lastAt":…`.
        func write(to writer: inout JSONWriter) {
            writer.object { writer in
                question.write(to: &writer)
                writer.member("count", count)
                writer.member("lastAt", lastAt)
            }
        }
    }

    private var counted: [Question: Entry] = [:]

    mutating func add(_ question: Question, at instant: Instant) {
        var entry = counted[question] ?? Entry(question: question, ordinal: counted.count, lastAt: instant)
        entry.count += 1
        entry.lastAt = instant
        counted[question] = entry
    }

    /// In the order of their first requests.
    var entries: [Entry] { counted.values.sorted { $0.ordinal < $1.ordinal } }
}
