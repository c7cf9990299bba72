/// How posting went.
struct Tally: Sendable {
    /// Answers that were final, by status.
    var statuses: [Int: Int] = [:]
    /// Given up after the last retry, with an answer of 5xx or without any.
    var failed = 0
    /// Of these, without any.
    var unanswered = 0
    var retries = 0

    var done: Int { statuses.values.reduce(0, +) + failed }
    var answered: Int { done - unanswered }
    /// Answers that are neither 200 to 206, which Apple takes for success, nor worth a retry.
    var refused: Int { statuses.filter { !(200...206).contains($0.key) }.values.reduce(0, +) }

    /// One line about them.
    ///
    /// - Parameters:
    ///   - verb: What was done.
    ///   - total: How many there are to post, if they are not posted yet.
    func description(_ verb: String = "posted", of total: Int? = nil) -> String {
        let byStatus = statuses.merging([200: 0]) { known, _ in known }.sorted { $0.key < $1.key }
            .map { "answered \($0.key): \($0.value)" }.joined(separator: ", ")
        return "\(verb) \(done)" + (total.map { " of \($0)" } ?? "") + ", \(byStatus), refused: \(refused), "
            + "failed: \(failed)" + (retries > 0 ? ", tried again: \(retries)" : "")
    }
}
