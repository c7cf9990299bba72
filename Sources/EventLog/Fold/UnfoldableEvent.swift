/// An event that cannot be folded, or a row of the projections that cannot be read as the facts of its events.
package struct UnfoldableEvent: Error, CustomStringConvertible {
    /// Of the event, or of the last one about the row.
    package let position: Int64
    package let problem: String

    package init(position: Int64, problem: String) {
        self.position = position
        self.problem = problem
    }

    package var description: String { "the event at position \(position) cannot be folded: \(problem)" }
}
