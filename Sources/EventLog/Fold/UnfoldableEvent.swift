/// An event that cannot be folded, or a row of a projection whose stored facts cannot be decoded.
package struct UnfoldableEvent: Error, CustomStringConvertible {
    /// The position of the event, or of the last event about the row.
    package let position: Int64
    package let problem: String

    package init(position: Int64, problem: String) {
        self.position = position
        self.problem = problem
    }

    package var description: String { "the event at position \(position) cannot be folded: \(problem)" }
}
