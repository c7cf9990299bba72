/// The results of posted requests.
package struct PostingCounts: Sendable {
    /// Requests with a final answer, by status.
    package internal(set) var statuses: [Int: Int] = [:]
    /// Requests that failed after the last retry, with a 5xx answer or without an answer.
    package internal(set) var failed = 0
    /// Failed requests whose last attempt had no answer.
    package internal(set) var unanswered = 0
    package internal(set) var retries = 0
    /// Requests that were answered 409 as expected.
    package internal(set) var refused = 0
    /// Requests that were accepted although 409 was expected.
    package internal(set) var wronglyAccepted = 0

    package var done: Int { statuses.values.reduce(0, +) + failed }
    package var answered: Int { done - unanswered }
    /// Requests with a final answer other than 200 to 206, which Apple treats as success, or an expected 409.
    package var rejected: Int { statuses.filter { !Self.success.contains($0.key) }.values.reduce(0, +) - refused }

    private static let success = 200...206

    /// Adds a final answer.
    ///
    /// - Parameter isRefused: Whether the expected answer is 409.
    mutating func add(status: Int, isRefused: Bool) {
        statuses[status, default: 0] += 1
        guard isRefused else { return }
        if status == 409 { refused += 1 }
        if Self.success.contains(status) { wronglyAccepted += 1 }
    }

    /// Adds the counts of other requests.
    mutating func add(_ other: PostingCounts) {
        statuses.merge(other.statuses, uniquingKeysWith: +)
        failed += other.failed
        unanswered += other.unanswered
        retries += other.retries
        refused += other.refused
        wronglyAccepted += other.wronglyAccepted
    }

    /// The counts as one line of text.
    ///
    /// - Parameters:
    ///   - verb: The action that was counted.
    ///   - total: The number of requests to send, while some are still to be sent.
    package func description(_ verb: String = "posted", of total: Int? = nil) -> String {
        let byStatus = statuses.merging([200: 0]) { known, _ in known }.sorted { $0.key < $1.key }
            .map { "answered \($0.key): \($0.value)" }.joined(separator: ", ")
        return "\(verb) \(done)" + (total.map { " of \($0)" } ?? "") + ", \(byStatus), rejected: \(rejected), "
            + "failed: \(failed)" + (retries > 0 ? ", retries: \(retries)" : "")
            + (refused > 0 ? ", refused as expected: \(refused)" : "")
            + (wronglyAccepted > 0 ? ", wrongly accepted: \(wronglyAccepted)" : "")
    }
}
